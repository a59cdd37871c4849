#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/half.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Where element `dim` of position `token` of a block lies, from the start of its head.
inline std::int64_t kv_element(const KvLayout& layout, KvOrder order, std::int64_t token, std::int64_t dim) {
  return order == KvOrder::token_major ? token * layout.head_dim + dim : dim * layout.block_tokens + token;
}

/// Element `index` of f32, f16 or bf16 data.
inline float load_element(DType dtype, const void* data, std::int64_t index) {
  switch (dtype) {
    case DType::f16:
      return half_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::bf16:
      return bfloat16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

inline void store_element(DType dtype, void* data, std::int64_t index, float value) {
  switch (dtype) {
    case DType::f16:
      static_cast<std::uint16_t*>(data)[index] = float_to_half(value);
      break;
    case DType::bf16:
      static_cast<std::uint16_t*>(data)[index] = float_to_bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
      break;
  }
}

/// The K or V of one head in one block.
struct KvHead {
  const KvLayout* layout;
  KvOrder order;
  std::byte* data;  ///< head_bytes

  [[nodiscard]] float load(std::int64_t token, std::int64_t dim) const {
    const std::int64_t element = kv_element(*layout, order, token, dim);
    if (layout->dtype != DType::q8_0) {
      return load_element(layout->dtype, data, element);
    }
    return static_cast<float>(static_cast<std::int8_t>(data[element])) * half_to_float(*scale(token, dim));
  }

  /// All `values` [head_dim] of a position.
  void store(std::int64_t token, const float* values) const {
    for (std::int64_t dim = 0; dim < layout->head_dim; ++dim) {
      if (layout->dtype != DType::q8_0) {
        store_element(layout->dtype, data, kv_element(*layout, order, token, dim), values[dim]);
      } else if (dim % kv_quant_dims == 0) {
        store_quants(token, dim, values + dim);
      }
    }
  }

 private:
  [[nodiscard]] std::uint16_t* scale(std::int64_t token, std::int64_t dim) const {
    const std::int64_t group = dim / kv_quant_dims;
    const std::int64_t index = order == KvOrder::token_major ? token * (layout->head_dim / kv_quant_dims) + group
                                                             : group * layout->block_tokens + token;
    return reinterpret_cast<std::uint16_t*>(data + layout->head_elems()) + index;
  }
  void store_quants(std::int64_t token, std::int64_t first_dim, const float* values) const {
    float largest = 0.0f;
    for (std::int64_t i = 0; i < kv_quant_dims; ++i) {
      largest = std::max(largest, std::abs(values[i]));
    }
    const std::uint16_t bits = float_to_half(largest * (1.0f / 127.0f));
    const float unit = half_to_float(bits);
    *scale(token, first_dim) = bits;
    for (std::int64_t i = 0; i < kv_quant_dims; ++i) {
      const float quant = unit > 0.0f ? std::clamp(std::nearbyint(values[i] / unit), -127.0f, 127.0f) : 0.0f;
      data[kv_element(*layout, order, token, first_dim + i)] = static_cast<std::byte>(static_cast<std::int8_t>(quant));
    }
  }
};

/// The block of `position` of sequence `s`, which holds it in slot position % block_tokens.
inline KvHead kv_head_at(const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch, std::int32_t s,
                         std::int32_t position, bool value, std::int32_t head) {
  const std::int64_t entry = std::int64_t{s} * batch.max_blocks + position / layout.block_tokens;
  const std::size_t before = static_cast<std::size_t>(value ? layout.v_plane(head) : head) * layout.head_bytes();
  std::byte* block =
      static_cast<std::byte*>(cache.data) + static_cast<std::size_t>(batch.block_tables[entry]) * layout.block_bytes();
  return {&layout, value && !layout.is_latent() ? layout.v_order : layout.k_order, block + before};
}

/// K and V of a batch: dense tensors when dense.k is set, else the pages that the batch's block tables name.
struct KvSource {
  const KvLayout& layout;
  const KvCacheView& cache;
  const DenseKv& dense;
  const RaggedBatch& batch;

  /// An element of K or, with `value`, of V of sequence `s`.
  [[nodiscard]] float load(bool value, std::int32_t s, std::int32_t key, std::int32_t kv_head, std::int32_t dim) const {
    if (dense.k != nullptr) {
      const std::int64_t row = s * dense.sequence_stride + key * dense.token_stride + kv_head * dense.head_stride;
      return load_element(layout.dtype, value ? dense.v : dense.k, row + dim);
    }
    return kv_head_at(layout, cache, batch, s, key, value, kv_head).load(key % layout.block_tokens, dim);
  }
};

}  // namespace rocmforge
