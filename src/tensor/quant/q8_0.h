#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 32 values of 8 bits, signed: scale * quant. Layout: ggml's block_q8_0.
struct BlockQ8_0 : QuantBlock {
  static constexpr DType dtype = DType::q8_0;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<8, 32>;
  static constexpr std::uint8_t flip = 0x80;
  static constexpr int offset = 128;
  half scale;
  std::int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace rocmforge
