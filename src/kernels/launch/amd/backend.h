#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Registers kernels for AMD's RDNA3, RDNA4 and CDNA (gfx11, gfx12, gfx90a, gfx942, gfx950). `device`: the device they will
/// run on, null without one.
void register_amd_kernels(KernelRegistry& registry, Device* device = nullptr);

}  // namespace rocmforge
