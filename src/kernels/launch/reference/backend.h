#pragma once

#include "ops/kernel_registry.h"

namespace rocmforge {

void register_reference_kernels(KernelRegistry& registry);

}  // namespace rocmforge
