#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 256 values of 5 bits in 8 sub-blocks of 32: scale * s * quant - minimum_scale * m. Layout: ggml's block_q5_K.
/// Low four bits as in Q4_K; bit k of high_bits[l] is the fifth bit of element 32 * k + l.
struct BlockQ5_K {
  static constexpr DType dtype = DType::q5_k;
  static constexpr int elems = 256;
  half scale;
  half minimum_scale;
  std::uint8_t scales[12];  ///< see unpack_scales_k4
  std::uint8_t high_bits[32];
  std::uint8_t quants[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

static constexpr void dequantize(const BlockQ5_K& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  const float minimum_scale = static_cast<float>(block.minimum_scale);
  std::uint8_t scales[8];
  std::uint8_t minima[8];
  unpack_scales_k4(block.scales, scales, minima);
  for (int k = 0; k < 8; ++k) {
    const float step = scale * static_cast<float>(scales[k]);
    const float minimum = minimum_scale * static_cast<float>(minima[k]);
    const std::uint8_t* quants = block.quants + 32 * (k / 2);
    const int shift = 4 * (k % 2);
    for (int l = 0; l < 32; ++l) {
      const int quant = (quants[l] >> shift & 15) | (block.high_bits[l] >> k & 1) << 4;
      out[32 * k + l] = step * static_cast<float>(quant) - minimum;
    }
  }
}

}  // namespace rocmforge
