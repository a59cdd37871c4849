#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq3.h"

namespace rocmforge {

/// 256 values in vectors of 4 from a table of 256: scale * (2 s + 1) / 4 * (4 to 62 with a sign). s has 4 bits and belongs
/// to 32 values. Layout: ggml's block_iq3_xxs. 32 values take two of the words: 28 bits of signs (seven for each 8 values),
/// then s.
struct BlockIQ3_XXS {
  static constexpr DType dtype = DType::iq3_xxs;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  static constexpr float unit = 0.25f;
  half scale;
  std::uint8_t indices[64];
  std::uint16_t words[16];

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (words[2 * g + 1] >> 12) + 1u; }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned at = first / 32 * 2;
    const std::uint32_t packed = words[at] | static_cast<std::uint32_t>(words[at + 1]) << 16;
    const std::uint32_t signs = even_signs(packed >> 7 * (first / 8 % 4) & 127u);
    const unsigned vector = first / 4;
    return {
        {iq3_xxs_word(iq3_xxs_grid[indices[vector]], signs), iq3_xxs_word(iq3_xxs_grid[indices[vector + 1]], signs >> 4)}};
  }
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

}  // namespace rocmforge
