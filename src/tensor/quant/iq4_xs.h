#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 256 values of 4 bits in 8 sub-blocks of 32: scale * s * iq4_values[quant], s signed. Layout: ggml's block_iq4_xs; each
/// sub-block's 16 bytes as in IQ4_NL.
struct BlockIQ4_XS {
  static constexpr DType dtype = DType::iq4_xs;
  static constexpr int elems = 256;
  half scale;
  std::uint16_t scales_high;
  std::uint8_t scales_low[4];  ///< see unpack_scales_iq4_xs
  std::uint8_t quants[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

static constexpr void dequantize(const BlockIQ4_XS& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  std::int8_t scales[8];
  unpack_scales_iq4_xs(block.scales_low, block.scales_high, scales);
  for (int k = 0; k < 8; ++k) {
    const float step = scale * static_cast<float>(scales[k]);
    const std::uint8_t* quants = block.quants + 16 * k;
    for (int l = 0; l < 16; ++l) {
      out[32 * k + l] = step * static_cast<float>(iq4_values[quants[l] & 15]);
      out[32 * k + l + 16] = step * static_cast<float>(iq4_values[quants[l] >> 4]);
    }
  }
}

}  // namespace rocmforge
