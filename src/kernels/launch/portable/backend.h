#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The portable GPU kernels, for one kind of device: correct on every architecture that has code objects. `device`: see
/// register_all_kernels.
void register_gpu_kernels(KernelRegistry& registry, DeviceKind kind, Device* device = nullptr);

}  // namespace rocmforge
