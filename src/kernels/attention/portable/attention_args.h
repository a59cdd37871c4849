#pragma once

#include <cstdint>

#include "kernels/formats/portable/coded_pages.h"
#include "tensor/dtype.h"

namespace rocmforge::gpu {

/// Where K and V lie, paged or dense, in elements of their type. Position p of sequence s starts at
///   paged   block_tables[s * max_blocks + (p >> block_shift)] * block_stride + (p & (2^block_shift - 1)) * token_stride
///   dense   s * sequence_stride + p * token_stride
/// and KV head h is head_stride * h further on; its head_dim elements are side by side.
/// In q8_0, which is paged only, an element is one byte, a quant. A head's scales lie quant_bytes after its first quant.
struct KvAddress {
  const void* k;
  const void* v;
  const std::int32_t* block_tables;  ///< [sequences, max_blocks]; null when dense
  std::int64_t block_stride;
  std::int64_t sequence_stride;
  std::int64_t token_stride;
  std::int64_t head_stride;
  std::int32_t max_blocks;
  std::int32_t block_shift;
  std::int32_t quant_bytes;
};

/// The parameter of every attention kernel. Scores are in units of log2: softmax(x) = 2^(x log2(e) - ...).
struct AttentionArgs {
  const void* q;  ///< [tokens, q_heads * head_dim] of io_dtype, rows q_stride elements apart
  void* out;      ///< [tokens, q_heads * head_dim] of io_dtype
  KvAddress kv;
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]
  const std::int32_t* kv_lengths;     ///< [num_sequences]
  const std::int32_t* sequence_of;    ///< [num_tokens], read by the paged kernels when they walk rows
  const float* sinks;                 ///< [q_heads] or null
  const float* mask;                  ///< [tokens, mask_stride] or null
  std::int64_t q_stride;
  std::int64_t mask_stride;
  DType io_dtype;
  std::int32_t rows;  ///< which sequences are computed, as Attention::Rows: 0 all, 1 of one row, 2 of several
  std::int32_t num_sequences;
  std::int32_t q_heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t causal;
  std::int32_t window;   ///< 0 for none; negative for chunks of -window positions, a power of two
  float scale_log2;      ///< scale * log2(e), without a soft-cap
  float soft_cap_scale;  ///< scale / cap with a soft-cap, else 0
  float soft_cap_log2;   ///< cap * log2(e)

  // Split KV (paged.hip)
  float* partial_sums;       ///< [items, splits, group tile, head_dim]
  float* partial_states;     ///< [items, splits, group tile, 2]: maximum and sum
  std::uint32_t* counters;   ///< [items], zero between launches
  std::int32_t first_item;   ///< first row or sequence of this launch
  std::int32_t group_tiles;  ///< tiles of query heads of a KV head
  std::int32_t by_sequence;  ///< items are sequences of one row each, not rows

  std::int32_t value_dim;  ///< elements of a head of the output, read by the kernels of a latent plane (latent.hip)
};

/// The same for kernels of rows that may see further than themselves (Attention::Spec::spans).
struct SpanAttentionArgs {
  AttentionArgs call;
  const std::int32_t* visible_end;  ///< [num_tokens]
};

/// The same for pages of quantised types and of two types: `call.kv` is not read.
struct CodedAttentionArgs {
  AttentionArgs call;
  CodedPages pages;
  const std::int32_t* visible_end;  ///< [num_tokens]; null: rows see up to themselves
};

/// Heads times the Walsh-Hadamard matrix, in place: a wave for each head of a row of a sequence that a call computes. Grid:
/// (sequences, rows of the longest, heads). Dynamic shared memory: a head of floats for each wave.
struct TurnHeadsArgs {
  void* x;  ///< [tokens, heads, head_dim] of io_dtype, rows `stride` elements apart
  std::int64_t stride;
  const std::int32_t* query_offsets;  ///< [num_sequences + 1]
  DType io_dtype;
  std::int32_t rows;  ///< as in AttentionArgs
  std::int32_t heads;
  std::int32_t head_dim;
  std::int32_t block;  ///< of the matrix
  float factor;        ///< 1 / sqrt(block)
};

/// A latent plane (latent.hip): the longest row and the most of it that is V, query heads of a wave and of a work-group.
inline constexpr std::int32_t latent_dims = 576;
inline constexpr std::int32_t latent_values = 512;
inline constexpr std::int32_t latent_wave_heads = 4;
inline constexpr std::int32_t latent_group = 32;

/// Split KV: the keys a row sees are cut into at most max_splits pieces, each a multiple of 256 keys; the cut depends on
/// their number alone.
inline constexpr std::int32_t split_keys = 256;
inline constexpr std::int32_t max_splits = 32;

constexpr std::int32_t keys_of_a_split(std::int32_t keys) {
  const std::int32_t pieces = (keys + split_keys - 1) / split_keys;
  return (pieces + max_splits - 1) / max_splits * split_keys;
}

}  // namespace rocmforge::gpu
