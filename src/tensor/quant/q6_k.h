#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 6 bits in 16 sub-blocks of 16: scale * s * (quant - 32), where s is signed. Layout: ggml's block_q6_K. Each
/// half of 128 values takes 64 bytes of nibbles, the low ones for elements 0-63 and the high ones for 64-127, and 32 bytes
/// of top bits, where byte l holds those of elements l, l + 32, l + 64 and l + 96, from its low bits up.
struct BlockQ6_K : QuantBlock {
  static constexpr DType dtype = DType::q6_k;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  using Low = CodePlane<4, 64>;
  using High = CodePlane<2, 32>;
  static constexpr int offset = 32;
  std::uint8_t quants[128];
  std::uint8_t high_bits[64];
  std::int8_t scales[16];
  half scale;

  [[nodiscard]] constexpr int scale_code(unsigned g) const { return scales[g]; }
};
static_assert(sizeof(BlockQ6_K) == 210);

}  // namespace rocmforge
