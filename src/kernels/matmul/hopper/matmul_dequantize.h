#pragma once

// A lane's part of a tile of quantised weights (weight_layout.h), dequantised to binary16 as wgmma's register operand.
//
// A code becomes a number without a conversion: or-ed into the mantissa of 1024 (0x6400) it reads 1024 + code, codes of the
// high nibble 1024 + 16 code. Subtracting the 1024, and the format's offset with it, is exact; the product with the scale
// is rounded once. Element j of the 8 that a lane owns of a block of 32 is in a[.][.] of step j / 4; a pair holds elements
// j and j + 2, so that nibbles need no shuffling. Activations lie in that order too: see activation_element.

#include "kernels/formats/hopper/weight_layout.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/shared.h"

namespace rocmforge::hopper {

/// The column of a block of 32 whose activation stands at place `place` of the 32 along k.
__host__ __device__ constexpr int activation_element(int place) {
  const int step = place / 16;
  const int half = place / 8 % 2;
  const int chunk = place % 8 / 2;
  return 8 * chunk + 4 * step + half + 2 * (place % 2);
}

inline constexpr std::uint32_t thousands = 0x64006400;  ///< the pair 1024, 1024

/// `plus`: 1024 + an offset below 1024, twice.
constexpr std::uint32_t thousand_and(int plus) { return thousands + static_cast<std::uint32_t>(plus) * 0x10001u; }
/// -(64 + offset) twice, for codes times 16.
constexpr std::uint32_t minus_sixty_four_and(int plus) { return 0xd400d400u + static_cast<std::uint32_t>(plus) * 0x100010u; }
inline constexpr std::uint32_t sixteenths = 0x2c002c00;

/// Two rows, lane / 4 and 8 further on, of 128 columns.
template <WeightFormat format>
struct LaneWeights {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr WeightScales kind = weight_traits(format).scales;
  static constexpr bool has_minimum = kind == WeightScales::code_and_minimum;
  static constexpr int high_words = weight_traits(format).high_bits;
  static constexpr int code_quads = weight_traits(format).code_bits == 8 ? 2 : 1;
  static constexpr bool in_high_nibbles = has_high_nibbles(format);
  static constexpr int offset = weight_code_offset(format);

  std::uint32_t codes[2][code_quads][4];
  std::uint32_t high[2][high_words == 2 ? 2 : 1];
  std::uint32_t scales[2][2];  ///< pairs: of blocks 0 and 1, 2 and 3
  std::uint32_t minima[2][2];  ///< negative

  /// `record` is its address in shared memory.
  __device__ void load(std::uint32_t record, int group, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      load_codes(record, group, half, row, lane % 4);
      load_scales(record, group, half, row, lane % 4);
    }
  }

  __device__ void load_codes(std::uint32_t record, int group, int half, int row, int chunk) {
    if constexpr (code_quads == 2) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        load_shared(codes[half][pair], record + 2048 * group + 1024 * pair + 64 * row + 16 * chunk);
      }
    } else {
      load_shared(codes[half][0], record + 1024 * group + 64 * row + 16 * chunk);
    }
    if constexpr (high_words == 1) {
      high[half][0] = load_shared(record + layout.high_offset + 256 * group + 16 * row + 4 * chunk);
    } else if constexpr (high_words == 2) {
      load_shared(high[half], record + layout.high_offset + 512 * group + 32 * row + 8 * chunk);
    }
  }

  __device__ void load_scales(std::uint32_t record, int group, int half, int row, int chunk) {
    const std::uint32_t from = record + layout.scale_offset;
    if constexpr (has_minimum) {
      std::uint32_t words[2];
      load_shared(words, from + 16 * row + 8 * group);
      const std::uint32_t pair = load_shared(record + layout.super_offset + 4 * row);
      const std::uint32_t scale = twice<0>(pair);
      const std::uint32_t minimum_scale = twice<1>(pair) ^ 0x80008000u;
      scales[half][0] = multiply_pair(subtract_pair(__byte_perm(words[0], thousands, 0x5150), thousands), scale);
      minima[half][0] = multiply_pair(subtract_pair(__byte_perm(words[0], thousands, 0x5352), thousands), minimum_scale);
      scales[half][1] = multiply_pair(subtract_pair(__byte_perm(words[1], thousands, 0x5150), thousands), scale);
      minima[half][1] = multiply_pair(subtract_pair(__byte_perm(words[1], thousands, 0x5352), thousands), minimum_scale);
    } else if constexpr (kind == WeightScales::code_of_strip) {
      // Of each block the byte of this lane's 16 columns: as 1024 + 128 + scale in the halves of pairs.
      std::uint32_t words[4];
      load_shared(words, from + 16 * row);
      const std::uint32_t byte = static_cast<std::uint32_t>(2 * group + chunk / 2);
      const std::uint32_t picked01 = __byte_perm(words[0], words[1], byte | (byte + 4) << 4) ^ 0x8080u;
      const std::uint32_t picked23 = __byte_perm(words[2], words[3], byte | (byte + 4) << 4) ^ 0x8080u;
      const std::uint32_t scale = load_shared_16(record + layout.super_offset + 2 * row) * 0x10001u;
      scales[half][0] = multiply_pair(subtract_pair(__byte_perm(picked01, thousands, 0x5150), thousand_and(128)), scale);
      scales[half][1] = multiply_pair(subtract_pair(__byte_perm(picked23, thousands, 0x5150), thousand_and(128)), scale);
    } else if constexpr (kind == WeightScales::exponent) {
      const std::uint32_t exponents = load_shared(from + 4 * row);
      scales[half][0] = power_of_two(exponents & 255) | power_of_two(exponents >> 8 & 255) << 16;
      scales[half][1] = power_of_two(exponents >> 16 & 255) | power_of_two(exponents >> 24) << 16;
    } else {
      load_shared(scales[half], from + 8 * row);
    }
  }

  /// 2^(exponent - 127) as binary16, clamped to its range.
  __device__ static std::uint32_t power_of_two(std::uint32_t exponent) {
    const int e = static_cast<int>(exponent) - 112;
    return e > 30 ? 30u << 10 : e > 0 ? static_cast<std::uint32_t>(e) << 10 : e > -10 ? 0x200u >> -e : 0u;
  }

  /// Operand A of the two steps of 16 along k of block s.
  template <int s>
  __device__ void dequantize(std::uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t scale = twice<s % 2>(scales[half][s / 2]);
      std::uint32_t q[2][2];  // of step, of pair: elements (0, 2) and (1, 3) of each step
      numbers<s>(half, q);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          if constexpr (has_minimum) {
            a[step][half + 2 * pair] = fma_pair(q[step][pair], scale, twice<s % 2>(minima[half][s / 2]));
          } else {
            a[step][half + 2 * pair] = multiply_pair(q[step][pair], scale);
          }
        }
      }
    }
  }

  /// Codes less their offset. Codes of MXFP4 are floats of 1 + 2 + 1 bits: in binary16's place they are 2^14 times too
  /// small.
  template <int s>
  __device__ void numbers(int half, std::uint32_t (&q)[2][2]) const {
    if constexpr (code_quads == 2) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const std::uint32_t bytes = codes[half][s / 2][2 * (s % 2) + step] ^ 0x80808080u;
        q[step][0] = less_offset(__byte_perm(bytes, thousands, 0x5250));
        q[step][1] = less_offset(__byte_perm(bytes, thousands, 0x5351));
      }
      return;
    }
    const std::uint32_t words[2] = {codes[half][0][s], codes[half][0][s] >> 8};
    if constexpr (format == WeightFormat::mxfp4) {
      constexpr std::uint32_t two_to_14 = 0x74007400;
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const std::uint32_t low = mask_or<0x80008000u>(words[pair] << 12, (words[pair] << 9) & 0x0e000e00u);
        const std::uint32_t high_code = mask_or<0x80008000u>(words[pair] << 8, (words[pair] << 5) & 0x0e000e00u);
        q[0][pair] = multiply_pair(low, two_to_14);
        q[1][pair] = multiply_pair(high_code, two_to_14);
      }
    } else if constexpr (in_high_nibbles) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        q[0][pair] = less_offset(mask_or<0x000f000fu, thousands>(words[pair]));
        const std::uint32_t high_code = mask_or<0x00f000f0u, thousands>(words[pair]);
        q[1][pair] = fma_pair(high_code, sixteenths, minus_sixty_four_and(offset));
      }
    } else {
      constexpr int bits = high_words;
      constexpr std::uint32_t mask = (bits == 1 ? 1u : 3u) * 0x100010u;
      constexpr int first = bits == 1 ? 2 * s : 4 * (s % 2);  // bit of step 0, in each byte
      const std::uint32_t word = high[half][bits == 1 ? 0 : s / 2];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const std::uint32_t low = mask_or<0x000f000fu, thousands>(words[pair]);
        const std::uint32_t high_code = mask_or<0x000f000fu, thousands>(words[pair] >> 4);
        q[0][pair] = less_offset(mask_or<mask>(shift<first + 8 * 0>(word, pair), low));
        q[1][pair] = less_offset(mask_or<mask>(shift<first + bits>(word, pair), high_code));
      }
    }
  }
  __device__ static std::uint32_t less_offset(std::uint32_t numbers) { return subtract_pair(numbers, thousand_and(offset)); }
  /// Moves the bits of each byte from bit `first` on to bit 4 of the halves; for pair 1 those of odd bytes.
  template <int first>
  __device__ static std::uint32_t shift(std::uint32_t word, int pair) {
    const int right = first - 4 + 8 * pair;
    return right >= 0 ? word >> right : word << -right;
  }
};

}  // namespace rocmforge::hopper
