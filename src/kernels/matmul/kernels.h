#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/kernel_registry.h"

// The kernels of matrix products, by family.

namespace rocmforge {

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<MatmulKernel> make_reference_matmul();

// CPU: one kernel for each instruction set; `bodies` outlive it.

/// Matrix products on the CPU, one kernel for each instruction set in this build: "cpu_avx512", "cpu_avxvnni", "cpu_avx2",
/// "cpu_neon", "cpu_generic". All share one packed layout (matmul_layout.h).
///
/// Quantised weights: activations become 8-bit integers with one scale per 32 elements, products of a block are exact
/// integers, and blocks are added in f32 in rising order of k. Plain weights (F32, F16, BF16) are
/// multiplied in f32; "cpu_avx512_bf16" multiplies BF16 weights with activations rounded to BF16, where that is faster.
std::vector<std::unique_ptr<MatmulKernel>> make_cpu_matmuls();

// Portable, for DeviceKind::hip or cuda.

/// "gpu": every format on every GPU, in the file's own layout. Up to 8 tokens go through kernels that read each weight once
/// and sum in float; more through matrix tiles of 16-bit elements with sums in float (F32 weights: float throughout).
std::unique_ptr<MatmulKernel> make_gpu_matmul(DeviceKind kind);
/// "gpu_blas": F16 and BF16 weights by the vendor's matrix library (cuBLASLt, hipBLASLt), where the library can be opened at
/// run time and its trial products on `device` are right. The device must be open whenever the kernel is asked; with null,
/// for programs that run no product, opening the library suffices. Up to 8 tokens, and products that the library refuses
/// later, are computed as by "gpu". `libraries` are the files to try in place of the vendor's names.
std::unique_ptr<MatmulKernel> make_gpu_blas_matmul(DeviceKind kind, Device* device = nullptr,
                                                   std::vector<std::string> libraries = {});

// AMD: RDNA3, RDNA4 and CDNA.

/// "amd": quantised weights, repacked at load (weight_layout.h). Calls of up to 8 tokens read each weight once and include
/// the norm before and the gate after the product; calls of more go through the matrix tiles of "gpu".
std::unique_ptr<MatmulKernel> make_amd_matmul();
/// "amd_dense": F16 and BF16 weights as the file stores them. Up to 8 tokens as above; more by hipBLASLt where it serves the
/// device (make_gpu_blas_matmul), else through the tiles of "gpu". `device` as there.
std::unique_ptr<MatmulKernel> make_amd_dense_matmul(Device* device = nullptr);

// NVIDIA's compute capability 9.0.

/// "hopper": quantised weights, repacked at load (weight_layout.h).
std::unique_ptr<MatmulKernel> make_hopper_matmul();
/// "hopper_dense": F16 and BF16 weights as the file stores them; more than a few tokens by cuBLASLt (make_gpu_blas_matmul,
/// which also describes `device`).
std::unique_ptr<MatmulKernel> make_hopper_dense_matmul(Device* device = nullptr);

}  // namespace rocmforge
