#pragma once

#include "kernels/matmul/amd/matvec_args.h"

// Products of F16 and BF16 weights with few tokens (matvec_dense.h). The launch has MatvecArgs; of a part, `weight` is
// [n, k] as the file stores it, `tile_bytes` are those of weight_tile_rows rows, and `record_bytes` those of record_elems
// columns of one row.

namespace rocmforge::amd {

/// Bytes of 256 columns of a row.
inline constexpr int dense_record_bytes = record_elems * 2;

/// Bytes of a record of a token's activations in shared memory, as floats: element 64 p + 8 c + 4 h + i at [p][h][c][i], so
/// that lanes that read 16 bytes each, lane c for its own c, read neighbouring bytes.
inline constexpr int dense_image_bytes = record_elems * 4;

/// Columns of x that shared memory holds at a time, for each of so many tokens: a multiple of two records.
constexpr int dense_chunk_elems(int tokens) { return 12288 / (tokens <= 1 ? 1 : tokens <= 2 ? 2 : tokens <= 4 ? 4 : 8); }

/// As matvec_shared().
constexpr MatvecShared dense_shared(int tokens, int cut_rows, int records, int all_records, int items) {
  MatvecShared shared{};
  shared.token_bytes = (records + 1) / 2 * 2 * dense_image_bytes;
  shared.partials = tokens * shared.token_bytes;
  shared.squares = shared.partials + items * partial_sums * tokens * cut_rows * 4;
  shared.factors = shared.squares + tokens * all_records * 4;
  shared.bytes = shared.factors + most_matvec_tokens * 4;
  return shared;
}

}  // namespace rocmforge::amd
