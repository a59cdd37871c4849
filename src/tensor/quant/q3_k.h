#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 256 values of 3 bits in 16 sub-blocks of 16: scale * s * (quant - 4), s signed. Layout: ggml's block_q3_K.
/// Low two bits as in Q2_K; bit k of high_bits[l] is the third bit of element 32 * k + l (clear means minus 4).
struct BlockQ3_K {
  static constexpr DType dtype = DType::q3_k;
  static constexpr int elems = 256;
  std::uint8_t high_bits[32];
  std::uint8_t quants[64];
  std::uint8_t scales[12];  ///< see unpack_scales_q3_k
  half scale;
};
static_assert(sizeof(BlockQ3_K) == 110);

static constexpr void dequantize(const BlockQ3_K& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  std::int8_t scales[16];
  unpack_scales_q3_k(block.scales, scales);
  for (int s = 0; s < 16; ++s) {
    const float step = scale * static_cast<float>(scales[s]);
    const std::uint8_t* quants = block.quants + 32 * (s / 8) + 16 * (s % 2);
    const std::uint8_t* high_bits = block.high_bits + 16 * (s % 2);
    const int shift = 2 * (s % 8 / 2);
    for (int l = 0; l < 16; ++l) {
      const int quant = (quants[l] >> shift & 3) | (high_bits[l] >> s / 2 & 1) << 2;
      out[16 * s + l] = step * static_cast<float>(quant - 4);
    }
  }
}

}  // namespace rocmforge
