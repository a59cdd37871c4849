#pragma once

#include <memory>

#include "ops/matmul.h"

namespace rocmforge {

/// "gpu": every format on every GPU, in the file's own layout. Up to 8 tokens go through kernels that read each weight once
/// and sum in float; more through matrix tiles of 16-bit elements with sums in float (F32 weights: float throughout).
std::unique_ptr<MatmulKernel> make_gpu_matmul(DeviceKind kind);

}  // namespace rocmforge
