#pragma once

// Bytes of quantised weights on their way to floats, for the matrix products: wide loads at the alignment a block has, bit
// fields of four bytes at a time, conversion, and look-up in a table of 16 bytes.

#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

/// `count` words from an address that is a multiple of `alignment`. Below 4, NVIDIA needs whole aligned words: it reads
/// those that hold the bytes asked for (up to 3 bytes on either side, never a word without any of them) and shifts them
/// together.
template <int count, int alignment>
__device__ inline void load_words(const std::uint8_t* from, std::uint32_t* words) {
#if ROCMFORGE_DEVICE_AMD
  __builtin_memcpy(words, __builtin_assume_aligned(from, alignment), 4 * count);  // loads need not be aligned
#else
  if constexpr (alignment >= 16 && count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count / 4; ++i) {
      const uint4 four = reinterpret_cast<const uint4*>(from)[i];
      words[4 * i] = four.x;
      words[4 * i + 1] = four.y;
      words[4 * i + 2] = four.z;
      words[4 * i + 3] = four.w;
    }
  } else if constexpr (alignment >= 8 && count % 2 == 0) {
#pragma unroll
    for (int i = 0; i < count / 2; ++i) {
      const uint2 two = reinterpret_cast<const uint2*>(from)[i];
      words[2 * i] = two.x;
      words[2 * i + 1] = two.y;
    }
  } else if constexpr (alignment >= 4) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      words[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
    }
  } else {
    const auto address = reinterpret_cast<std::uintptr_t>(from);
    const auto* aligned = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
    const auto shift = static_cast<std::uint32_t>(address & 3) * 8;
    std::uint32_t low = aligned[0];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const std::uint32_t high = i + 1 < count || shift != 0 ? aligned[i + 1] : 0;
      words[i] = __funnelshift_r(low, high, shift);
      low = high;
    }
  }
#endif
}

/// A binary16 as it lies in memory, at an even address.
__device__ inline float load_half(const std::uint8_t* from) {
  half value;
  value.bits = *reinterpret_cast<const std::uint16_t*>(from);
  return to_float(value);
}

__device__ inline float half_of_word(std::uint32_t word, int which) {
  half value;
  value.bits = static_cast<std::uint16_t>(word >> 16 * which);
  return to_float(value);
}

/// Bits 0 to 3 of `bits` as bit `place` of the four bytes. The factor puts four copies 7 bits apart, which do not overlap.
template <int place>
__device__ inline std::uint32_t spread_bits(std::uint32_t bits) {
  return ((bits & 15u) * 0x00204081u & 0x01010101u) << place;
}

/// What four_codes adds to every value: NVIDIA converts a byte by making it part of a float's mantissa.
#if ROCMFORGE_DEVICE_AMD
inline constexpr float code_bias = 0.0f;
#else
inline constexpr float code_bias = 128.0f;
#endif

/// The four bytes of a word, all below 128, as floats plus code_bias.
__device__ inline void four_codes(std::uint32_t word, float* values) {
#if ROCMFORGE_DEVICE_AMD
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = static_cast<float>(word >> 8 * i & 255u);  // one instruction
  }
#else
  values[0] = __uint_as_float(__byte_perm(word, 0x43000000u, 0x7044));  // 128 * (1 + byte / 128)
  values[1] = __uint_as_float(__byte_perm(word, 0x43000000u, 0x7144));
  values[2] = __uint_as_float(__byte_perm(word, 0x43000000u, 0x7244));
  values[3] = __uint_as_float(__byte_perm(word, 0x43000000u, 0x7344));
#endif
}

/// The four bytes of a word, signed, as floats.
__device__ inline void four_signed(std::uint32_t word, float* values) {
#if ROCMFORGE_DEVICE_AMD
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[i] = static_cast<float>(static_cast<std::int8_t>(word >> 8 * i & 255u));
  }
#else
  const std::uint32_t flipped = word ^ 0x80808080u;  // byte + 128, then 2^23 + byte + 128 as a float
  values[0] = __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7440)) - 8388736.0f;
  values[1] = __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7441)) - 8388736.0f;
  values[2] = __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7442)) - 8388736.0f;
  values[3] = __uint_as_float(__byte_perm(flipped, 0x4b000000u, 0x7443)) - 8388736.0f;
#endif
}

/// 16 signed bytes, entry i in byte i % 4 of word i / 4.
struct SignedTable {
  std::uint32_t words[4];
};

constexpr SignedTable make_signed_table(const std::int8_t (&values)[16]) {
  SignedTable table{};
  for (int i = 0; i < 16; ++i) {
    table.words[i / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(values[i])) << 8 * (i % 4);
  }
  return table;
}

/// Entry c of the table for each byte c < 16 of a word.
__device__ inline std::uint32_t look_up(const SignedTable& table, std::uint32_t codes) {
  const std::uint32_t upper = (codes >> 3 & 0x01010101u) * 255u;  // all bits of the bytes whose code is 8 or more
#if ROCMFORGE_DEVICE_AMD
  const std::uint32_t select = codes & 0x07070707u;
  const std::uint32_t low = __builtin_amdgcn_perm(table.words[1], table.words[0], select);
  const std::uint32_t high = __builtin_amdgcn_perm(table.words[3], table.words[2], select);
#else
  const std::uint32_t pairs = (codes | codes >> 4) & 0x00770077u;  // codes without bit 3, as nibbles of bytes 0 and 2
  const std::uint32_t select = pairs | pairs >> 8;
  const std::uint32_t low = __byte_perm(table.words[0], table.words[1], select & 0x7777u);
  const std::uint32_t high = __byte_perm(table.words[2], table.words[3], select & 0x7777u);
#endif
  return (low & ~upper) | (high & upper);
}

}  // namespace rocmforge::gpu
