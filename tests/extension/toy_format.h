#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// A format that no file has, as docs/add-a-quant-format.md describes one: 64 values of 4 bits with a binary16 scale,
/// scale * (quant - 8). Byte j holds elements j and 32 + j. It takes the id of a type without a block, and has the numbers
/// of the form q4_0.
struct BlockToy : QuantBlock {
  static constexpr DType dtype = DType::q2_0;
  static constexpr int elems = 64;
  static constexpr unsigned group = 64;
  using Low = CodePlane<4, 32>;
  static constexpr int offset = 8;
  half scale;
  std::uint8_t quants[32];
};
static_assert(sizeof(BlockToy) == 34);

}  // namespace rocmforge
