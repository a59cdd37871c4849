#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// 256 values of 2 bits in 16 sub-blocks of 16: scale * s * quant - minimum_scale * m. Layout: ggml's block_q2_K. Each half
/// of 128 values takes 32 bytes; byte l holds elements l, l + 32, l + 64 and l + 96, from its low bits up.
struct BlockQ2_K : QuantBlock {
  static constexpr DType dtype = DType::q2_k;
  static constexpr int elems = 256;
  static constexpr unsigned group = 16;
  using Low = CodePlane<2, 32>;
  std::uint8_t scales[16];  ///< low nibble: scale, high nibble: minimum
  std::uint8_t quants[64];
  half scale;
  half minimum_scale;

  [[nodiscard]] constexpr unsigned scale_code(unsigned g) const { return scales[g] & 15u; }
  [[nodiscard]] constexpr unsigned minimum_code(unsigned g) const { return scales[g] >> 4; }
};
static_assert(sizeof(BlockQ2_K) == 84);

}  // namespace rocmforge
