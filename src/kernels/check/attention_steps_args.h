#pragma once

#include <cstdint>

#include "kernels/attention/portable/attention_args.h"
#include "ops/score_shape.h"
#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

// The steps of attention (ops/attention_steps.h). Strides are in elements.

struct ReplicateCheckArgs {
  gpu::KvAddress kv;
  gpu::CodedPages pages;  ///< read in place of kv where its data is not null
  ScoreShape shape;
  float* k_out;  ///< [batch, kv_len, heads, head_dim]
  float* v_out;
  std::int32_t first_head;  ///< among the query heads
  std::int32_t group;       ///< query heads of a KV head
  std::int32_t head_dim;
  DType kv_dtype;
};

struct QueryKeyCheckArgs {
  const void* q;   ///< [query rows, heads, head_dim] of q_dtype, rows q_stride apart
  const float* k;  ///< [batch, kv_len, heads, head_dim]
  float* scores;   ///< [batch, heads, q_len, kv_len]
  ScoreShape shape;
  std::int64_t q_stride;
  double scale;
  std::int32_t head_dim;
  DType q_dtype;
};

struct ScaleCheckArgs {
  float* x;  ///< [count]
  std::int64_t count;
  double factor;
  double soft_cap;       ///< 0 for none
  std::int64_t width;    ///< of rows whose columns have:
  const float* weights;  ///< [width] or null
  const float* least;    ///< [width], or null like `most`
  const float* most;
};

struct MaskCheckArgs {
  float* scores;      ///< [batch, heads, q_len, kv_len]
  const float* mask;  ///< [query rows, mask_stride] or null
  ScoreShape shape;
  std::int64_t mask_stride;
  std::int32_t window;  ///< 0 for none
  std::int32_t causal;
};

struct RowSoftmaxCheckArgs {
  float* scores;       ///< [batch, heads, q_len, kv_len]
  const float* sinks;  ///< [heads] or null
  ScoreShape shape;
};

struct WeightsValueCheckArgs {
  const float* weights;  ///< [batch, heads, q_len, kv_len]
  const float* v;        ///< [batch, kv_len, heads, head_dim]
  void* out;             ///< [query rows, heads, head_dim] of out_dtype, rows out_stride apart
  ScoreShape shape;
  std::int64_t out_stride;
  std::int32_t head_dim;
  DType out_dtype;
};

}  // namespace rocmforge::check_kernels
