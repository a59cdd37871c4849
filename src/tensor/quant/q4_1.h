#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// 32 values of 4 bits: scale * quant + minimum. Layout: ggml's block_q4_1; nibbles as in Q4_0.
struct BlockQ4_1 {
  static constexpr DType dtype = DType::q4_1;
  static constexpr int elems = 32;
  half scale;
  half minimum;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

static constexpr void dequantize(const BlockQ4_1& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  const float minimum = static_cast<float>(block.minimum);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(block.quants[j] & 15) + minimum;
    out[j + 16] = scale * static_cast<float>(block.quants[j] >> 4) + minimum;
  }
}

}  // namespace rocmforge
