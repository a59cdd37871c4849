#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Registers kernels for NVIDIA's compute capability 9.0 (H100, H200).
/// `device`: see register_all_kernels.
void register_hopper_kernels(KernelRegistry& registry, Device* device = nullptr);

}  // namespace rocmforge
