#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/mxfp4.h"

namespace rocmforge {

/// The unsigned E4M3 scale, halved because mxfp4_values are doubled. Code 127, a NaN elsewhere, counts as 0 as in ggml.
static constexpr float nvfp4_half_scale(std::uint8_t code) {
  const unsigned exponent = code >> 3 & 15u;
  const unsigned mantissa = code & 7u;
  if (code == 127) {
    return 0.0f;
  }
  // 2^-10 times the mantissa, with its leading one but for exponent 0, shifted by the exponent.
  return 0x1p-10f * static_cast<float>(exponent == 0 ? mantissa : (8u | mantissa) << (exponent - 1u));
}

/// 64 values of 4 bits (E2M1 floats) in 4 groups of 16 under scales of 8 bits: mxfp4_values[quant] * nvfp4_half_scale(s).
/// Layout: ggml's block_nvfp4; byte j of a group's 8 holds elements j and j + 8. A tensor may have a factor of its own
/// beside it in the file (MatmulOutput::scale).
struct BlockNVFP4 : QuantBlock {
  static constexpr DType dtype = DType::nvfp4;
  static constexpr int elems = 64;
  static constexpr unsigned group = 16;
  using Low = CodePlane<4, 8>;
  static constexpr const std::int8_t (&values)[16] = mxfp4_values;
  std::uint8_t scales[4];
  std::uint8_t quants[32];

  [[nodiscard]] constexpr float group_scale(unsigned g) const { return nvfp4_half_scale(scales[g]); }
};
static_assert(sizeof(BlockNVFP4) == 36);

}  // namespace rocmforge
