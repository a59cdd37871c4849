#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq2.h"

namespace rocmforge {

/// 256 values in vectors of 8 from a table of 1024: scale * (2 s + 1) / 8 * (8, 25 or 43 with a sign). s has 4 bits and
/// belongs to 16 values. Layout: ggml's block_iq2_s, with a byte of signs for each vector.
struct BlockIQ2_S {
  static constexpr DType dtype = DType::iq2_s;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  static constexpr float unit = 0.125f;
  half scale;
  std::uint8_t indices[32];
  std::uint8_t signs[32];
  std::uint8_t high_bits[8];  ///< two more bits of each index
  std::uint8_t scales[8];     ///< nibbles

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (scales[g / 2] >> 4 * (g % 2) & 15u) + 1u; }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned vector = first / 8;
    const unsigned high = high_bits[vector / 4] >> 2 * (vector % 4) & 3u;
    return iq2_integers(iq2_s_grid[indices[vector] | high << 8], signs[vector]);
  }
};
static_assert(sizeof(BlockIQ2_S) == 82);

}  // namespace rocmforge
