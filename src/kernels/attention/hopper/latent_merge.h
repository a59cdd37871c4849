#pragma once

// Latent attention of one query row a sequence: the second launch, which adds up the parts that latent_decode.cu has left of
// a sequence's pieces.

#include "kernels/attention/hopper/latent_decode_args.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {

inline constexpr int states_of_lane = (most_pieces_of_a_sequence + 31) / 32;
inline constexpr int most_factors = states_of_lane * 32;

/// The factors of the pieces' parts, of most_factors; returns the sum of all weights. By one warp.
__device__ inline float find_factors(const LatentDecodeArgs& args, std::int64_t first, int pieces, float* factors) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float2 states[states_of_lane];
  float maximum = -INFINITY;
#pragma unroll
  for (int j = 0; j < states_of_lane; ++j) {
    const int i = lane + j * 32;
    states[j] = i < pieces ? reinterpret_cast<const float2*>(args.states)[first + std::int64_t{i} * args.q_heads]
                           : float2{-INFINITY, 0.0f};
    maximum = fmaxf(maximum, states[j].x);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, step));
  }
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < states_of_lane; ++j) {
    const float factor = exp2_fast(states[j].x - maximum);
    factors[lane + j * 32] = factor;
    sum = lane + j * 32 < pieces ? fmaf(states[j].y, factor, sum) : sum;
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  return sum;
}

/// 128 values of a head of a sequence.
template <int values>
struct LatentRun {
  static constexpr int runs = values / latent_merge_values;
  static constexpr int columns = values / 4;
  const LatentDecodeArgs& args;
  int head;
  int column;  ///< of this lane, four values each
  int row;
  int pieces;
  bool computed;
  std::int64_t first;  ///< the part of the head's first piece

  /// `run`: of all heads.
  __device__ LatentRun(const LatentDecodeArgs& args, int run) : args(args) {
    const int sequence = args.first_sequence + static_cast<int>(blockIdx.y);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    head = run / runs;
    column = run % runs * 32 + lane;
    row = args.query_offsets[sequence];
    computed = args.query_offsets[sequence + 1] - row == 1;
    const int keys = args.kv_lengths[sequence];
    pieces = keys > 0 ? latent_pieces(keys) : 0;
    first = std::int64_t{blockIdx.y} * args.pieces * args.q_heads + head;
  }
  /// A piece's part, zeros after the last piece.
  [[nodiscard]] __device__ float4 part(int piece) const {
    return piece < pieces
               ? reinterpret_cast<const float4*>(args.sums)[(first + std::int64_t{piece} * args.q_heads) * columns + column]
               : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
  __device__ void store(const float4& sum, float total) const {
    const float scale = total > 0.0f ? 1.0f / total : 0.0f;
    reinterpret_cast<float4*>(args.out)[(std::int64_t{row} * args.q_heads + head) * columns + column] =
        float4{sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale};
  }
};

__device__ inline float4 add_product(const float4& part, float factor, const float4& sum) {
  return {fmaf(part.x, factor, sum.x), fmaf(part.y, factor, sum.y), fmaf(part.z, factor, sum.z),
          fmaf(part.w, factor, sum.w)};
}

/// Adds up the pieces of 128 values of a head, a warp every n-th piece. Grid: heads with their runs of values, sequences.
template <int values>
__device__ inline void latent_merge(const LatentDecodeArgs& args) {
  constexpr int warps = latent_merge_threads / 32;
  constexpr int each = (most_pieces_of_a_sequence + warps - 1) / warps;
  __shared__ float factors[most_factors];
  __shared__ float total;
  __shared__ float4 sums[warps][32];
  gpu::release_successor();
  const LatentRun<values> run(args, static_cast<int>(blockIdx.x));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  gpu::wait_for_predecessor();
  if (!run.computed) {
    return;
  }
  float4 part[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    part[j] = run.part(warp + j * warps);
  }
  if (warp == 0) {
    total = find_factors(args, run.first, run.pieces, factors);
  }
  __syncthreads();
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = warp + j * warps;
    sum = add_product(part[j], i < run.pieces ? factors[i] : 0.0f, sum);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) {
    return;
  }
#pragma unroll
  for (int w = 1; w < warps; ++w) {
    sum = plus(sum, sums[w][lane]);
  }
  run.store(sum, total);
}

/// The same for sequences of no more pieces than latent_merge has warps, with the same bits: a warp adds up all pieces of
/// 128 values. Grid: such warps for all heads, sequences.
template <int values>
__device__ inline void latent_merge_few(const LatentDecodeArgs& args) {
  constexpr int warps = latent_merge_threads / 32;
  static_assert(warps == most_few_latent_pieces);
  __shared__ float factors[warps][most_factors];
  gpu::release_successor();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int at = static_cast<int>(blockIdx.x) * warps + warp;
  const LatentRun<values> run(args, at);
  gpu::wait_for_predecessor();
  if (!run.computed || at >= args.q_heads * run.runs) {
    return;
  }
  float4 part[most_few_latent_pieces];
#pragma unroll
  for (int i = 0; i < most_few_latent_pieces; ++i) {
    part[i] = run.part(i);
  }
  const float total = find_factors(args, run.first, run.pieces, factors[warp]);
  __syncwarp();
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < most_few_latent_pieces; ++i) {
    const float factor = i < run.pieces ? factors[warp][i] : 0.0f;
    sum = plus(sum, add_product(part[i], factor, float4{0.0f, 0.0f, 0.0f, 0.0f}));
  }
  run.store(sum, total);
}

}  // namespace rocmforge::hopper
