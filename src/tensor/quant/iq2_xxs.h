#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq2.h"

namespace rocmforge {

/// 256 values in vectors of 8 from a table of 256: scale * (2 s + 1) / 8 * (8, 25 or 43 with a sign). s has 4 bits and
/// belongs to 32 values. Layout: ggml's block_iq2_xxs. 32 values take four words: four bytes of indices, then 28 bits of
/// signs (seven for each vector), then s.
struct BlockIQ2_XXS {
  static constexpr DType dtype = DType::iq2_xxs;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  static constexpr float unit = 0.125f;
  half scale;
  std::uint16_t words[32];

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return 2u * (words[4 * g + 3] >> 12) + 1u; }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned at = first / 32 * 4;
    const unsigned vector = first / 8 % 4;
    const unsigned index = words[at + vector / 2] >> 8 * (vector % 2) & 0xffu;
    const std::uint32_t signs = words[at + 2] | static_cast<std::uint32_t>(words[at + 3]) << 16;
    return iq2_integers(iq2_xxs_grid[index], even_signs(signs >> 7 * vector & 127u));
  }
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

}  // namespace rocmforge
