#pragma once

#include <cstdint>

#include "kernels/formats/portable/coded_pages.h"
#include "kernels/tile/turn_shared.h"

namespace rocmforge::gpu {

/// Grid: tokens, heads (any number of work-groups). Dynamic shared memory: cosine and sine of each pair, n_rot floats; for a
/// cache of q8_0, whose elements are bytes here, then a head for each wave.
struct RopeAppendArgs {
  float* q;                           ///< [tokens, q_heads, head_dim], rows `stride` apart, rotated in place
  const float* k;                     ///< [tokens, kv_heads, head_dim], rows `stride` apart
  const float* v;                     ///< likewise
  const float* q_norm;                ///< [head_dim], null for no norm
  const float* k_norm;                ///< [head_dim], null for no norm
  const float* inverse_frequency;     ///< [pairs]
  void* cache;                        ///< [blocks, block_elems] of the kernel's type
  const std::int32_t* positions;      ///< [tokens, position_axes]
  const std::int32_t* sequence_of;    ///< [tokens]
  const std::int32_t* kv_lengths;     ///< [sequences]
  const std::int32_t* block_tables;   ///< [sequences, max_blocks]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  const std::int32_t* axes;           ///< [pairs], the axis of each; null: 0
  std::int64_t stride;
  std::int64_t block_elems;
  std::int64_t head_elems;  ///< from one head of a block to the next, K's then V's
  std::int32_t q_heads;
  std::int32_t kv_heads;  ///< 0: Q alone turns
  std::int32_t head_dim;
  std::int32_t pairs;  ///< n_rot / 2, 0 for no rotation
  std::int32_t position_axes;
  std::int32_t max_blocks;
  std::int32_t block_shift;  ///< log2 of a block's tokens
  std::int32_t adjacent;     ///< 1: pairs (2p, 2p + 1), 0: (p, p + pairs)
  std::int32_t k_by_dim;     ///< 1: K's blocks are dim_major
  std::int32_t v_by_dim;
  std::int32_t value_norm;       ///< 1: heads of V are normalised, without weights
  std::int32_t norm_after_turn;  ///< 1: heads are normalised after they turn, 0: before
  float norm_eps;
  float magnitude;
  float temperature_scale;          ///< 0 for none
  std::int32_t temperature_length;  ///< at least 1; negated where temperature_ahead is 1
};

/// The same for pages of quantised types but q8_0 alone, of two types, and of rotated K or V. Q turns with K. Dynamic shared
/// memory: a head for each wave, too.
struct RopeAppendCodedArgs {
  RopeAppendArgs rope;
  CodedPages pages;
  std::int32_t block;  ///< of the Walsh-Hadamard matrix
  float factor;        ///< 1 / sqrt(block)
};

}  // namespace rocmforge::gpu
