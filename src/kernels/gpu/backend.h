#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The portable GPU kernels, for one kind of device: correct on every architecture that has code objects.
void register_gpu_kernels(KernelRegistry& registry, DeviceKind kind);

}  // namespace rocmforge
