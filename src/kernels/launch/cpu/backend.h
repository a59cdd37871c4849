#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

void register_cpu_kernels(KernelRegistry& registry);

}  // namespace rocmforge
