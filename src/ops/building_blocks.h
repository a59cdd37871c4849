#pragma once

#include <cstdint>
#include <string>

#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace rocmforge {

// The steps of attention and of a layer as operations of their own: what the composed attention is made of, and what a
// library user puts together. All tensors are f32 and dense unless said.

/// out[i] = a[i] + b[i]
struct ResidualAdd {
  static constexpr std::string_view name = "residual_add";
  struct Spec {};
  struct Args {
    const float* a = nullptr;  ///< [count]
    const float* b = nullptr;  ///< [count]
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count], may be a or b
  };
};

/// x[i] *= factor
struct Scale {
  static constexpr std::string_view name = "scale";
  struct Spec {};
  struct Args {
    float* x = nullptr;  ///< [count]
    std::int64_t count = 0;
    float factor = 1.0f;
  };
};

/// scores[b, h, i, j] = -inf where key j is not visible to query row i: j > kv_len - q_len + i, or, with a window,
/// j <= kv_len - q_len + i - window.
struct CausalMask {
  static constexpr std::string_view name = "causal_mask";
  struct Spec {};
  struct Args {
    float* scores = nullptr;  ///< [batch * heads, q_len, kv_len]
    std::int64_t matrices = 0;
    std::int32_t q_len = 0;
    std::int32_t kv_len = 0;
    std::int32_t window = 0;  ///< 0 for none
  };
};

/// Softmax of each row in place, the maximum subtracted; a row of -inf alone becomes zeros.
struct RowSoftmax {
  static constexpr std::string_view name = "row_softmax";
  struct Spec {};
  struct Args {
    float* x = nullptr;  ///< [rows, cols]
    std::int64_t rows = 0;
    std::int64_t cols = 0;
  };
};

/// scores[b, h, i, j] = scale * sum_d q[b, i, h, d] * k[b, j, h, d]
struct QueryKey {
  static constexpr std::string_view name = "query_key";
  struct Spec {
    std::int32_t heads = 0;
    std::int32_t head_dim = 0;
  };
  struct Args {
    const float* q = nullptr;  ///< [batch, q_len, heads, head_dim]
    const float* k = nullptr;  ///< [batch, kv_len, heads, head_dim]
    std::int32_t batch = 0;
    std::int32_t q_len = 0;
    std::int32_t kv_len = 0;
    float scale = 1.0f;
    float* scores = nullptr;  ///< [batch, heads, q_len, kv_len]
  };
};

/// out[b, i, h, d] = sum_j weights[b, h, i, j] * v[b, j, h, d]
struct WeightsValue {
  static constexpr std::string_view name = "weights_value";
  struct Spec {
    std::int32_t heads = 0;
    std::int32_t head_dim = 0;
  };
  struct Args {
    const float* weights = nullptr;  ///< [batch, heads, q_len, kv_len]
    const float* v = nullptr;        ///< [batch, kv_len, heads, head_dim]
    std::int32_t batch = 0;
    std::int32_t q_len = 0;
    std::int32_t kv_len = 0;
    float* out = nullptr;  ///< [batch, q_len, heads, head_dim]
  };
};

/// k_out[t, h] = k[t, h / (q_heads / kv_heads)], likewise v, in one launch.
struct ReplicateKv {
  static constexpr std::string_view name = "replicate_kv";
  struct Spec {
    std::int32_t q_heads = 0;
    std::int32_t kv_heads = 0;
    std::int32_t head_dim = 0;
  };
  struct Args {
    const float* k = nullptr;  ///< [tokens, kv_heads, head_dim]
    const float* v = nullptr;
    std::int64_t tokens = 0;
    float* k_out = nullptr;  ///< [tokens, q_heads, head_dim]
    float* v_out = nullptr;
  };
};

/// out[i] = the value of element i, bit for bit what tensor/quant/dequantize gives.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  struct Spec {
    DType dtype = DType::f32;
  };
  struct Args {
    const void* rows = nullptr;  ///< `count` elements of Spec::dtype
    std::int64_t count = 0;      ///< a multiple of the format's block
    float* out = nullptr;        ///< [count]
  };
};

/// out[r] = rms_norm(dequantised row r) * weight
struct DequantizeRmsNorm {
  static constexpr std::string_view name = "dequantize_rms_norm";
  struct Spec {
    DType dtype = DType::f32;
    std::int64_t dim = 0;
    float eps = 1e-5f;
  };
  struct Args {
    const void* rows = nullptr;  ///< [rows, dim] of Spec::dtype
    std::int64_t num_rows = 0;
    const float* weight = nullptr;  ///< [dim]
    float* out = nullptr;           ///< [rows, dim]
  };
};

/// out[i] = x[ids[i]]: the wanted rows of the residual stream.
struct GatherRows {
  static constexpr std::string_view name = "gather_rows";
  struct Spec {
    std::int64_t dim = 0;
  };
  struct Args {
    const float* x = nullptr;           ///< [rows, dim]
    const std::int32_t* ids = nullptr;  ///< [count]
    std::int64_t count = 0;
    float* out = nullptr;  ///< [count, dim], not x
  };
};

std::string to_string(const ResidualAdd::Spec& spec);
std::string to_string(const Scale::Spec& spec);
std::string to_string(const CausalMask::Spec& spec);
std::string to_string(const RowSoftmax::Spec& spec);
std::string to_string(const QueryKey::Spec& spec);
std::string to_string(const WeightsValue::Spec& spec);
std::string to_string(const ReplicateKv::Spec& spec);
std::string to_string(const Dequantize::Spec& spec);
std::string to_string(const DequantizeRmsNorm::Spec& spec);
std::string to_string(const GatherRows::Spec& spec);

}  // namespace rocmforge
