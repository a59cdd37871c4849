#pragma once

// A head of K or V to pages of any type (CodedPages), by one wave.

#include "kernels/formats/portable/coded_pages.h"
#include "kernels/tile/device_code.h"
#include "ops/kv_coding.h"

namespace rocmforge::gpu {

struct Least {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a < b ? a : b;
  }
};
struct Or {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a | b;
  }
};

/// A position's places in the arrays of a head: ops/kv_codes.h.
struct CodedPlace {
  std::uint8_t* head;
  int slot;
  int block_tokens;
  bool by_dim;

  [[nodiscard]] __device__ std::int64_t at(int index, int count) const {
    return by_dim ? std::int64_t{index} * block_tokens + slot : std::int64_t{slot} * count + index;
  }
};

/// One lane's element of a group of kv_quant_dims lanes; all lanes of the wave take part, those behind the head write
/// nothing.
__device__ inline void store_code(const KvCoding& coding, const KvArrays& arrays, const CodedPlace& place, int dim,
                                  float value, bool inside) {
  const float least = wave_reduce<Least, kv_quant_dims>(value);
  const float largest = wave_reduce<Max, kv_quant_dims>(value);
  const half scale = from_float<half>(kv_scale(coding, least, largest));
  const half minimum = from_float<half>(least);
  const std::uint32_t code = kv_code(coding, value, to_float(scale), to_float(minimum));
  const std::uint32_t pair = (code & 15u) | (shuffle_xor(code, 1) & 15u) << 4;
  const std::uint32_t fifths = wave_reduce<Or, 8>((code >> 4 & 1u) << (dim % 8));
  if (!inside) {
    return;
  }
  if (coding.bits == 8 || dim % 2 == 0) {
    place.head[place.at(dim * coding.bits / 8, arrays.code_bytes)] =
        static_cast<std::uint8_t>(coding.bits == 8 ? code : pair);
  }
  if (coding.fifth && dim % 8 == 0) {
    place.head[arrays.fifths + place.at(dim / 8, arrays.fifth_bytes)] = static_cast<std::uint8_t>(fifths);
  }
  if (dim % kv_quant_dims == 0) {
    const std::int64_t group = place.at(dim / kv_quant_dims, arrays.groups);
    reinterpret_cast<half*>(place.head + arrays.scales)[group] = scale;
    if (coding.minimum) {
      reinterpret_cast<half*>(place.head + arrays.minima)[group] = minimum;
    }
  }
}

/// `head` [head_dim], in shared memory, becomes a position's K or V of type `type`.
__device__ inline void store_coded(const float* head, int head_dim, DType type, const CodedPlace& place) {
  const KvCoding coding = kv_coding(type);
  const KvArrays arrays = kv_arrays(coding, place.block_tokens, head_dim);
  for (int first = 0; first < head_dim; first += wave_size) {
    const int dim = first + lane_index();
    const bool inside = dim < head_dim;
    const float value = inside ? head[dim] : 0.0f;
    if (is_kv_quant(type)) {
      store_code(coding, arrays, place, dim, value, inside);
    } else if (inside && type == DType::f16) {
      reinterpret_cast<half*>(place.head)[place.at(dim, head_dim)] = from_float<half>(value);
    } else if (inside && type == DType::bf16) {
      reinterpret_cast<bfloat16*>(place.head)[place.at(dim, head_dim)] = from_float<bfloat16>(value);
    } else if (inside) {
      reinterpret_cast<float*>(place.head)[place.at(dim, head_dim)] = value;
    }
  }
}

}  // namespace rocmforge::gpu
