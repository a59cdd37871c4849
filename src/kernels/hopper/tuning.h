#pragma once

namespace rocmforge::hopper {

// Quantised products with many tokens; what was measured is in docs/kernels/hopper_matmul.md.

/// Up to this many tokens weights pass in segments of k (matmul_few.h); above, tiles of whole outputs (matmul_tiles.h). The
/// latter fill the multiprocessors by themselves when a weight has many rows.
inline constexpr int most_few_tokens = 128;
inline constexpr int many_rows = 12288;
inline constexpr int most_few_tokens_of_many_rows = 32;
inline constexpr int most_tile_tokens = 256;
inline constexpr int tile_rows = 128;

/// Rows that matmul_cluster.cu takes, of three or four segments: with fewer or more it was slower. Of an output at most as
/// many weights as two work-groups on each multiprocessor take at once.
inline constexpr int least_cluster_columns = 1025;
inline constexpr int most_cluster_columns = 2048;
inline constexpr long long most_cluster_weights = 264LL * 128 * 512;

/// Time of a tile of 128 rows by its tokens, in units of the larger one's.
constexpr double tile_cost(int tokens) { return tokens == 256 ? 1.0 : 0.57; }

}  // namespace rocmforge::hopper
