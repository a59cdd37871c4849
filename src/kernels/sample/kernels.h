#pragma once

#include <memory>

#include "ops/kernel_registry.h"

// The kernels that draw tokens, by family.

namespace rocmforge {

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<OpKernel<SampleTokens>> make_reference_sample();

// Portable, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<SampleTokens>> make_gpu_sample(DeviceKind kind);

}  // namespace rocmforge
