#pragma once

#include <memory>
#include <vector>

#include "ops/kernel_registry.h"

// The kernels of the router and of products with the matrices of chosen experts, by family.

namespace rocmforge {

// Plain scalar code that sums in double: the definition that every other kernel is compared with, and the kernel of last
// resort.
std::unique_ptr<OpKernel<RouteTokens>> make_reference_route_tokens();
std::unique_ptr<RouteRowsKernel> make_reference_route_rows();
std::unique_ptr<ExpertMatmulKernel> make_reference_expert_matmul();

// CPU: one kernel for each instruction set; `bodies` outlive it.

/// Products with the matrices of chosen experts, by the same bodies: "cpu_avx512" and so on. Rows are sorted by expert, so
/// that each matrix is read once for up to 64 of them. Experts of BF16 are multiplied in f32 everywhere.
std::vector<std::unique_ptr<ExpertMatmulKernel>> make_cpu_expert_matmuls();

// Portable, for DeviceKind::hip or cuda.
std::unique_ptr<OpKernel<RouteTokens>> make_gpu_route_tokens(DeviceKind kind);
std::unique_ptr<RouteRowsKernel> make_gpu_route_rows(DeviceKind kind);
/// Up to 8 tokens every slot is computed by itself; with more, slots are sorted by expert and go through matrix tiles.
std::unique_ptr<ExpertMatmulKernel> make_gpu_expert_matmul(DeviceKind kind);

// AMD: RDNA3, RDNA4 and CDNA.

/// "amd": the portable kernel, whose work for one token may be a part of a launch with attention's output and the experts.
/// RDNA3 and RDNA4 alone.
std::unique_ptr<RouteRowsKernel> make_amd_route_rows();
/// "amd": quantised experts, repacked at load (weight_layout.h). Up to 8 tokens take one launch for gate, up and activation
/// and one for down; more go through the dense matrix tiles, sorted by expert.
std::unique_ptr<ExpertMatmulKernel> make_amd_expert_matmul();

// NVIDIA's compute capability 9.0.

/// "hopper": the norm before experts, the router's product and the choice in one launch.
std::unique_ptr<RouteRowsKernel> make_hopper_route_rows();
/// "hopper": quantised weights of experts, repacked at load.
std::unique_ptr<ExpertMatmulKernel> make_hopper_expert_matmul();

}  // namespace rocmforge
