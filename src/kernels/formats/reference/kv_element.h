#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/half.h"
#include "ops/kv_coding.h"
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
  DType type;
  KvOrder order;
  std::byte* data;

  [[nodiscard]] float load(std::int64_t token, std::int64_t dim) const {
    if (!is_kv_quant(type)) {
      return load_element(type, data, kv_element(*layout, order, token, dim));
    }
    const KvCoding coding = kv_coding(type);
    const KvArrays arrays = arrays_of(coding);
    std::uint32_t code = std::to_integer<std::uint32_t>(*byte(0, token, dim * coding.bits / 8, arrays.code_bytes));
    if (coding.bits == 4) {
      code = code >> (dim % 2 * 4) & 15u;
    }
    if (coding.fifth) {
      const auto bits = std::to_integer<std::uint32_t>(*byte(arrays.fifths, token, dim / 8, arrays.fifth_bytes));
      code |= (bits >> (dim % 8) & 1u) << 4;
    }
    const float scaled = half_to_float(*half(arrays.scales, token, dim)) * static_cast<float>(kv_number(coding, code));
    return coding.minimum ? scaled + half_to_float(*half(arrays.minima, token, dim)) : scaled;
  }

  /// All `values` [head_dim] of a position. The type is asked for outside the loops: GCC 13.3.0 took f16 for a quantised
  /// type where a loop asked for each element.
  void store(std::int64_t token, const float* values) const {
    if (is_kv_quant(type)) {
      for (std::int64_t dim = 0; dim < layout->head_dim; dim += kv_quant_dims) {
        store_group(token, dim, values + dim);
      }
      return;
    }
    for (std::int64_t dim = 0; dim < layout->head_dim; ++dim) {
      store_element(type, data, kv_element(*layout, order, token, dim), values[dim]);
    }
  }

 private:
  [[nodiscard]] KvArrays arrays_of(const KvCoding& coding) const {
    return kv_arrays(coding, layout->block_tokens, layout->head_dim);
  }
  /// Element `index` of a position's `count` elements in an array.
  [[nodiscard]] std::int64_t place(std::int64_t token, std::int64_t index, std::int64_t count) const {
    return order == KvOrder::token_major ? token * count + index : index * layout->block_tokens + token;
  }
  [[nodiscard]] std::byte* byte(std::int64_t array, std::int64_t token, std::int64_t index, std::int64_t count) const {
    return data + array + place(token, index, count);
  }
  [[nodiscard]] std::uint16_t* half(std::int64_t array, std::int64_t token, std::int64_t dim) const {
    return reinterpret_cast<std::uint16_t*>(data + array) +
           place(token, dim / kv_quant_dims, layout->head_dim / kv_quant_dims);
  }
  void store_group(std::int64_t token, std::int64_t first, const float* values) const {
    const KvCoding coding = kv_coding(type);
    const KvArrays arrays = arrays_of(coding);
    const auto [least, largest] = std::minmax_element(values, values + kv_quant_dims);
    const std::uint16_t scale = float_to_half(kv_scale(coding, *least, *largest));
    const std::uint16_t minimum = float_to_half(*least);
    *half(arrays.scales, token, first) = scale;
    if (coding.minimum) {
      *half(arrays.minima, token, first) = minimum;
    }
    for (std::int64_t i = 0; i < kv_quant_dims; ++i) {
      store_code(coding, arrays, token, first + i, kv_code(coding, values[i], half_to_float(scale), half_to_float(minimum)));
    }
  }
  void store_code(const KvCoding& coding, const KvArrays& arrays, std::int64_t token, std::int64_t dim,
                  std::uint32_t code) const {
    const auto put = [](std::byte& to, std::int64_t shift, std::uint32_t mask, std::uint32_t bits) {
      to = static_cast<std::byte>((std::to_integer<std::uint32_t>(to) & ~(mask << shift)) | (bits & mask) << shift);
    };
    const bool nibbles = coding.bits == 4;
    put(*byte(0, token, dim * coding.bits / 8, arrays.code_bytes), nibbles ? dim % 2 * 4 : 0, nibbles ? 15u : 255u, code);
    if (coding.fifth) {
      put(*byte(arrays.fifths, token, dim / 8, arrays.fifth_bytes), dim % 8, 1u, code >> 4);
    }
  }
};

/// The block of `position` of sequence `s`, which holds it in slot position % block_tokens.
inline KvHead kv_head_at(const KvLayout& layout, const KvCacheView& cache, const RaggedBatch& batch, std::int32_t s,
                         std::int32_t position, bool value, std::int32_t head) {
  const std::int64_t entry = std::int64_t{s} * batch.max_blocks + position / layout.block_tokens;
  std::byte* block =
      static_cast<std::byte*>(cache.data) + static_cast<std::size_t>(batch.block_tables[entry]) * layout.block_bytes();
  const bool own_plane = value && !layout.is_latent();
  return {&layout, layout.dtype.of(own_plane), own_plane ? layout.v_order : layout.k_order,
          block + layout.head_at(value, head)};
}

/// Turns a head back and forth: see KvTypes.
inline void turn_by_hadamard(double* head, std::int32_t head_dim) {
  const std::int32_t block = hadamard_dims(head_dim);
  walsh_hadamard(head, head_dim, block, 1.0 / std::sqrt(static_cast<double>(block)));
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
      return load_element(layout.dtype.of(value), value ? dense.v : dense.k, row + dim);
    }
    return kv_head_at(layout, cache, batch, s, key, value, kv_head).load(key % layout.block_tokens, dim);
  }
};

}  // namespace rocmforge
