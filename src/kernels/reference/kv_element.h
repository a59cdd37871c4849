#pragma once

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

inline float load_kv(const KvLayout& layout, const void* data, std::int64_t index) {
  return load_element(layout.dtype, data, index);
}

inline void store_kv(const KvLayout& layout, void* data, std::int64_t index, float value) {
  store_element(layout.dtype, data, index, value);
}

/// The index of the first element of the block that holds `position` of sequence `s`.
inline std::int64_t kv_block_start(const KvLayout& layout, const RaggedBatch& batch, std::int32_t s, std::int32_t position) {
  const std::int64_t entry = std::int64_t{s} * batch.max_blocks + position / layout.block_tokens;
  return batch.block_tables[entry] * layout.block_elems();
}

}  // namespace rocmforge
