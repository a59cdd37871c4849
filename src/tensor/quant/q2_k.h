#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// 256 values of 2 bits in 16 sub-blocks of 16: scale * s * quant - minimum_scale * m. Layout: ggml's block_q2_K.
/// Each half of 128 values takes 32 bytes; byte l holds elements l, l + 32, l + 64, l + 96 from its low bits up.
struct BlockQ2_K {
  static constexpr DType dtype = DType::q2_k;
  static constexpr int elems = 256;
  std::uint8_t scales[16];  ///< low nibble: scale, high nibble: minimum
  std::uint8_t quants[64];
  half scale;
  half minimum_scale;
};
static_assert(sizeof(BlockQ2_K) == 84);

static constexpr void dequantize(const BlockQ2_K& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  const float minimum_scale = static_cast<float>(block.minimum_scale);
  for (int s = 0; s < 16; ++s) {
    const float step = scale * static_cast<float>(block.scales[s] & 15);
    const float minimum = minimum_scale * static_cast<float>(block.scales[s] >> 4);
    const std::uint8_t* quants = block.quants + 32 * (s / 8) + 16 * (s % 2);
    const int shift = 2 * (s % 8 / 2);
    for (int l = 0; l < 16; ++l) {
      out[16 * s + l] = step * static_cast<float>(quants[l] >> shift & 3) - minimum;
    }
  }
}

}  // namespace rocmforge
