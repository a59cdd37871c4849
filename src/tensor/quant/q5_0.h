#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 32 values of 5 bits: scale * (quant - 16). Layout: ggml's block_q5_0. The low four bits are as in Q4_0; bit j of
/// `high_bits` (little-endian) is the fifth bit of element j.
struct BlockQ5_0 : QuantBlock {
  static constexpr DType dtype = DType::q5_0;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  using High = CodePlane<1, 1>;
  static constexpr int offset = 16;
  half scale;
  std::uint8_t high_bits[4];
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

}  // namespace rocmforge
