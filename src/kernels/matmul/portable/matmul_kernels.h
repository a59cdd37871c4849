#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/matmul.h"

namespace rocmforge {

/// "gpu": every format on every GPU, in the file's own layout. Up to 8 tokens go through kernels that read each weight once
/// and sum in float; more through matrix tiles of 16-bit elements with sums in float (F32 weights: float throughout).
std::unique_ptr<MatmulKernel> make_gpu_matmul(DeviceKind kind);

/// "gpu_blas": F16 and BF16 weights by the vendor's matrix library (cuBLASLt, hipBLASLt), where the library can be opened at
/// run time and its trial products on `device` are right. The device must be open whenever the kernel is asked; with null,
/// for programs that run no product, opening the library suffices. Up to 8 tokens, and products that the library refuses
/// later, are computed as by "gpu". `libraries` are the files to try in place of the vendor's names.
std::unique_ptr<MatmulKernel> make_gpu_blas_matmul(DeviceKind kind, Device* device = nullptr,
                                                   std::vector<std::string> libraries = {});

}  // namespace rocmforge
