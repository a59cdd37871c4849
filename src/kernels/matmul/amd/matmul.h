#pragma once

#include <memory>

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge {

/// "amd": quantised weights, repacked at load (weight_layout.h). Calls of up to 8 tokens read each weight once and include
/// the norm before and the gate after the product; calls of more go through the matrix tiles of "gpu".
std::unique_ptr<MatmulKernel> make_amd_matmul();

/// "amd_dense": F16 and BF16 weights as the file stores them. Up to 8 tokens as above; more by hipBLASLt where it serves the
/// device (make_gpu_blas_matmul), else through the tiles of "gpu". `device` as there.
std::unique_ptr<MatmulKernel> make_amd_dense_matmul(Device* device = nullptr);

}  // namespace rocmforge
