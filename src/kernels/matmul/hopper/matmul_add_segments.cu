// Adds up, in order, the sums of segments of k that work-groups of matmul_high have left, and stores outputs.

#include "kernels/matmul/hopper/matmul_tiles_parts.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {
namespace {

/// Four sums lie side by side in memory: of a row and the one 8 further on, of a token and the next one.
struct FourSums {
  int row;
  int token;
};

/// Of all segments, which are `stride` apart.
__device__ inline float4 sum_of(const MatmulTilesArgs& args, int at, std::int64_t stride) {
  const float4* from = reinterpret_cast<const float4*>(args.partials) + at;
  float4 sum{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 8
  for (int segment = 0; segment < args.segments; ++segment) {
    sum = plus(sum, __ldcg(from + segment * stride));
  }
  return sum;
}

/// Calls store(which, row, token) for each of the four that exists.
template <class Store>
__device__ inline void for_each_of_four(const MatmulTilesArgs& args, const MatmulTilesPart& part, const FourSums& four,
                                        Store&& store) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = four.row + i / 2 * 8;
    const int token = four.token + i % 2;
    if (row < part.n && token < args.tokens) {
      store(i, row, token);
    }
  }
}

__device__ inline float bias_of(const MatmulTilesPart& part, int row) {
  return part.bias != nullptr ? part.bias[row] : 0.0f;
}

template <int tokens>
__device__ void add_segments(const MatmulTilesArgs& args) {
  constexpr int quads = tokens / 8;  // fours of a thread
  constexpr int consumer_fours = quads * add_segments_consumer;
  const bool gated = args.gate != Gate::none;
  const int tiles = args.row_tiles * args.token_tiles;
  const std::int64_t stride = std::int64_t{tiles} * high_tile_consumers * consumer_fours;
  // With a gate every second consumer has rows of up, the one before it the same rows of the gate.
  const int outputs_of_tile = (gated ? high_tile_consumers / 2 : high_tile_consumers) * consumer_fours;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int tile = index / outputs_of_tile;
  if (tile >= tiles) {
    return;
  }
  const int local = index - tile * outputs_of_tile;
  const int rows = local / consumer_fours;  // which 64 of the tile
  const int thread = local % add_segments_consumer;
  int row_tile = tile / args.token_tiles;
  int part = 0;
  while (!gated && part + 1 < args.num_parts && row_tile >= args.parts[part + 1].first_tile) {
    ++part;
  }
  const MatmulTilesPart& to = args.parts[part];
  row_tile -= to.first_tile;
  const FourSums four{
      row_tile * (outputs_of_tile / consumer_fours) * 64 + rows * 64 + thread / 32 * 16 + thread % 32 / 4,
      tile % args.token_tiles * tokens + local % consumer_fours / add_segments_consumer * 8 + thread % 4 * 2};
  const int consumer = gated ? 2 * rows : rows;
  const int at = (tile * high_tile_consumers + consumer) * consumer_fours + local % consumer_fours;
  const float4 sum = sum_of(args, at, stride);
  const float sums[4] = {sum.x, sum.y, sum.z, sum.w};
  if (gated) {
    const float4 up = sum_of(args, at + consumer_fours, stride);
    const float ups[4] = {up.x, up.y, up.z, up.w};
    for_each_of_four(args, to, four, [&](int i, int row, int token) {
      const float scale = args.x_scales[token];
      const float gate = sums[i] * scale + bias_of(to, row);
      to.out[token * to.stride + row] = activate(args.gate, gate) * (ups[i] * scale + bias_of(args.parts[1], row));
    });
  } else {
    for_each_of_four(args, to, four, [&](int i, int row, int token) {
      float* out = to.out + token * to.stride + row;
      const float before = to.store != TilesStore::plain ? *out : 0.0f;
      *out = joined(to, before, sums[i] * args.x_scales[token] + bias_of(to, row));
    });
  }
}

}  // namespace

#define ROCMFORGE_ADD_SEGMENTS(tokens)                                             \
  extern "C" __global__ void __launch_bounds__(add_segments_threads)               \
      matmul_add_segments_##tokens(const __grid_constant__ MatmulTilesArgs args) { \
    gpu::begin_dependent();                                                        \
    add_segments<tokens>(args);                                                    \
  }
ROCMFORGE_ADD_SEGMENTS(16)
ROCMFORGE_ADD_SEGMENTS(32)
ROCMFORGE_ADD_SEGMENTS(64)

}  // namespace rocmforge::hopper
