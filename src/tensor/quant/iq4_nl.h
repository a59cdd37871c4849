#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// The values of the 4-bit codes of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 32 values of 4 bits, which index a table of 16 uneven steps: scale * iq4_values[quant]. Layout: ggml's block_iq4_nl;
/// nibbles as in Q4_0.
struct BlockIQ4_NL : QuantBlock {
  static constexpr DType dtype = DType::iq4_nl;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  static constexpr const std::int8_t (&values)[16] = iq4_values;
  half scale;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

}  // namespace rocmforge
