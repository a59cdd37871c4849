#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq1.h"

namespace rocmforge {

/// 256 values in vectors of 8 from a table of 2048: scale * (2 s + 1) * (-1, 0 or 1, plus a shift of 1/8 or -1/8). s has 3
/// bits; s and the sign of the shift belong to 32 values. Layout: ggml's block_iq1_s. Integers count eighths.
struct BlockIQ1_S {
  static constexpr DType dtype = DType::iq1_s;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  static constexpr float unit = 0.125f;
  half scale;
  std::uint8_t indices[32];
  std::uint16_t high_bits[8];  ///< three more bits of four indices, then s, then the sign of the shift

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (high_bits[g] >> 12 & 7u) + 1u; }
  [[nodiscard]] constexpr bool shifts_down(unsigned g) const { return (high_bits[g] & 0x8000u) != 0; }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned vector = first / 8;
    const unsigned high = static_cast<unsigned>(high_bits[vector / 4]) >> 3 * (vector % 4) & 7u;
    return iq1_integers(iq1_grid[indices[vector] | high << 8], shifts_down(vector / 4));
  }
};
static_assert(sizeof(BlockIQ1_S) == 50);

}  // namespace rocmforge
