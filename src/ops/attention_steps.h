#pragma once

#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/registry.h"
#include "ops/score_shape.h"

namespace rocmforge {

// The steps of attention as operations of their own, through scores in memory. The composed attention runs them in the
// order of this file; a library user may too. ScoreShape says which rows and keys a call covers.

/// k_out[b, j, h] = k[b, j, (first_head + h) / (q_heads / kv_heads)] as f32, likewise v, in one launch: keys j < kv_len of
/// the sequences that have query rows, for heads h < heads.
struct ReplicateKv {
  static constexpr std::string_view name = "replicate_kv";
  struct Spec {
    std::int32_t q_heads = 0;
    KvLayout layout{};  ///< of K and V; without pages its dtype, kv_heads and head_dim
  };
  struct Args {
    KvCacheView cache{};
    const std::int32_t* block_tables = nullptr;  ///< [batch, max_blocks]
    std::int32_t max_blocks = 0;
    DenseKv dense{};  ///< in place of the cache when dense.k is set
    ScoreShape shape{};
    std::int32_t first_head = 0;  ///< among the query heads
    float* k_out = nullptr;       ///< [batch, kv_len, heads, head_dim]
    float* v_out = nullptr;
  };
};

/// scores[b, h, i, j] = scale * sum_d q[b, i, h, d] * k[b, j, h, d]
struct QueryKey {
  static constexpr std::string_view name = "query_key";
  struct Spec {
    std::int32_t head_dim = 0;
    DType q_dtype = DType::f32;  ///< f32, f16 or bf16
  };
  struct Args {
    const void* q = nullptr;    ///< [query rows, heads, head_dim] of q_dtype, rows q_stride elements apart
    std::int64_t q_stride = 0;  ///< 0: heads * head_dim
    const float* k = nullptr;   ///< [batch, kv_len, heads, head_dim]
    ScoreShape shape{};
    float scale = 1.0f;
    float* scores = nullptr;  ///< [batch, heads, q_len, kv_len]
  };
};

/// x[i] *= factor; with a soft-cap c: x[i] = c * tanh(x[i] * factor / c). Without one, the columns c of rows [width] may
/// have factors and limits of their own: x[i] = min(max(x[i] * factor * weights[c], least[c]), most[c]).
struct Scale {
  static constexpr std::string_view name = "scale";
  struct Spec {};
  struct Args {
    float* x = nullptr;  ///< [count]
    std::int64_t count = 0;
    float factor = 1.0f;
    float soft_cap = 0.0f;           ///< 0 for none
    std::int64_t width = 0;          ///< divides count; 0: none of the vectors is there
    const float* weights = nullptr;  ///< [width] or null
    const float* least = nullptr;    ///< [width], or null like `most`
    const float* most = nullptr;     ///< [width]
  };
};

/// scores[b, h, i, j] = -inf where row i does not see key j; elsewhere the additive mask, if any, is added. A row at
/// `position` of its sequence sees the keys up to its own, or all when not causal; with a window only those after
/// position - window, and when not causal those before position + window.
struct CausalMask {
  static constexpr std::string_view name = "causal_mask";
  struct Spec {};
  struct Args {
    float* scores = nullptr;  ///< [batch, heads, q_len, kv_len]
    ScoreShape shape{};
    std::int32_t window = 0;  ///< 0 for none
    bool causal = true;
    const float* mask = nullptr;   ///< [query rows, mask_stride] or null
    std::int64_t mask_stride = 0;  ///< elements
  };
};

/// Softmax of each row in place, with the row's maximum subtracted first. A row with only -inf becomes zeros.
struct RowSoftmax {
  static constexpr std::string_view name = "row_softmax";
  struct Spec {};
  struct Args {
    float* scores = nullptr;  ///< [batch, heads, q_len, kv_len]
    ScoreShape shape{};
    const float* sinks = nullptr;  ///< [heads] or null: one extra logit that joins the denominator
  };
};

/// out[b, i, h, d] = sum_j weights[b, h, i, j] * v[b, j, h, d]
struct WeightsValue {
  static constexpr std::string_view name = "weights_value";
  struct Spec {
    std::int32_t head_dim = 0;
    DType out_dtype = DType::f32;  ///< f32, f16 or bf16
  };
  struct Args {
    const float* weights = nullptr;  ///< [batch, heads, q_len, kv_len]
    const float* v = nullptr;        ///< [batch, kv_len, heads, head_dim]
    ScoreShape shape{};
    void* out = nullptr;          ///< [query rows, heads, head_dim] of out_dtype, rows out_stride elements apart
    std::int64_t out_stride = 0;  ///< 0: heads * head_dim
  };
};

std::string to_string(const ReplicateKv::Spec& spec);
std::string to_string(const QueryKey::Spec& spec);
std::string to_string(const Scale::Spec& spec);
std::string to_string(const CausalMask::Spec& spec);
std::string to_string(const RowSoftmax::Spec& spec);
std::string to_string(const WeightsValue::Spec& spec);

}  // namespace rocmforge
