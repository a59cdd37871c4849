#pragma once

// The input of a product after a post-norm: sums of the residual stream x and the norm of y, see MatvecPostNorm. Computed by
// the matvec_threads threads that multiply or quantise. A chunk is 8 elements of a row, and chunk i belongs to thread i %
// matvec_threads in every kernel, so that sums of squares have the same bits.

#include "kernels/matmul/hopper/matvec_common.h"

namespace rocmforge::hopper {

/// The sum of squares of the warp's chunks of a token's y, in all its lanes.
__device__ inline float post_norm_squares(const MatvecInput& input, int t) {
  constexpr int batch = 2;  // loaded together
  const float* row = input.post_norm.y + t * input.post_norm.y_stride;
  float squares = 0.0f;
  for (int first = static_cast<int>(threadIdx.x); 8 * first < input.k; first += batch * matvec_threads) {
    float values[batch][8] = {};
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (const int at = first + b * matvec_threads; 8 * at < input.k) {
        load_eight(input, row, at, values[b]);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        squares = fmaf(values[b][i], values[b][i], squares);
      }
    }
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    squares += __shfl_xor_sync(0xffffffffu, squares, mask);
  }
  return squares;
}

/// The factor of y besides its weights, from the sums of all warps.
__device__ inline float post_norm_factor(const MatvecInput& input, const float* squares) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < matvec_warps; ++w) {
    sum += squares[w];
  }
  return input.post_norm.factor * rsqrtf(sum / static_cast<float>(input.k) + input.post_norm.epsilon);
}

/// Replaces 8 elements of x by their sums with the norm of y.
__device__ inline void add_post_norm(const MatvecPostNorm& post, float factor, const float (&y)[8],
                                     const float (&weights)[8], float (&x)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = fmaf(factor * y[i], weights[i], x[i]) * post.scale;
  }
}

/// Writes chunk `at` of a token's sums.
__device__ inline void store_sums_of_row(const MatvecInput& input, int t, int at, const float (&values)[8]) {
  float* row = input.post_norm.out + t * input.post_norm.out_stride;
  if (input.aligned != 0) {
    reinterpret_cast<float4*>(row)[2 * at] = {values[0], values[1], values[2], values[3]};
    reinterpret_cast<float4*>(row)[2 * at + 1] = {values[4], values[5], values[6], values[7]};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      row[8 * at + i] = values[i];
    }
  }
}

/// Where all work-groups of a launch make the same sums: whether this one writes chunk `at`, the same for 32 neighbours.
__device__ inline bool writes_share(int at) { return static_cast<unsigned>(at) / 32 % gridDim.x == blockIdx.x; }

}  // namespace rocmforge::hopper
