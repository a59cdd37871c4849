#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// The values of the 4-bit codes of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// 32 values of 4 bits that index a table of 16 uneven steps: scale * iq4_values[quant]. Layout: ggml's block_iq4_nl;
/// nibbles as in Q4_0.
struct BlockIQ4_NL {
  static constexpr DType dtype = DType::iq4_nl;
  static constexpr int elems = 32;
  half scale;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

static constexpr void dequantize(const BlockIQ4_NL& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(iq4_values[block.quants[j] & 15]);
    out[j + 16] = scale * static_cast<float>(iq4_values[block.quants[j] >> 4]);
  }
}

}  // namespace rocmforge
