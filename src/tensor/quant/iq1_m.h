#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/grid.h"
#include "tensor/quant/grid_iq1.h"

namespace rocmforge {

/// 256 values in vectors of 8 from IQ1_S's table: scale * (2 s + 1) * (-1, 0 or 1, plus a shift of 1/8 or -1/8). s has 3
/// bits and belongs to 16 values; the sign of the shift belongs to 8. Layout: ggml's block_iq1_m. Integers count eighths.
struct BlockIQ1_M {
  static constexpr DType dtype = DType::iq1_m;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  static constexpr float unit = 0.125f;
  std::uint8_t indices[32];
  std::uint8_t high_bits[16];  ///< each nibble: three more bits of an index, and the sign of its shift
  std::uint16_t scales[4];     ///< each: s of four groups; its top nibble is part of the scale, the first the lowest

  [[nodiscard]] constexpr half joined_scale() const {
    half result{};
    result.bits = static_cast<std::uint16_t>(scales[0] >> 12 | (scales[1] >> 12) << 4 | (scales[2] >> 12) << 8 |
                                             (scales[3] >> 12) << 12);
    return result;
  }
  constexpr void set_scale(half value) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned nibble = value.bits >> 4 * i & 15u;
      scales[i] = static_cast<std::uint16_t>((scales[i] & 0x0fffu) | nibble << 12);
    }
  }
  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const {
    return 2u * (static_cast<unsigned>(scales[g / 4]) >> 3 * (g % 4) & 7u) + 1u;
  }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    const unsigned vector = first / 8;
    const unsigned nibble = high_bits[vector / 2] >> 4 * (vector % 2) & 15u;
    return iq1_integers(iq1_grid[indices[vector] | (nibble & 7u) << 8], (nibble & 8u) != 0);
  }
};
static_assert(sizeof(BlockIQ1_M) == 56);

}  // namespace rocmforge
