#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

// Plain kernels for DeviceKind::hip or cuda: one output element a thread, sums in double. Other kernels are compared with
// them on the device itself, at any size.
std::unique_ptr<AttentionBackend> make_check_attention(DeviceKind kind);
std::unique_ptr<MatmulKernel> make_check_matmul(DeviceKind kind);

}  // namespace rocmforge
