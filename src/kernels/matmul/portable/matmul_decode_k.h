#pragma once

// WeightStrips of the formats with blocks of 256 elements, 16 strips. See matmul_decode.h.

#include "kernels/matmul/portable/matmul_decode.h"

namespace rocmforge::gpu {

/// Scale and minimum of sub-block `index` from the 16 bytes at the start of a Q4_K or Q5_K block.
__device__ inline Affine k4_affine(const std::uint32_t (&header)[4], int index) {
  const int shift = 8 * (index & 3);
  const std::uint32_t low = header[1] >> shift;
  const std::uint32_t middle = header[2] >> shift;
  const std::uint32_t high = header[3] >> shift;
  const std::uint32_t scale = index < 4 ? low & 63u : (high & 15u) | (low >> 2 & 48u);
  const std::uint32_t minimum = index < 4 ? middle & 63u : (high >> 4 & 15u) | (middle >> 2 & 48u);
  const float step = half_of_word(header[0], 0) * static_cast<float>(scale);
  return {step, -fmaf(half_of_word(header[0], 1), static_cast<float>(minimum), code_bias * step)};
}

template <>
struct WeightStrips<BlockQ4_K> : PairedStrips<BlockQ4_K> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t header[4];
    std::uint32_t quants[4];
    int first;  ///< sub-block of part 0
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, alignment>(block(row, unit), raw.header);
    load_words<4, alignment>(block(row, unit) + low_byte(unit), raw.quants);
    raw.first = unit & 6;
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int part) { return k4_affine(raw.header, raw.first + part); }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(nibbles(raw.quants[w], part), out);
  }
};

template <>
struct WeightStrips<BlockQ5_K> : PairedStrips<BlockQ5_K> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t header[4];
    std::uint32_t quants[4];
    std::uint32_t high_bits[4];
    int first;  ///< sub-block of part 0
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<4, alignment>(block(row, unit), raw.header);
    load_words<4, alignment>(block(row, unit) + high_byte(unit), raw.high_bits);
    load_words<4, alignment>(block(row, unit) + low_byte(unit), raw.quants);
    raw.first = unit & 6;
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int part) { return k4_affine(raw.header, raw.first + part); }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    const std::uint32_t fifth = (raw.high_bits[w] >> (raw.first + part) & 0x01010101u) << 4;
    four_codes(nibbles(raw.quants[w], part) | fifth, out);
  }
};

/// Q2_K and Q3_K: 16 bytes of two-bit codes serve four strips, 32 elements apart; a unit is two of them.
/// unit = 8 * block + 4 * half + 2 * pair + j, strip = 16 * block + 8 * half + 4 * pair + 2 * part + j.
template <>
struct WeightStrips<BlockQ2_K> : PairedStrips<BlockQ2_K> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t quants[4];
    std::uint32_t scales;  ///< of the two strips, in bytes 0 and 2
    std::uint32_t both;    ///< scale and minimum scale
    int shift;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    const std::uint8_t* from = block(row, unit);
    load_words<4, alignment>(from + low_byte(unit), raw.quants);
    load_words<1, alignment>(from + offsetof(BlockQ2_K, scales) + 4 * (unit >> 1 & 3), &raw.scales);
    load_words<1, alignment>(from + offsetof(BlockQ2_K, scale), &raw.both);
    raw.scales >>= 8 * (unit & 1);
    raw.shift = 4 * (unit >> 1 & 1);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int part) {
    const std::uint32_t scales = raw.scales >> 16 * part;
    const float step = half_of_word(raw.both, 0) * static_cast<float>(scales & 15u);
    return {step, -fmaf(half_of_word(raw.both, 1), static_cast<float>(scales >> 4 & 15u), code_bias * step)};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    four_codes(raw.quants[w] >> (raw.shift + 2 * part) & 0x03030303u, out);
  }
};

template <>
struct WeightStrips<BlockQ3_K> : PairedStrips<BlockQ3_K> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t quants[4];
    std::uint32_t high_bits[4];
    std::uint32_t scales[3];
    float scale;
    int unit;  ///< in the block
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    const std::uint8_t* from = block(row, unit);
    load_words<4, alignment>(from + low_byte(unit), raw.quants);
    load_words<4, alignment>(from + high_byte(unit), raw.high_bits);
    load_words<3, alignment>(from + offsetof(BlockQ3_K, scales), raw.scales);
    raw.scale = load_half(from + offsetof(BlockQ3_K, scale));
    raw.unit = within(unit);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int part) {
    const int index = (raw.unit >> 1) * 4 + 2 * part + (raw.unit & 1);  // run in the block
    const std::uint32_t low_word = index & 4 ? raw.scales[1] : raw.scales[0];
    const std::uint32_t low = low_word >> (8 * (index & 3) + 4 * (index >> 3)) & 15u;
    const std::uint32_t high = raw.scales[2] >> (8 * (index & 3) + 2 * (index >> 2)) & 3u;
    const float step = raw.scale * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    return centred(step);
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    const std::uint32_t low = raw.quants[w] >> (4 * (raw.unit >> 1 & 1) + 2 * part) & 0x03030303u;
    const std::uint32_t high = (raw.high_bits[w] >> (2 * (raw.unit >> 1) + part) & 0x01010101u) << 2;
    four_codes(low | high, out);
  }
};

/// The strips of a unit lie 64 elements apart:
/// unit = 8 * block + 4 * half + 2 * a + j, strip = 16 * block + 8 * half + 4 * part + 2 * a + j.
template <>
struct WeightStrips<BlockQ6_K> : PairedStrips<BlockQ6_K> {
  static constexpr bool has_offset = true;
  struct Raw {
    std::uint32_t low_bits[4];
    std::uint32_t high_bits[4];
    std::int32_t scales[2];
    float scale;
    int shift;
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    const std::uint8_t* from = block(row, unit);
    const int in_half = unit & 3;
    const int upper = unit >> 2 & 1;
    load_words<4, alignment>(from + low_byte(unit), raw.low_bits);
    load_words<4, alignment>(from + high_byte(unit), raw.high_bits);
    const auto* scales = reinterpret_cast<const std::int8_t*>(from + offsetof(BlockQ6_K, scales) + 8 * upper + in_half);
    raw.scales[0] = scales[0];
    raw.scales[1] = scales[4];
    raw.scale = load_half(from + offsetof(BlockQ6_K, scale));
    raw.shift = in_half & 2;
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int part) {
    const float step = raw.scale * static_cast<float>(part == 0 ? raw.scales[0] : raw.scales[1]);
    return centred(step);
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    const std::uint32_t high = (raw.high_bits[w] >> (raw.shift + 4 * part) & 0x03030303u) << 4;
    four_codes(nibbles(raw.low_bits[w], part) | high, out);
  }
};

/// A sub-block of 32 elements is a unit, its nibbles as in IQ4_NL.
template <>
struct WeightStrips<BlockIQ4_XS> : PairedStrips<BlockIQ4_XS> {
  static constexpr bool has_offset = false;
  struct Raw {
    std::uint32_t quants[4];
    std::uint32_t header[2];
    int unit;  ///< in the block
  };
  __device__ static Raw load(const std::uint8_t* row, int unit, int) {
    Raw raw;
    load_words<2, alignment>(block(row, unit), raw.header);
    load_words<4, alignment>(block(row, unit) + low_byte(unit), raw.quants);
    raw.unit = within(unit);
    return raw;
  }
  __device__ static Affine affine(const Raw& raw, int) {
    const std::uint32_t low = raw.header[1] >> 4 * raw.unit & 15u;
    const std::uint32_t high = raw.header[0] >> (16 + 2 * raw.unit) & 3u;
    return {half_of_word(raw.header[0], 0) * static_cast<float>(static_cast<int>(low | high << 4) - 32), 0.0f};
  }
  __device__ static void values(const Raw& raw, int part, int w, float* out) {
    constexpr SignedTable table = make_signed_table(iq4_values);
    four_signed(look_up(table, nibbles(raw.quants[w], part)), out);
  }
};

}  // namespace rocmforge::gpu
