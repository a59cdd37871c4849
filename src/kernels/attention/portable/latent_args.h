#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"
#include "kernels/matmul/portable/matmul_args.h"
#include "kernels/tile/turn_shared.h"

namespace rocmforge::gpu {

/// Append of latent rows; see ops/latent.h. Grid: tokens. Dynamic shared memory: cosine and sine of each pair, then the row,
/// head_dim floats. For a cache of q8_0 elements are bytes.
struct LatentAppendArgs {
  float* q;                           ///< [tokens, q_heads, q_dim], rows q_stride apart; the last elements turn in place
  const float* kv;                    ///< [tokens, rank + 2 * pairs or more], rows kv_stride apart
  const float* norm;                  ///< [rank]
  const float* inverse_frequency;     ///< [pairs]
  void* cache;                        ///< [blocks, block_elems] of the kernel's type
  const std::int32_t* positions;      ///< [tokens]
  const std::int32_t* sequence_of;    ///< [tokens]
  const std::int32_t* kv_lengths;     ///< [sequences]
  const std::int32_t* block_tables;   ///< [sequences, max_blocks]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  std::int64_t q_stride;
  std::int64_t kv_stride;
  std::int64_t block_elems;
  std::int32_t q_heads;
  std::int32_t q_dim;
  std::int32_t rank;
  std::int32_t head_dim;  ///< of a row: rank and what turns
  std::int32_t pairs;     ///< 0 for no rotation
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2 of a block's tokens
  std::int32_t adjacent;     ///< 1: pairs (2p, 2p + 1), 0: (p, p + pairs)
  float norm_eps;
  float magnitude;
  float temperature_scale;          ///< 0 for none
  std::int32_t temperature_length;  ///< at least 1
};
inline constexpr int latent_append_threads = 256;

/// Attention over a latent plane on matrix cores (latent_matrix.hip): query heads of a work-group and keys of a tile;
/// elements from one row to the next in shared memory, so that eight rows fall on different banks.
inline constexpr std::int32_t latent_matrix_heads = 16;
inline constexpr std::int32_t latent_matrix_keys = 32;
inline constexpr std::int32_t latent_matrix_stride = latent_dims + 8;
inline constexpr std::int32_t latent_matrix_weight_stride = latent_matrix_keys + 8;
/// Where the parts of the dynamic shared memory begin, in bytes; queries, keys and weights are of two bytes, the rest
/// floats.
struct LatentMatrixShared {
  std::int32_t keys;     ///< [stages, keys, stride], behind the queries, [heads, stride]
  std::int32_t scores;   ///< [2 halves, heads, keys]
  std::int32_t weights;  ///< [heads, weight_stride]
  std::int32_t factors;  ///< [heads]: what earlier sums are multiplied by
  std::int32_t maxima;   ///< [heads], at the end
  std::int32_t sums;     ///< [heads], likewise
  std::int32_t bytes;
};

/// With so many tiles of keys: one is copied while the other is multiplied, where the hardware copies by itself.
constexpr LatentMatrixShared latent_matrix_shared(int stages) {
  LatentMatrixShared memory{};
  memory.keys = 2 * latent_matrix_heads * latent_matrix_stride;
  memory.scores = memory.keys + 2 * stages * latent_matrix_keys * latent_matrix_stride;
  memory.weights = memory.scores + 4 * 2 * latent_matrix_heads * latent_matrix_keys;
  memory.factors = memory.weights + 2 * latent_matrix_heads * latent_matrix_weight_stride;
  memory.maxima = memory.factors + 4 * latent_matrix_heads;
  memory.sums = memory.maxima + 4 * latent_matrix_heads;
  memory.bytes = memory.sums + 4 * latent_matrix_heads;
  return memory;
}
constexpr int latent_matrix_stages(bool copies_by_itself) { return copies_by_itself ? 2 : 1; }

/// The keys that a row sees are cut into at most latent_pieces pieces, each a multiple of 256 keys; the cut depends on their
/// number alone.
inline constexpr std::int32_t latent_pieces = 128;
constexpr std::int32_t latent_piece_keys(std::int32_t keys) {
  const std::int32_t pieces = (keys + split_keys - 1) / split_keys;
  return (pieces + latent_pieces - 1) / latent_pieces * split_keys;
}

struct LatentMergeArgs {
  AttentionArgs attention;
  std::int32_t pieces;  ///< for which the launch had work-groups
  std::int32_t unused;
};
inline constexpr int latent_merge_threads = 128;

/// A matrix for each head; see ops/latent.h. Grid: tiles of rows, heads, groups or tiles of tokens. Dynamic shared memory
/// for groups: `chunk` elements of each token of one.
struct HeadProductArgs {
  const std::uint8_t* weight;  ///< [heads] of [n] rows
  std::int64_t head_bytes;
  std::int64_t row_bytes;
  const float* x;  ///< [tokens, heads, k + tail], rows x_stride apart
  std::int64_t x_stride;
  float* out;  ///< [tokens, heads, n + tail]
  std::int64_t tokens;
  std::int32_t n;
  std::int32_t k;
  std::int32_t tail;
  std::int32_t chunk;                 ///< as in MatvecArgs; not read by the tiles
  std::int32_t x_aligned;             ///< likewise
  DType dtype;                        ///< of the weights
  const std::int32_t* sequence_of;    ///< [tokens], or null: all tokens are wanted, else those of sequences with one row
  const std::int32_t* query_offsets;  ///< [sequences + 1]
};
inline constexpr int head_tokens = 4;  ///< of a group

/// Up to this many tokens groups serve a call, beyond it the tiles of head_tiles.hip, but for F32. It is the limit of the
/// dense products (most_matvec_tokens), so that a step rounds alike up to the same number of sequences in all its products.
/// Eight tokens are two groups, which decode a matrix twice; a tile decodes it once for 32.
inline constexpr int most_group_tokens = most_matvec_tokens;

/// The tile of a work-group of head_tiles.hip. With 64 rows there are 160 and 80 work-groups for the 20 heads of 512 and 256
/// rows of GLM-4.7-Flash; each reads all activations of its head.
inline constexpr int head_tile_tokens = 32;
inline constexpr int head_tile_rows = 64;
inline constexpr int head_tile_threads = 256;

/// The matrices of some heads as 16-bit rows along the latent; see ops/latent.h. Grid: pieces, heads, K and V.
struct LatentWeightsArgs {
  const void* keys;    ///< [heads] of rows [rank, plain_dim]
  const void* values;  ///< [heads] of rows [value_dim, rank]
  void* out;           ///< [heads, plain_dim + value_dim, rank]
  std::int64_t key_head_bytes;
  std::int64_t value_head_bytes;
  std::int64_t key_row_bytes;
  std::int64_t value_row_bytes;
  DType key_type;
  DType value_type;
  std::int32_t rank;
  std::int32_t plain_dim;
  std::int32_t value_dim;
  std::int32_t unused;
};
inline constexpr int latent_weights_threads = 128;

/// K and V of heads from latent rows. Grid: tiles of keys, tiles of a head's columns x heads, sequences.
struct LatentExpandArgs {
  KvAddress kv;         ///< of the latent plane
  const void* weights;  ///< as LatentWeightsArgs::out
  void* k;              ///< [sequences, heads, capacity, head_dim]
  void* v;
  const std::int32_t* kv_lengths;  ///< [sequences]
  std::int64_t capacity;           ///< keys of a sequence
  std::int32_t heads;
  std::int32_t rank;
  std::int32_t plain_dim;
  std::int32_t value_dim;
  std::int32_t head_dim;
  std::int32_t in_eights;  ///< 1: eight columns of K or V lie side by side at a 16-byte boundary
};
inline constexpr int expand_rows = 128;  ///< of a work-group
inline constexpr int expand_columns = 64;
inline constexpr int expand_threads = 256;

/// See CopyHeads in ops/latent.h. Grid: parts of a token's row, tokens.
struct CopyHeadsArgs {
  const float* x;
  float* out;
  std::int64_t first_token;
  std::int64_t tokens;
  std::int32_t heads;
  std::int32_t dim;
  std::int32_t out_dim;
  std::int32_t out_heads;
  std::int32_t first_head;
  std::int32_t unused;
};

}  // namespace rocmforge::gpu
