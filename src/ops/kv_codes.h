#pragma once

#include <stdint.h>

/// How 32 neighbouring numbers of a head become codes in a cache, and back: the one place that knows the quantised types of
/// K and V. Bodies of every instruction set and GPU kernels compile it, so it includes nothing else, and everything is
/// inlined where it is used.
#define ROCMFORGE_KV_CODE constexpr __attribute__((always_inline))

namespace rocmforge {

/// A number is scale * (code - offset()), scale * code + minimum, or scale * kv_table_value(code). Codes of 8 bits are
/// signed bytes. Of those of 4 bits byte i of a position holds the dimensions 2 i (low) and 2 i + 1; bit i % 8 of byte i / 8
/// of the fifth bits is dimension i's. Scales and minima are binary16. Neither order nor rounding is ggml's, bytes are.
struct KvCoding {
  int32_t bits;  ///< of a code, without its fifth: 8 or 4
  bool fifth;    ///< codes have a fifth bit
  bool minimum;  ///< the least number has code 0
  bool table;    ///< codes index uneven steps

  ROCMFORGE_KV_CODE int32_t levels() const { return fifth ? 32 : 16; }
  ROCMFORGE_KV_CODE int32_t offset() const { return bits == 8 || minimum || table ? 0 : levels() / 2; }
};

/// The arrays of a head of a block, codes first: bytes from the head's start.
struct KvArrays {
  int64_t fifths;
  int64_t scales;
  int64_t minima;
  int32_t code_bytes;   ///< of a position
  int32_t fifth_bytes;  ///< of a position
  int32_t groups;       ///< scales of a position
};
ROCMFORGE_KV_CODE KvArrays kv_arrays(const KvCoding& coding, int32_t block_tokens, int32_t head_dim) {
  KvArrays arrays{};
  arrays.code_bytes = head_dim * coding.bits / 8;
  arrays.fifth_bytes = coding.fifth ? head_dim / 8 : 0;
  arrays.groups = head_dim / 32;
  arrays.fifths = int64_t{block_tokens} * arrays.code_bytes;
  arrays.scales = arrays.fifths + int64_t{block_tokens} * arrays.fifth_bytes;
  arrays.minima = arrays.scales + int64_t{block_tokens} * arrays.groups * 2;
  return arrays;
}

/// The steps of iq4_nl: eight bytes of the table in each word, so that no kernel reads an array.
ROCMFORGE_KV_CODE int32_t kv_table_value(int32_t code) {
  const uint64_t word = code < 8 ? 0xf6eaddcfbfad9881u : 0x7159453526190d01u;
  return static_cast<int8_t>(word >> (8 * (code & 7)));
}

/// Rounds to the nearest whole number, of two to the even one; |x| below 2^22.
ROCMFORGE_KV_CODE float kv_nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

ROCMFORGE_KV_CODE float kv_clamp(float x, float least, float most) { return x < least ? least : x > most ? most : x; }

/// The scale of a group, before it is rounded to binary16, from its least and largest number. Where both signs reach as far,
/// the positive one counts.
ROCMFORGE_KV_CODE float kv_scale(const KvCoding& coding, float least, float largest) {
  if (coding.minimum) {
    return (largest - least) * (coding.fifth ? 1.0f / 31.0f : 1.0f / 15.0f);
  }
  const float furthest = -least > largest ? least : largest;
  if (coding.bits == 8) {
    return (furthest < 0.0f ? -furthest : furthest) * (1.0f / 127.0f);
  }
  // The end of the codes that reaches further, -offset or the table's -127, is for the number that does.
  return coding.table ? furthest * (-1.0f / 127.0f) : furthest * (coding.fifth ? -1.0f / 16.0f : -1.0f / 8.0f);
}

/// The code of `value` under its group's scale and minimum as they are stored; 8 bits in two's complement.
ROCMFORGE_KV_CODE uint32_t kv_code(const KvCoding& coding, float value, float scale, float minimum) {
  if (scale == 0.0f) {
    return static_cast<uint32_t>(coding.table ? 8 : coding.offset());
  }
  const float steps = (value - (coding.minimum ? minimum : 0.0f)) / scale;
  if (coding.bits == 8) {
    return static_cast<uint32_t>(static_cast<int32_t>(kv_clamp(kv_nearest(steps), -127.0f, 127.0f))) & 0xffu;
  }
  if (coding.table) {
    uint32_t code = 0;
    for (int32_t i = 0; i < 15; ++i) {  // sums of neighbours: twice the places between them
      code += 2.0f * steps >= static_cast<float>(kv_table_value(i) + kv_table_value(i + 1)) ? 1u : 0u;
    }
    return code;
  }
  const auto most = static_cast<float>(coding.levels() - 1);
  return static_cast<uint32_t>(kv_clamp(kv_nearest(steps) + static_cast<float>(coding.offset()), 0.0f, most));
}

/// What `code` stands for, without scale and minimum.
ROCMFORGE_KV_CODE int32_t kv_number(const KvCoding& coding, uint32_t code) {
  if (coding.bits == 8) {
    return static_cast<int8_t>(code);
  }
  return coding.table ? kv_table_value(static_cast<int32_t>(code)) : static_cast<int32_t>(code) - coding.offset();
}

/// `head` [dims] times the orthonormal Walsh-Hadamard matrix, in blocks of `block` elements, a power of two. Twice is once
/// nothing. `factor` is 1 / sqrt(block).
template <class Float>
ROCMFORGE_KV_CODE void walsh_hadamard(Float* head, int32_t dims, int32_t block, Float factor) {
  for (int32_t apart = 1; apart < block; apart *= 2) {
    for (int32_t first = 0; first < dims; first += 2 * apart) {
      for (int32_t i = first; i < first + apart; ++i) {
        const Float a = head[i];
        const Float b = head[i + apart];
        head[i] = a + b;
        head[i + apart] = a - b;
      }
    }
  }
  for (int32_t i = 0; i < dims; ++i) {
    head[i] *= factor;
  }
}

/// 1 / sqrt(block) of a power of two, rounded once.
ROCMFORGE_KV_CODE float hadamard_factor(int32_t block) {
  float factor = 1.0f;
  for (; block >= 4; block /= 4) {
    factor *= 0.5f;
  }
  return block == 2 ? factor * 0.70710678118654752440f : factor;
}

}  // namespace rocmforge
