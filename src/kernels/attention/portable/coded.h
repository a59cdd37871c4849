#pragma once

// K and V from pages of any type (CodedPages). The type is the same for a whole launch, so branches on it are uniform.

#include "kernels/attention/portable/attention.h"
#include "ops/kv_coding.h"

namespace rocmforge::gpu {

/// K or V of the pages, with what follows from its type.
struct CodedReader {
  const CodedPages& pages;
  CodedPlane plane;
  KvCoding coding;
  KvArrays arrays;
  bool quantised;

  __device__ CodedReader(const CodedPages& all, CodedPlane one)
      : pages(all),
        plane(one),
        coding(kv_coding(one.type)),
        arrays(kv_arrays(coding, 1 << all.block_shift, all.head_dim)),
        quantised(is_kv_quant(one.type)) {}

  [[nodiscard]] __device__ const std::uint8_t* head(int s, int key, int kv_head) const {
    const std::int64_t block = pages.block_tables[std::int64_t{s} * pages.max_blocks + (key >> pages.block_shift)];
    return pages.data + block * pages.block_bytes + plane.first + std::int64_t{kv_head} * plane.head_bytes;
  }
  [[nodiscard]] __device__ int slot(int key) const { return key & ((1 << pages.block_shift) - 1); }
};

__device__ inline float half_at(const std::uint8_t* from) { return to_float(*reinterpret_cast<const half*>(from)); }

/// Eight neighbouring elements as they are stored.
struct CodedEight {
  std::uint32_t words[4];
  std::uint32_t fifths;
  half scale;
  half minimum;

  __device__ void clear() { *this = CodedEight{}; }

  /// From `dim` on, a multiple of eight; not of f32.
  __device__ void load(const CodedReader& reader, int s, int key, int kv_head, int dim) {
    const std::uint8_t* const head = reader.head(s, key, kv_head);
    const int slot = reader.slot(key);
    if (!reader.quantised) {
      const auto parts = *reinterpret_cast<const Bytes16*>(head + (slot * reader.pages.head_dim + dim) * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = parts.words[i];
      }
      return;
    }
    const KvArrays& arrays = reader.arrays;
    const auto* codes =
        reinterpret_cast<const std::uint32_t*>(head + slot * arrays.code_bytes + dim * reader.coding.bits / 8);
    words[0] = codes[0];
    if (reader.coding.bits == 8) {
      words[1] = codes[1];
    }
    if (reader.coding.fifth) {
      fifths = head[arrays.fifths + slot * arrays.fifth_bytes + dim / 8];
    }
    const int group = slot * arrays.groups + dim / kv_quant_dims;
    scale = reinterpret_cast<const half*>(head + arrays.scales)[group];
    if (reader.coding.minimum) {
      minimum = reinterpret_cast<const half*>(head + arrays.minima)[group];
    }
  }

  /// Calls put(i, value) for each.
  template <class Put>
  __device__ void read(const CodedReader& reader, Put put) const {
    if (!reader.quantised) {
      const bool is_half = reader.plane.type == DType::f16;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const auto bits = static_cast<std::uint16_t>(i % 2 == 0 ? words[i / 2] : words[i / 2] >> 16);
        half as_half;
        as_half.bits = bits;
        put(i, is_half ? to_float(as_half) : __builtin_bit_cast(float, std::uint32_t{bits} << 16));
      }
      return;
    }
    const float unit = to_float(scale);
    const float least = reader.coding.minimum ? to_float(minimum) : 0.0f;
    if (reader.coding.bits == 8) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        put(i, unit * static_cast<float>(static_cast<std::int8_t>(words[i / 4] >> (8 * (i % 4)))));
      }
      return;
    }
    if (reader.coding.table) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        put(i, unit * static_cast<float>(kv_table_value(static_cast<int>(words[0] >> (4 * i) & 15u))));
      }
      return;
    }
    const float shift = least - unit * static_cast<float>(reader.coding.offset());
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t code = (words[0] >> (4 * i) & 15u) | (fifths >> i & 1u) << 4;
      put(i, __builtin_fmaf(unit, static_cast<float>(code), shift));
    }
  }
};

/// One element, of any type.
__device__ inline float coded_element(const CodedPages& pages, CodedPlane plane, int s, int key, int kv_head, int dim) {
  const CodedReader reader(pages, plane);
  const std::uint8_t* const head = reader.head(s, key, kv_head);
  const int slot = reader.slot(key);
  if (!reader.quantised) {
    return load_io(head, plane.type, std::int64_t{slot} * pages.head_dim + dim);
  }
  const KvCoding& coding = reader.coding;
  const KvArrays& arrays = reader.arrays;
  std::uint32_t code = head[slot * arrays.code_bytes + dim * coding.bits / 8];
  if (coding.bits == 4) {
    code = code >> (dim % 2 * 4) & 15u;
  }
  if (coding.fifth) {
    code |= (head[arrays.fifths + slot * arrays.fifth_bytes + dim / 8] >> (dim % 8) & 1u) << 4;
  }
  const int group = slot * arrays.groups + dim / kv_quant_dims;
  const float scaled = half_at(head + arrays.scales + 2 * group) * static_cast<float>(kv_number(coding, code));
  return coding.minimum ? scaled + half_at(head + arrays.minima + 2 * group) : scaled;
}

}  // namespace rocmforge::gpu
