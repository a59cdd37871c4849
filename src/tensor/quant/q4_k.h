#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 256 values of 4 bits in 8 sub-blocks of 32: scale * s * quant - minimum_scale * m. Layout: ggml's block_q4_K.
/// Each 32 bytes hold two sub-blocks, the even one in the low nibbles.
struct BlockQ4_K {
  static constexpr DType dtype = DType::q4_k;
  static constexpr int elems = 256;
  half scale;
  half minimum_scale;
  std::uint8_t scales[12];  ///< see unpack_scales_k4
  std::uint8_t quants[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

static constexpr void dequantize(const BlockQ4_K& block, float* out) {
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
      out[32 * k + l] = step * static_cast<float>(quants[l] >> shift & 15) - minimum;
    }
  }
}

}  // namespace rocmforge
