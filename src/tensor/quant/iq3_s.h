#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq3.h"

namespace rocmforge {

/// 256 values in vectors of 4 from a table of 512: scale * (2 s + 1) * (an odd number below 16 with a sign). s has 4 bits
/// and belongs to 32 values. Layout: ggml's block_iq3_s, with a byte of signs for each 8 values.
struct BlockIQ3_S {
  static constexpr DType dtype = DType::iq3_s;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  static constexpr float unit = 1.0f;
  half scale;
  std::uint8_t indices[64];
  std::uint8_t high_bits[8];  ///< the ninth bit of each index
  std::uint8_t signs[32];
  std::uint8_t scales[4];  ///< nibbles

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (scales[g / 2] >> 4 * (g % 2) & 15u) + 1u; }
  [[nodiscard]] constexpr unsigned index(unsigned vector) const {
    return indices[vector] | (high_bits[vector / 8] >> vector % 8 & 1u) << 8;
  }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned vector = first / 4;
    const std::uint32_t of_eight = signs[first / 8];
    return {{iq3_s_word(iq3_s_grid[index(vector)], of_eight), iq3_s_word(iq3_s_grid[index(vector + 1)], of_eight >> 4)}};
  }
};
static_assert(sizeof(BlockIQ3_S) == 110);

}  // namespace rocmforge
