#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 5 bits in 8 sub-blocks of 32: scale * s * quant - minimum_scale * m. Layout: ggml's block_q5_K. The low
/// four bits are as in Q4_K; bit k of high_bits[l] is the fifth bit of element 32 * k + l.
struct BlockQ5_K : QuantBlock {
  static constexpr DType dtype = DType::q5_k;
  static constexpr int elems = 256;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 32>;
  using High = CodePlane<1, 32>;
  half scale;
  half minimum_scale;
  std::uint8_t scales[12];  ///< see k4_scale
  std::uint8_t high_bits[32];
  std::uint8_t quants[128];

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return k4_scale(scales, g); }
  [[nodiscard]] constexpr unsigned minimum_code(unsigned g) const { return k4_minimum(scales, g); }
};
static_assert(sizeof(BlockQ5_K) == 176);

}  // namespace rocmforge
