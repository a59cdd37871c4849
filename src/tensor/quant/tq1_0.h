#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of -1, 0 or 1 times scale, five in each byte as digits of base three. Layout: ggml's block_tq1_0. A byte is
/// the number as a fraction of 256, rounded up, so that digit n is the top digit of the fraction times 3^n. Digit n of bytes
/// 0 to 31 gives the elements from 32 n on, that of bytes 32 to 47 the elements from 160 + 16 n on, and that of bytes 48 to
/// 51 (four digits each) the elements from 240 + 4 n on.
struct BlockTQ1_0 {
  static constexpr DType dtype = DType::tq1_0;
  static constexpr int elems = 256;
  static constexpr unsigned group = 256;
  static constexpr float unit = 1.0f;
  std::uint8_t digits[52];
  half scale;

  [[nodiscard]] constexpr int element(unsigned e) const {
    constexpr std::uint64_t powers = 0x511b090301;  // powers of three, one in each byte
    const unsigned in_part = e < 160 ? e : e < 240 ? e - 160 : e - 240;
    const unsigned length = e < 160 ? 32 : e < 240 ? 16 : 4;
    const unsigned byte = (e < 160 ? 0 : e < 240 ? 32 : 48) + in_part % length;
    const unsigned fraction = digits[byte] * static_cast<unsigned>(powers >> 8 * (in_part / length) & 0xffu) & 0xffu;
    return static_cast<int>(fraction * 3 >> 8) - 1;
  }
  [[nodiscard]] constexpr std::uint32_t word(unsigned first) const {
    std::uint32_t bytes = 0;
    for (unsigned i = 0; i < 4; ++i) {
      bytes |= (static_cast<std::uint32_t>(element(first + i)) & 0xffu) << 8 * i;
    }
    return bytes;
  }
  [[nodiscard, gnu::always_inline]] constexpr EightBytes integers(unsigned first) const {
    return {{word(first), word(first + 4)}};
  }
};
static_assert(sizeof(BlockTQ1_0) == 54);

}  // namespace rocmforge
