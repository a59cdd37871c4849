#pragma once

#include <cstdint>

namespace rocmforge::gpu {

/// Grid: columns, rows.
struct CausalMaskArgs {
  float* scores;  ///< [rows, kv_len]; row r is query row r % q_len
  std::int64_t rows;
  std::int32_t q_len;
  std::int32_t kv_len;
  std::int32_t window;  ///< 0 for none
};

/// Work-groups walk over tiles of 64 x 64 results.
struct QueryKeyArgs {
  const float* q;  ///< [batch, q_len, heads, head_dim]
  const float* k;  ///< [batch, kv_len, heads, head_dim]
  float* scores;   ///< [batch, heads, q_len, kv_len]
  std::int32_t batch;
  std::int32_t heads;
  std::int32_t head_dim;
  std::int32_t q_len;
  std::int32_t kv_len;
  float scale;
};

/// Work-groups walk over tiles of 64 x 64 results.
struct WeightsValueArgs {
  const float* weights;  ///< [batch, heads, q_len, kv_len]
  const float* v;        ///< [batch, kv_len, heads, head_dim]
  float* out;            ///< [batch, q_len, heads, head_dim]
  std::int32_t batch;
  std::int32_t heads;
  std::int32_t head_dim;
  std::int32_t q_len;
  std::int32_t kv_len;
};

/// A wave for each head that is written.
struct ReplicateKvArgs {
  const float* k;          ///< [tokens * kv_heads, head_dim]
  const float* v;          ///< [tokens * kv_heads, head_dim]
  float* k_out;            ///< [out_heads, head_dim]
  float* v_out;            ///< [out_heads, head_dim]
  std::int64_t out_heads;  ///< tokens * q_heads
  std::int32_t group;      ///< q_heads / kv_heads
  std::int32_t head_dim;
};

}  // namespace rocmforge::gpu
