#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 2 bits: scale * (quant - 1). Layout: ggml's block_tq2_0; quants as in Q2_K.
struct BlockTQ2_0 : QuantBlock {
  static constexpr DType dtype = DType::tq2_0;
  static constexpr int elems = 256;
  static constexpr unsigned group = 256;
  using Low = CodePlane<2, 32>;
  static constexpr int offset = 1;
  std::uint8_t quants[64];
  half scale;
};
static_assert(sizeof(BlockTQ2_0) == 66);

}  // namespace rocmforge
