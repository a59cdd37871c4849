#pragma once

// Quants and scales of Q8_0 pages (KvLayout) as the matrix units' operands.

#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/shared.h"

namespace rocmforge::hopper {

/// Four quants as binary16. quant + 128 in the low byte of 0x6400 reads 1024 + 128 + quant; the subtraction of 1152 is
/// exact. Pairs are neighbours, or the first with the third and the second with the fourth.
template <bool neighbours>
__device__ inline void numbers_of_quants(std::uint32_t (&pairs)[2], std::uint32_t quants) {
  constexpr std::uint32_t of_1024 = 0x64006400;
  constexpr std::uint32_t of_1152 = 0x64806480;
  const std::uint32_t moved = quants ^ 0x80808080u;
  pairs[0] = subtract_pair(__byte_perm(moved, of_1024, neighbours ? 0x5150 : 0x5250), of_1152);
  pairs[1] = subtract_pair(__byte_perm(moved, of_1024, neighbours ? 0x5352 : 0x5351), of_1152);
}

/// The place of an even dimension of q among 16: a lane's four neighbouring quants of K, of dimensions 4 c to 4 c + 3, are
/// then its part of an operand (`multiply`): 2 c + 0, 1 and 8 further on.
__device__ inline int quant_place(int dim) { return dim / 16 * 16 + dim % 4 * 4 + dim % 16 / 4 * 2; }

__device__ inline float2 floats_of_pair(std::uint32_t pair) {
  float2 floats;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high;\n"
      "}\n"
      : "=f"(floats.x), "=f"(floats.y)
      : "r"(pair));
  return floats;
}

/// Two keys' scales of `count` groups, 2 or 4, as pairs of the same group; keys lie `stride` bytes apart.
template <int count>
__device__ inline void load_scale_pairs(std::uint32_t (&pairs)[count], std::uint32_t address, int stride) {
  std::uint32_t words[2][count / 2];
#pragma unroll
  for (int key = 0; key < 2; ++key) {
    if constexpr (count == 4) {
      load_shared(words[key], address + key * stride);
    } else {
      words[key][0] = load_shared(address + key * stride);
    }
  }
#pragma unroll
  for (int g = 0; g < count; ++g) {
    pairs[g] = __byte_perm(words[0][g / 2], words[1][g / 2], g % 2 == 0 ? 0x5410 : 0x7632);
  }
}

}  // namespace rocmforge::hopper
