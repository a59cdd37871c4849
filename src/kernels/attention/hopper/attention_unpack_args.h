#pragma once

#include <cstdint>

#include "kernels/formats/portable/coded_pages.h"

namespace rocmforge::hopper {

inline constexpr std::int32_t unpack_keys = 64;  ///< of a head that a work-group dequantises
inline constexpr std::int32_t unpack_threads = 256;

/// Q8_0 pages (KvLayout, token_major) to dense K and V of 16-bit numbers, [num_sequences, kv_heads, capacity, head_dim], for
/// the sequences that a call of prefill computes. Keys that no row sees may be left out. Grid: pieces of unpack_keys keys,
/// 2 kv_heads, sequences.
struct AttentionUnpackArgs {
  const void* pages;
  std::int64_t block_stride;  ///< bytes
  std::int64_t head_stride;   ///< bytes; K's heads, then V's
  void* k;
  void* v;
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]
  const std::int32_t* kv_lengths;     ///< [num_sequences]
  const std::int32_t* block_tables;   ///< [num_sequences, max_blocks]
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2(block_tokens)
  std::int32_t capacity;     ///< keys of a sequence that k and v have room for
  std::int32_t kv_heads;
  std::int32_t head_dim;   ///< a multiple of 32
  std::int32_t window;     ///< 0 for none
  std::int32_t tile_keys;  ///< of the kernel that reads the tensors: it reads whole tiles
  std::int32_t rows;       ///< as in AttentionPrefillArgs
};

/// The same from pages of any type but f32: `call.pages` and its strides are not read.
struct AttentionUnpackCodedArgs {
  AttentionUnpackArgs call;
  gpu::CodedPages pages;
};

}  // namespace rocmforge::hopper
