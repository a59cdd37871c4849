#pragma once

#include <memory>

#include "device/device.h"
#include "ops/matmul.h"

namespace rocmforge {

/// "amd": quantised weights, repacked at load (weight_layout.h). Up to 8 tokens read each weight once and take the norm
/// before and the gate behind the product into the call; more go through the matrix tiles of "gpu".
std::unique_ptr<MatmulKernel> make_amd_matmul();

/// "amd_dense": F16 and BF16 weights as the file stores them. Up to 8 tokens as above; more by hipBLASLt where it serves the
/// device (make_gpu_blas_matmul), else through the tiles of "gpu". `device` as there.
std::unique_ptr<MatmulKernel> make_amd_dense_matmul(Device* device = nullptr);

}  // namespace rocmforge
