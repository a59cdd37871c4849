#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

/// Every kernel this build has, one line each.
void register_all_kernels(KernelRegistry& registry);

}  // namespace rocmforge
