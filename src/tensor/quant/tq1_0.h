#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values -1, 0 or 1 times scale, five to a byte as digits of base three. Layout: ggml's block_tq1_0. A byte is the
/// number as a fraction of 256, rounded up, so that times 3^n its top digit is digit n. Digit n of bytes 0 to 31 are
/// elements from 32 n on, those of bytes 32 to 47 elements from 160 + 16 n on, those of bytes 48 to 51 (four each) from 240
/// + 4 n on.
struct BlockTQ1_0 {
  static constexpr DType dtype = DType::tq1_0;
  static constexpr int elems = 256;
  static constexpr unsigned group = 256;
  static constexpr float unit = 1.0f;
  std::uint8_t digits[52];
  half scale;

  [[nodiscard]] constexpr int element(unsigned e) const {
    constexpr std::uint8_t powers[5] = {1, 3, 9, 27, 81};
    const unsigned in_part = e < 160 ? e : e < 240 ? e - 160 : e - 240;
    const unsigned length = e < 160 ? 32 : e < 240 ? 16 : 4;
    const unsigned byte = (e < 160 ? 0 : e < 240 ? 32 : 48) + in_part % length;
    const unsigned fraction = digits[byte] * powers[in_part / length] & 0xffu;
    return static_cast<int>(fraction * 3 >> 8) - 1;
  }
  [[nodiscard]] constexpr EightBytes integers(unsigned first) const {
    EightBytes result{};
    for (unsigned i = 0; i < 8; ++i) {
      result.words[i / 4] |= (static_cast<std::uint32_t>(element(first + i)) & 0xffu) << 8 * (i % 4);
    }
    return result;
  }
};
static_assert(sizeof(BlockTQ1_0) == 54);

}  // namespace rocmforge
