#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 32 values of 4 bits: scale * (quant - 8). Layout: ggml's block_q4_0. Byte j holds element j in its low nibble and element
/// j + 16 in its high nibble.
struct BlockQ4_0 : QuantBlock {
  static constexpr DType dtype = DType::q4_0;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  static constexpr int offset = 8;
  half scale;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

}  // namespace rocmforge
