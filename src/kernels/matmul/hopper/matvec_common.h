#pragma once

// Shared by the kernels for few tokens: the tiles and steps of work-groups and warps, and the outputs from partial sums.

#include "kernels/matmul/hopper/gate_value.h"
#include "kernels/matmul/hopper/matmul_args.h"

namespace rocmforge::hopper {

/// Whether tiles come in pairs, of gate and up.
__device__ inline bool takes_pairs(const MatvecArgs& args) {
  return args.gate != Gate::none && args.gate_source == GateSource::first_part;
}

/// Tile `item` of a work-group: which part of the launch, and which tile of it.
struct TilePlace {
  int part;
  int tile;
};

__device__ inline TilePlace place_of(const MatvecArgs& args, int item) {
  if (takes_pairs(args)) {
    return {item & 1, static_cast<int>(blockIdx.x) + (item >> 1) * static_cast<int>(gridDim.x)};
  }
  const int tile = static_cast<int>(blockIdx.x) + item * static_cast<int>(gridDim.x);
  int part = 0;
#pragma unroll
  for (int i = 1; i < most_matvec_parts; ++i) {
    if (i < args.num_parts && tile >= args.parts[i].first_tile) {
      part = i;
    }
  }
  return {part, tile - args.parts[part].first_tile};
}

/// Tiles of this work-group.
__device__ inline int count_items(const MatvecArgs& args) {
  const int blocks = static_cast<int>(gridDim.x);
  const int tiles = (args.tiles - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  return takes_pairs(args) ? 2 * tiles : tiles;
}

/// Elements [8 at, 8 at + 8) of a row.
__device__ inline void load_eight(const MatvecInput& input, const float* row, int at, float (&values)[8]) {
  if (input.aligned != 0) {
    const float4 low = reinterpret_cast<const float4*>(row)[2 * at];
    const float4 high = reinterpret_cast<const float4*>(row)[2 * at + 1];
    values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
    values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = row[8 * at + i];
    }
  }
}

/// Writes the outputs of tiles [first, first + 2) of the work-group, whose sums are complete once `wait` returns. Whole
/// warps call it, each with its number of `warps`; a lane has a row of one of the tiles.
template <int tokens, class Wait>
__device__ inline void finish(const MatvecArgs& args, const float* sums, int first, int items, int partial_sums,
                              const Wait& wait) {
  constexpr int tile_sums = weight_tile_rows * tokens;
  const bool pairs = takes_pairs(args);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int item = first + lane / weight_tile_rows;
  const TilePlace place = place_of(args, min(item, items - 1));
  const MatvecPart& part = args.parts[place.part];
  const int row = place.tile * weight_tile_rows + lane % weight_tile_rows;
  const bool used = item < items && row < part.n && (!pairs || place.part == 0);
  const bool accumulates = part.accumulate != 0;
  const bool gated = args.gate != Gate::none;
  const float bias = used && part.bias != nullptr ? part.bias[row] : 0.0f;
  const float other_bias = used && pairs && args.parts[1].bias != nullptr ? args.parts[1].bias[row] : 0.0f;
  float before[tokens];  // loaded while the sums are waited for
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    const bool reads = (accumulates || (gated && !pairs)) && used && t < args.input.tokens;
    before[t] = reads ? part.out[t * part.stride + row] : 0.0f;
  }
  wait();
  if (!used) {
    return;
  }
  const auto sum_of = [&](int which, int t) {
    const float* of_item =
        sums + (which & (2 * matvec_chunk - 1)) * matvec_warps * tile_sums + t * weight_tile_rows + lane % weight_tile_rows;
    float sum = of_item[0];
#pragma unroll
    for (int l = 1; l < matvec_warps; ++l) {
      if (l < partial_sums) {
        sum += of_item[l * tile_sums];
      }
    }
    return sum;
  };
#pragma unroll
  for (int t = 0; t < tokens; ++t) {
    if (t >= args.input.tokens) {
      break;
    }
    float y = sum_of(item, t) + bias;
    if (pairs) {
      y = activate(args.gate, y) * (sum_of(item + 1, t) + other_bias);
    } else if (gated) {
      y *= activate(args.gate, before[t]);
    }
    part.out[t * part.stride + row] = accumulates ? before[t] + y : y;
  }
}

}  // namespace rocmforge::hopper
