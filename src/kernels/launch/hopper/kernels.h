#pragma once

#include <memory>

#include "ops/kernel_registry.h"

namespace rocmforge {

std::unique_ptr<AttentionBackend> make_hopper_attention_prefill();  ///< "hopper_prefill"
std::unique_ptr<AttentionBackend> make_hopper_attention_decode();   ///< "hopper_decode"
std::unique_ptr<AttentionBackend> make_hopper_latent_decode();      ///< "hopper_latent"

/// "hopper": quantised weights, repacked at load (weight_layout.h).
std::unique_ptr<MatmulKernel> make_hopper_matmul();
/// "hopper_dense": F16 and BF16 weights as the file stores them; more than a few tokens by cuBLASLt (make_gpu_blas_matmul,
/// which also describes `device`).
std::unique_ptr<MatmulKernel> make_hopper_dense_matmul(Device* device = nullptr);

/// "hopper": the norm before experts, the router's product and the choice in one launch.
std::unique_ptr<RouteRowsKernel> make_hopper_route_rows();
/// "hopper": quantised weights of experts, repacked at load.
std::unique_ptr<ExpertMatmulKernel> make_hopper_expert_matmul();

}  // namespace rocmforge
