#pragma once

// What the work-groups of latent_decode leave of a sequence, added up.

#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/latent_decode_args.h"
#include "kernels/hopper/tile.h"

namespace rocmforge::hopper {

/// What the parts are multiplied with, and the sum of all weights; by one warp.
__device__ inline void find_factors(const LatentDecodeArgs& args, std::int64_t first, int parts, float* factors,
                                    float* total) {
  constexpr int each = most_parts_of_a_sequence / 32;
  static_assert(each * 32 == most_parts_of_a_sequence);
  const int lane = static_cast<int>(threadIdx.x);
  float2 states[each];
  float maximum = -INFINITY;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = lane + j * 32;
    states[j] = i < parts ? reinterpret_cast<const float2*>(args.states)[first + std::int64_t{i} * args.q_heads]
                          : float2{-INFINITY, 0.0f};
    maximum = fmaxf(maximum, states[j].x);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, step));
  }
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const float factor = exp2_fast(states[j].x - maximum);
    factors[lane + j * 32] = factor;
    sum = lane + j * 32 < parts ? fmaf(states[j].y, factor, sum) : sum;
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
  }
  if (lane == 0) {
    *total = sum;
  }
}

/// Adds up the parts of 128 values of a head, a warp every n-th one. Grid: heads with their runs of values, sequences.
template <int values>
__device__ void latent_merge(const LatentDecodeArgs& args) {
  constexpr int warps = latent_merge_threads / 32;
  constexpr int runs = values / latent_merge_values;
  constexpr int columns = values / 4;
  constexpr int each = most_parts_of_a_sequence / warps;
  static_assert(each * warps == most_parts_of_a_sequence);
  __shared__ float factors[most_parts_of_a_sequence];
  __shared__ float total;
  __shared__ float4 parts[warps][32];
  gpu::release_successor();
  const int head = static_cast<int>(blockIdx.x) / runs;
  const int sequence = args.first_sequence + static_cast<int>(blockIdx.y);
  const int row = args.query_offsets[sequence];
  const bool computed = args.query_offsets[sequence + 1] - row == 1;
  const int keys = args.kv_lengths[sequence];
  const int count = keys > 0 ? latent_parts(keys) : 0;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = static_cast<int>(blockIdx.x) % runs * 32 + lane;
  const std::int64_t first = std::int64_t{blockIdx.y} * args.parts * args.q_heads + head;
  gpu::wait_for_predecessor();
  if (!computed) {
    return;
  }
  float4 part[each];
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = warp + j * warps;
    part[j] = i < count
                  ? reinterpret_cast<const float4*>(args.sums)[(first + std::int64_t{i} * args.q_heads) * columns + column]
                  : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
  if (warp == 0) {
    find_factors(args, first, count, factors, &total);
  }
  __syncthreads();
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < each; ++j) {
    const int i = warp + j * warps;
    const float factor = i < count ? factors[i] : 0.0f;
    sum = float4{fmaf(part[j].x, factor, sum.x), fmaf(part[j].y, factor, sum.y), fmaf(part[j].z, factor, sum.z),
                 fmaf(part[j].w, factor, sum.w)};
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp > 0) {
    return;
  }
#pragma unroll
  for (int w = 1; w < warps; ++w) {
    const float4 other = parts[w][lane];
    sum = float4{sum.x + other.x, sum.y + other.y, sum.z + other.z, sum.w + other.w};
  }
  const float scale = total > 0.0f ? 1.0f / total : 0.0f;
  reinterpret_cast<float4*>(args.out)[(std::int64_t{row} * args.q_heads + head) * columns + column] =
      float4{sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale};
}

}  // namespace rocmforge::hopper
