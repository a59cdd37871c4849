#pragma once

#include <cstdint>

#include "kernels/formats/portable/coded_pages.h"
#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

/// The rotation of a head's elements, and what queries are multiplied by: ops/rope.h.
struct TurnCheckArgs {
  const float* inverse_frequency;  ///< [pairs]
  const std::int32_t* axes;        ///< [pairs], the axis of each; null: 0
  std::int32_t pairs;              ///< 0 for no rotation
  std::int32_t adjacent;           ///< 1: pairs (2p, 2p + 1), 0: (p, p + pairs)
  double magnitude;
  double temperature_scale;  ///< 0 for none
  std::int32_t temperature_length;
  std::int32_t temperature_ahead;
};

/// The pages of a step's sequences, laid out as KvLayout says.
struct PagesCheckArgs {
  gpu::CodedPages coded;
  const std::int32_t* positions;      ///< [tokens, position_axes]
  const std::int32_t* sequence_of;    ///< [tokens]
  const std::int32_t* kv_lengths;     ///< [sequences]
  const std::int32_t* query_offsets;  ///< [sequences + 1]
  std::int64_t tokens;
  std::int32_t block_tokens;
  std::int32_t head_dim;
  std::int32_t position_axes;
  std::int32_t hadamard_block;  ///< of a head that is rotated
};

struct RopeCheckArgs {
  TurnCheckArgs turn;
  PagesCheckArgs pages;
  float* q;             ///< [tokens, q_heads, head_dim], rows `stride` apart, rotated in place
  const float* k;       ///< [tokens, kv_heads, head_dim], rows `stride` apart
  const float* v;       ///< likewise
  const float* q_norm;  ///< [head_dim], null for no norm
  const float* k_norm;  ///< likewise
  std::int64_t stride;
  std::int32_t q_heads;
  std::int32_t kv_heads;  ///< 0: Q alone turns
  std::int32_t value_norm;
  std::int32_t norm_after_turn;
  double norm_eps;
};

/// Queries times the Walsh-Hadamard matrix, in place.
struct TurnQueriesCheckArgs {
  float* q;  ///< [tokens, q_heads, head_dim], rows `stride` apart
  std::int64_t stride;
  std::int64_t tokens;
  std::int32_t q_heads;
  std::int32_t head_dim;
  std::int32_t block;  ///< of the matrix
};

struct LatentAppendCheckArgs {
  TurnCheckArgs turn;
  PagesCheckArgs pages;
  float* q;           ///< [tokens, q_heads, q_dim], rows q_stride apart; the last n_rot elements of a head turn in place
  const float* kv;    ///< [tokens, rank + n_rot], rows kv_stride apart
  const float* norm;  ///< [rank]
  std::int64_t q_stride;
  std::int64_t kv_stride;
  std::int32_t q_heads;
  std::int32_t q_dim;
  std::int32_t rank;
  std::int32_t n_rot;
  double norm_eps;
};

}  // namespace rocmforge::check_kernels
