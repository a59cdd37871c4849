#pragma once

#include <cstdint>

#include "device/tensor_map.h"

namespace rocmforge::hopper {

/// How q and out are stored.
enum class IoType : std::int32_t { f32, f16, bf16 };

/// Attention of a ragged step by tiles of 128 query rows of one head. K and V come through tensor maps: of a paged cache
/// [num_blocks, 2 kv_heads, block_tokens, head_dim] (the same map twice), or of dense tensors [sequences, kv_len, kv_heads,
/// head_dim].
struct AttentionPrefillArgs {
  TensorMap k;
  TensorMap v;
  TensorMap q_map;  ///< [tokens, q_heads, head_dim] with q_bulk
  const void* q;    ///< [tokens, q_heads * head_dim] of IoType, rows q_stride apart
  std::int64_t q_stride;
  void* out;                          ///< [tokens, q_heads * head_dim] of IoType, dense
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]
  const std::int32_t* kv_lengths;     ///< [num_sequences]
  const std::int32_t* block_tables;   ///< [num_sequences, max_blocks]; null for dense K and V
  std::uint32_t* taken;               ///< [2]: tiles of q that were taken, work-groups that are done; zeros between launches
  const float* sinks;                 ///< [q_heads] or null
  const float* mask;                  ///< [tokens, mask_stride] or null: added to the scores
  std::int64_t mask_stride;
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2(block_tokens)
  std::int32_t box_tokens;   ///< keys of a page in one copy; divides the page and the tile
  std::int32_t num_sequences;
  std::int32_t max_q_tiles;    ///< tiles of the longest sequence
  std::int32_t section_heads;  ///< query heads whose K and V stay in the L2 cache while all their tiles are computed
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t causal;
  std::int32_t window;     ///< 0 for none
  std::int32_t rows;       ///< 0: all sequences, 1: those with a single row, 2: those with several
  std::int32_t q_aligned;  ///< every 8 elements of q that a thread reads start at a multiple of 16 bytes
  std::int32_t q_bulk;     ///< q is stored as K and V are and is copied by q_map
  IoType io;
  float scale;
  float soft_cap;  ///< 0 for none
};

}  // namespace rocmforge::hopper
