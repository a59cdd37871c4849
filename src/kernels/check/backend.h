#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// The plain kernels of a GPU, named "check". They are chosen only by name.
void register_check_kernels(KernelRegistry& registry, DeviceKind kind);

}  // namespace rocmforge
