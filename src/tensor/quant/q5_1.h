#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 32 values of 5 bits: scale * quant + minimum. Layout: ggml's block_q5_1; bits as in Q5_0.
struct BlockQ5_1 {
  static constexpr DType dtype = DType::q5_1;
  static constexpr int elems = 32;
  half scale;
  half minimum;
  std::uint8_t high_bits[4];
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

static constexpr void dequantize(const BlockQ5_1& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  const float minimum = static_cast<float>(block.minimum);
  const std::uint32_t high_bits = load_u32(block.high_bits);
  for (int j = 0; j < 16; ++j) {
    const auto low = (block.quants[j] & 15u) | (high_bits >> j & 1u) << 4;
    const auto high = (block.quants[j] >> 4) | (high_bits >> (j + 16) & 1u) << 4;
    out[j] = scale * static_cast<float>(low) + minimum;
    out[j + 16] = scale * static_cast<float>(high) + minimum;
  }
}

}  // namespace rocmforge
