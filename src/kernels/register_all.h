#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Every kernel this build has, one line each. With the device that they will run on, which must be there whenever one is
/// chosen or run, what rests on a vendor's library is chosen only when that has been tried there.
void register_all_kernels(KernelRegistry& registry, Device* device = nullptr);

}  // namespace rocmforge
