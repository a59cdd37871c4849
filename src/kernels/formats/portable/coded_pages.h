#pragma once

#include <bit>
#include <cstdint>

#include "ops/kv_layout.h"

namespace rocmforge::gpu {

/// K or V in pages, of any type (KvTypes).
struct CodedPlane {
  DType type;
  std::int32_t rotated;     ///< 1: by the Walsh-Hadamard matrix
  std::int32_t by_dim;      ///< 1: dim_major
  std::int32_t head_bytes;  ///< from one KV head to the next
  std::int64_t first;       ///< bytes from the start of a block to KV head 0
};

/// Pages whose K and V may have different types: a position lies in slot (position & (2^block_shift - 1)) of block
/// block_tables[s * max_blocks + (position >> block_shift)].
struct CodedPages {
  std::uint8_t* data;                ///< null where K and V are addressed by elements of one type
  const std::int32_t* block_tables;  ///< [sequences, max_blocks]
  std::int64_t block_bytes;
  std::int32_t max_blocks;
  std::int32_t block_shift;
  std::int32_t head_dim;
  CodedPlane k;
  CodedPlane v;
};

inline CodedPages coded_pages(const KvLayout& layout, const KvCacheView& cache, const std::int32_t* block_tables,
                              std::int32_t max_blocks) {
  const auto plane = [&](bool value) {
    return CodedPlane{.type = layout.dtype.of(value),
                      .rotated = (value ? layout.dtype.v_rotated : layout.dtype.k_rotated) ? 1 : 0,
                      .by_dim = (value ? layout.v_order : layout.k_order) == KvOrder::dim_major ? 1 : 0,
                      .head_bytes = static_cast<std::int32_t>(value ? layout.value_head_bytes() : layout.head_bytes()),
                      .first = static_cast<std::int64_t>(layout.head_at(value, 0))};
  };
  return {.data = static_cast<std::uint8_t*>(cache.data),
          .block_tables = block_tables,
          .block_bytes = static_cast<std::int64_t>(layout.block_bytes()),
          .max_blocks = max_blocks,
          .block_shift = std::countr_zero(static_cast<std::uint32_t>(layout.block_tokens)),
          .head_dim = layout.head_dim,
          .k = plane(false),
          .v = plane(true)};
}

/// Whether kernels read and write such pages by CodedPages: neither do they hold elements of one type, nor quants of q8_0,
/// which have kernels of their own.
inline bool uses_coded_pages(const KvTypes& types) {
  return !types.is_one() || (is_kv_quant(types.k) && types.k != DType::q8_0);
}

}  // namespace rocmforge::gpu
