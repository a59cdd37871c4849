#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 3 bits in 16 sub-blocks of 16: scale * s * (quant - 4), where s is signed. Layout: ggml's block_q3_K. The
/// low two bits are as in Q2_K; bit k of high_bits[l] is the third bit of element 32 * k + l (if it is clear, 4 is
/// subtracted).
struct BlockQ3_K : QuantBlock {
  static constexpr DType dtype = DType::q3_k;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  using Low = CodePlane<2, 32>;
  using High = CodePlane<1, 32>;
  static constexpr int offset = 4;
  std::uint8_t high_bits[32];
  std::uint8_t quants[64];
  std::uint8_t scales[12];  ///< low nibbles in bytes 0-7, top two bits in bytes 8-11
  half scale;

  [[nodiscard]] constexpr int scale_code(unsigned g) const {
    return signed_scale(scales[g % 8] >> 4 * (g / 8), scales[8 + g % 4] >> 2 * (g / 4));
  }
};
static_assert(sizeof(BlockQ3_K) == 110);

}  // namespace rocmforge
