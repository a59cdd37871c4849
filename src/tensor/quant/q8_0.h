#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// 32 values of 8 bits, signed: scale * quant. Layout: ggml's block_q8_0.
struct BlockQ8_0 {
  static constexpr DType dtype = DType::q8_0;
  static constexpr int elems = 32;
  half scale;
  std::int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

static constexpr void dequantize(const BlockQ8_0& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  for (int j = 0; j < 32; ++j) {
    out[j] = scale * static_cast<float>(block.quants[j]);
  }
}

}  // namespace rocmforge
