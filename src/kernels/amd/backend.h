#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Kernels for AMD's RDNA3, RDNA4 and CDNA (gfx11, gfx12, gfx90a, gfx942).
/// `device`: the one they will run on, null without one.
void register_amd_kernels(KernelRegistry& registry, Device* device = nullptr);

}  // namespace rocmforge
