#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"
#include "ops/score_shape.h"

namespace rocmforge::gpu {

/// Grid: one wave for each head of K and V that is written.
struct ReplicateKvArgs {
  KvAddress kv;
  CodedPages pages;  ///< read in place of kv by replicate_kv_coded
  ScoreShape shape;
  float* k_out;  ///< [batch, kv_len, heads, head_dim]
  float* v_out;
  std::int32_t first_head;  ///< among the query heads
  std::int32_t group;       ///< query heads of a KV head
  std::int32_t head_dim;
};

/// Work-groups walk over tiles of 64 x 64 results.
struct QueryKeyArgs {
  const void* q;   ///< [query rows, heads, head_dim] of q_dtype, rows q_stride elements apart
  const float* k;  ///< [batch, kv_len, heads, head_dim]
  float* scores;   ///< [batch, heads, q_len, kv_len]
  ScoreShape shape;
  std::int64_t q_stride;
  DType q_dtype;
  std::int32_t head_dim;
  float scale;
};

struct ScaleArgs {
  float* x;  ///< [count]
  std::int64_t count;
  float factor;
  float soft_cap;        ///< 0 for none
  std::int64_t width;    ///< of rows whose columns have:
  const float* weights;  ///< [width] or null
  const float* least;    ///< [width], or null like `most`
  const float* most;
};

/// Grid: columns, rows.
struct CausalMaskArgs {
  float* scores;      ///< [batch, heads, q_len, kv_len]
  const float* mask;  ///< [query rows, mask_stride] or null
  ScoreShape shape;
  std::int64_t mask_stride;
  std::int32_t window;  ///< 0 for none
  std::int32_t causal;
};

/// One work-group a row.
struct RowSoftmaxArgs {
  float* scores;       ///< [batch, heads, q_len, kv_len]
  const float* sinks;  ///< [heads] or null
  ScoreShape shape;
};

/// Work-groups walk over tiles of 64 x 64 results.
struct WeightsValueArgs {
  const float* weights;  ///< [batch, heads, q_len, kv_len]
  const float* v;        ///< [batch, kv_len, heads, head_dim]
  void* out;             ///< [query rows, heads, head_dim] of out_dtype, rows out_stride elements apart
  ScoreShape shape;
  std::int64_t out_stride;
  DType out_dtype;
  std::int32_t head_dim;
};

}  // namespace rocmforge::gpu
