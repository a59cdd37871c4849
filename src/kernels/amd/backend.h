#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Kernels for AMD's RDNA3 and RDNA4 (gfx11, gfx12).
void register_amd_kernels(KernelRegistry& registry);

}  // namespace rocmforge
