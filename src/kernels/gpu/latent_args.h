#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// Append of latent rows; see ops/latent.h. Grid: tokens. Dynamic shared memory: cosine and sine of each pair, then the row,
/// head_dim floats. For a cache of q8_0 elements are bytes.
struct LatentAppendArgs {
  float* q;                          ///< [tokens, q_heads, q_dim], rows q_stride apart; the last elements turn in place
  const float* kv;                   ///< [tokens, rank + 2 * pairs or more], rows kv_stride apart
  const float* norm;                 ///< [rank]
  const float* inverse_frequency;    ///< [pairs]
  void* cache;                       ///< [blocks, block_elems] of the kernel's type
  const std::int32_t* positions;     ///< [tokens]
  const std::int32_t* sequence_of;   ///< [tokens]
  const std::int32_t* kv_lengths;    ///< [sequences]
  const std::int32_t* block_tables;  ///< [sequences, max_blocks]
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

/// A matrix for each head; see ops/latent.h. Grid: tiles of rows, heads, groups of tokens. Dynamic shared memory: `chunk`
/// elements of each token of a group.
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
  std::int32_t chunk;      ///< as in MatvecArgs
  std::int32_t x_aligned;  ///< likewise
  std::int32_t unused;
};
inline constexpr int head_tokens = 4;  ///< of a group

}  // namespace rocmforge::gpu
