#pragma once

#include <memory>
#include <vector>

#include "ops/experts.h"
#include "ops/latent.h"
#include "ops/matmul.h"

namespace rocmforge {

/// Matrix products on the CPU, one kernel for each instruction set in this build: "cpu_avx512", "cpu_avxvnni", "cpu_avx2",
/// "cpu_neon", "cpu_generic". All share one packed layout (matmul_layout.h).
///
/// Quantised weights: activations become 8-bit integers with one scale per 32 elements, products of a block are exact
/// integers, and blocks are added in f32 in rising order of k. Plain weights (F32, F16, BF16) are
/// multiplied in f32; "cpu_avx512_bf16" multiplies BF16 weights with activations rounded to BF16, where that is faster.
std::vector<std::unique_ptr<MatmulKernel>> make_cpu_matmuls();

/// Products with the matrices of chosen experts, by the same bodies: "cpu_avx512" and so on. Rows are sorted by expert, so
/// that each matrix is read once for up to 64 of them. Experts of BF16 are multiplied in f32 everywhere.
std::vector<std::unique_ptr<ExpertMatmulKernel>> make_cpu_expert_matmuls();

/// Products with a matrix for each head, one kernel for each instruction set likewise.
std::vector<std::unique_ptr<HeadMatmulKernel>> make_cpu_head_matmuls();

}  // namespace rocmforge
