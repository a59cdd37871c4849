#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq2.h"

namespace rocmforge {

/// 256 values in vectors of 8 from a table of 512: scale * (2 s + 1) / 8 * (8, 25 or 43 with a sign). s has 4 bits and
/// belongs to 16 values. Layout: ggml's block_iq2_xs. The word of a vector has its index in 9 bits and 7 signs.
struct BlockIQ2_XS {
  static constexpr DType dtype = DType::iq2_xs;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  static constexpr float unit = 0.125f;
  half scale;
  std::uint16_t vectors[32];
  std::uint8_t scales[8];  ///< nibbles

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (scales[g / 2] >> 4 * (g % 2) & 15u) + 1u; }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned vector = vectors[first / 8];
    return iq2_integers(iq2_xs_grid[vector & 511u], even_signs(vector >> 9));
  }
};
static_assert(sizeof(BlockIQ2_XS) == 74);

}  // namespace rocmforge
