#pragma once

#include <cstdint>

#include "kernels/matmul/hopper/matmul_tiles_args.h"

namespace rocmforge::hopper {

/// Work-groups of a cluster, each with one segment of k.
inline constexpr int most_cluster_ranks = 8;
inline constexpr int cluster_segment_columns = 512;
inline constexpr int cluster_threads = 256;
inline constexpr int cluster_warps = cluster_threads / 32;
inline constexpr int cluster_weights_arrivals = cluster_warps;  ///< a lane for each warp's rows, with their bytes
inline constexpr int cluster_tile_rows = 128;
inline constexpr int most_cluster_tokens = 32;

/// One weight of a launch and where its product goes.
struct MatmulClusterPart {
  const std::uint8_t* weight;  ///< as weight_layout.h says
  const float* bias;           ///< [n] or null
  float* out;                  ///< [tokens, n], rows `stride` apart
  std::int64_t stride;
  std::int64_t tile_bytes;  ///< of 16 rows
  std::int32_t n;
  std::int32_t first_tile;  ///< of the launch's tiles of 128 rows; meaningless with a gate
  WeightFormat format;
  TilesStore store;  ///< plain or add
};

/// See matmul_cluster.h. Grid: (segments of k, tiles of rows); the segments of a tile are a cluster.
struct MatmulClusterArgs {
  MatmulClusterPart parts[most_tiles_parts];
  const float* x;  ///< [tokens, k], rows x_stride apart
  std::int64_t x_stride;
  const float* norm_weight;  ///< [k]: rows are normalised by their root mean square first; or null
  float norm_epsilon;
  std::int32_t k;
  std::int32_t tokens;
  std::int32_t x_aligned;  ///< rows of x and norm_weight start at 16-byte boundaries
  std::int32_t num_parts;
  std::int32_t weight_bytes;  ///< of shared memory for 16 rows and a segment: the most of all parts
  std::int32_t unused;
  Gate gate;  ///< not none: parts[0].out = activation(product of part 0) * product of part 1; a tile has 64 rows of each
};

/// Where the parts of a work-group's shared memory begin, in bytes, from a multiple of 1,024 on.
struct ClusterShared {
  int weights;
  int scales;   ///< of the segment's activations, by token: a power of two each
  int squares;  ///< sums of squares of the segment, by token
  int barrier;
  int bytes;  ///< with room for alignment
};

/// Sums are stored over the activations, [token][row]. The padding keeps stores free of bank conflicts.
inline constexpr int cluster_row_stride = cluster_tile_rows + 4;

constexpr ClusterShared cluster_shared(int tile_tokens, int weight_bytes) {
  const int x = cluster_segment_columns * tile_tokens * 2;
  const int sums = tile_tokens * cluster_row_stride * 4;
  ClusterShared shared{};
  shared.weights = ((x > sums ? x : sums) + 127) / 128 * 128;
  shared.scales = shared.weights + cluster_tile_rows / weight_tile_rows * weight_bytes;
  shared.squares = shared.scales + tile_tokens * 4;
  shared.barrier = shared.squares + tile_tokens * 4;
  shared.bytes = shared.barrier + 8 + 1024;
  return shared;
}

/// Bytes of 16 rows and a segment.
constexpr int cluster_weight_bytes(WeightFormat format) {
  return cluster_segment_columns / weight_layout(format).elems * weight_layout(format).record_bytes;
}

}  // namespace rocmforge::hopper
