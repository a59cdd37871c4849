#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 32 values of 4 bits: scale * quant + minimum. Layout: ggml's block_q4_1; nibbles as in Q4_0.
struct BlockQ4_1 : QuantBlock {
  static constexpr DType dtype = DType::q4_1;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  half scale;
  half minimum;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

}  // namespace rocmforge
