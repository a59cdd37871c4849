#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 32 values of 5 bits: scale * quant + minimum. Layout: ggml's block_q5_1; bits as in Q5_0.
struct BlockQ5_1 : QuantBlock {
  static constexpr DType dtype = DType::q5_1;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  using High = CodePlane<1, 1>;
  half scale;
  half minimum;
  std::uint8_t high_bits[4];
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

}  // namespace rocmforge
