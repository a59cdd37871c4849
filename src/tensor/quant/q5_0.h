#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/unpack.h"

namespace rocmforge {

/// 32 values of 5 bits: scale * (quant - 16). Layout: ggml's block_q5_0.
/// Low four bits as in Q4_0; bit j of `high_bits` (little-endian) is the fifth bit of element j.
struct BlockQ5_0 {
  static constexpr DType dtype = DType::q5_0;
  static constexpr int elems = 32;
  half scale;
  std::uint8_t high_bits[4];
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

static constexpr void dequantize(const BlockQ5_0& block, float* out) {
  const float scale = static_cast<float>(block.scale);
  const std::uint32_t high_bits = load_u32(block.high_bits);
  for (int j = 0; j < 16; ++j) {
    const auto low = static_cast<int>((block.quants[j] & 15u) | (high_bits >> j & 1u) << 4);
    const auto high = static_cast<int>((block.quants[j] >> 4) | (high_bits >> (j + 16) & 1u) << 4);
    out[j] = scale * static_cast<float>(low - 16);
    out[j + 16] = scale * static_cast<float>(high - 16);
  }
}

}  // namespace rocmforge
