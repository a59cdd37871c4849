#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 4 bits in 8 sub-blocks of 32: scale * s * quant - minimum_scale * m. Layout: ggml's block_q4_K. Each 32
/// bytes hold two sub-blocks, the even one in the low nibbles.
struct BlockQ4_K : QuantBlock {
  static constexpr DType dtype = DType::q4_k;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 32>;
  half scale;
  half minimum_scale;
  std::uint8_t scales[12];  ///< see k4_scale
  std::uint8_t quants[128];

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return k4_scale(scales, g); }
  [[nodiscard]] constexpr unsigned minimum_code(unsigned g) const { return k4_minimum(scales, g); }
};
static_assert(sizeof(BlockQ4_K) == 144);

}  // namespace rocmforge
