#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/iq4_nl.h"

namespace rocmforge {

/// 256 values of 4 bits in 8 sub-blocks of 32: scale * s * iq4_values[quant], where s is signed. Layout: ggml's
/// block_iq4_xs; the 16 bytes of a sub-block as in IQ4_NL.
struct BlockIQ4_XS : QuantBlock {
  static constexpr DType dtype = DType::iq4_xs;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  static constexpr const std::int8_t (&values)[16] = iq4_values;
  half scale;
  std::uint16_t scales_high;
  std::uint8_t scales_low[4];  ///< nibbles; the top two bits are in scales_high
  std::uint8_t quants[128];

  [[nodiscard]] constexpr int scale_code(unsigned g) const {
    return signed_scale(scales_low[g / 2] >> 4 * (g % 2), static_cast<unsigned>(scales_high) >> 2 * g);
  }
};
static_assert(sizeof(BlockIQ4_XS) == 136);

}  // namespace rocmforge
