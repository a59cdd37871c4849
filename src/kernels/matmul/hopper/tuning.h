#pragma once

namespace rocmforge::hopper {

// Limits of quantised products with many tokens; the measurements are in docs/kernels/hopper_matmul.md.

/// Up to this many tokens products are computed in segments of k (matmul_few.h); above, and where a weight has many rows, in
/// tiles of whole outputs (matmul_tiles.h), which then occupy the multiprocessors without segments.
inline constexpr int most_few_tokens = 128;
inline constexpr int many_rows = 12288;
inline constexpr int most_small_tile_tokens = 64;  ///< in tiles of 16, 32 or 64 tokens
inline constexpr int most_tile_tokens = 256;
inline constexpr int tile_rows = 128;
inline constexpr int high_tile_rows = 256;
/// Time of a tile of 256 rows in times of one of 128.
inline constexpr double high_tile_cost = 1.7;

/// Rows that matmul_cluster.cu takes, of three or four segments: with fewer or more it was slower. An output may have at
/// most as many weights as two work-groups on each multiprocessor hold at once.
inline constexpr int least_cluster_columns = 1025;
inline constexpr int most_cluster_columns = 2048;
inline constexpr long long most_cluster_weights = 264LL * 128 * 512;

/// Relative time of a tile of 128 rows by its number of tokens; 1 for 256 tokens.
constexpr double tile_cost(int tokens) { return tokens == 256 ? 1.0 : 0.57; }

}  // namespace rocmforge::hopper
