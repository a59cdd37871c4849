#pragma once

namespace rocmforge::hopper {

// Limits of quantised products with many tokens; the measurements are in docs/kernels/hopper_matmul.md.

/// Up to this many tokens products are computed in segments of k (matmul_high, and matmul_few.h where share_columns() cuts
/// none); above, and where a weight has many rows, in tiles of whole outputs (matmul_tiles.h), which then occupy the
/// multiprocessors without segments.
inline constexpr int most_few_tokens = 128;
inline constexpr int many_rows = 12288;
inline constexpr int most_small_tile_tokens = 64;  ///< in tiles of 16, 32 or 64 tokens
inline constexpr int most_tile_tokens = 256;
inline constexpr int tile_rows = 128;
inline constexpr int high_tile_rows = 256;
/// Time of a tile of 256 rows in times of one of 128.
inline constexpr double high_tile_cost = 1.7;

/// k of an output with few rows is cut into segments for work-groups with tiles of 256 rows (matmul_high), so that the
/// multiprocessors are occupied with as few columns one after another as possible. Returns the columns of a segment; k: the
/// output is not cut. The last segment has half of them at least.
inline constexpr long long least_share_columns = 512;
inline constexpr long long share_cost_columns = 512;  ///< in whose time a segment's sums are left and added up
constexpr long long share_columns(long long rows, long long k, int compute_units) {
  constexpr long long unit = 256;  // the longest record
  const long long tiles = (rows + high_tile_rows - 1) / high_tile_rows;
  long long best = k;
  long long best_time = (tiles + compute_units - 1) / compute_units * k;
  for (long long columns = least_share_columns; columns < k; columns += unit) {
    const long long segments = (k + columns - 1) / columns;
    const long long time = (tiles * segments + compute_units - 1) / compute_units * (columns + share_cost_columns);
    if (time <= best_time && 2 * (k - (segments - 1) * columns) >= columns) {
      best = columns;
      best_time = time;
    }
  }
  return best;
}

/// Rows that matmul_cluster.cu takes, of three or four segments: with fewer or more it was slower. An output may have at
/// most as many weights as two work-groups on each multiprocessor hold at once.
inline constexpr int least_cluster_columns = 1025;
inline constexpr int most_cluster_columns = 2048;
inline constexpr long long most_cluster_weights = 264LL * 128 * 512;

/// Relative time of a tile of 128 rows by its number of tokens; 1 for 256 tokens.
constexpr double tile_cost(int tokens) { return tokens == 256 ? 1.0 : 0.57; }

}  // namespace rocmforge::hopper
