#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// 32 values of 4 bits: scale * (quant - 8). Layout: ggml's block_q4_0.
/// Byte j holds element j in its low and element j + 16 in its high nibble.
struct BlockQ4_0 {
  static constexpr DType dtype = DType::q4_0;
  static constexpr int elems = 32;
  half scale;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

static constexpr void dequantize(const BlockQ4_0& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>((block.quants[j] & 15) - 8);
    out[j + 16] = scale * static_cast<float>((block.quants[j] >> 4) - 8);
  }
}

}  // namespace rocmforge
