#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// 256 values of 6 bits in 16 sub-blocks of 16: scale * s * (quant - 32), s signed. Layout: ggml's block_q6_K.
/// Per half of 128 values: 64 bytes of nibbles, the low ones elements 0-63, the high ones 64-127; 32 bytes of top bits, byte
/// l for elements l, l + 32, l + 64, l + 96 from its low bits up.
struct BlockQ6_K {
  static constexpr DType dtype = DType::q6_k;
  static constexpr int elems = 256;
  std::uint8_t low_bits[128];
  std::uint8_t high_bits[64];
  std::int8_t scales[16];
  half scale;
};
static_assert(sizeof(BlockQ6_K) == 210);

static constexpr void dequantize(const BlockQ6_K& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  for (int s = 0; s < 16; ++s) {
    const float step = scale * static_cast<float>(block.scales[s]);
    const int group = s % 8 / 2;  // of 32 elements inside the half
    const std::uint8_t* low_bits = block.low_bits + 64 * (s / 8) + 32 * (group % 2) + 16 * (s % 2);
    const std::uint8_t* high_bits = block.high_bits + 32 * (s / 8) + 16 * (s % 2);
    for (int l = 0; l < 16; ++l) {
      const int quant = (low_bits[l] >> 4 * (group / 2) & 15) | (high_bits[l] >> 2 * group & 3) << 4;
      out[16 * s + l] = step * static_cast<float>(quant - 32);
    }
  }
}

}  // namespace rocmforge
