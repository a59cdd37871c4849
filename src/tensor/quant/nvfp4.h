#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/dtype.h"
#include "tensor/quant/block.h"
#include "tensor/quant/mxfp4.h"

namespace rocmforge {

/// The value of an unsigned E4M3 scale, halved because mxfp4_values are doubled. Code 127 is NaN in E4M3, but 0 here, as in
/// ggml.
static constexpr float nvfp4_half_scale(std::uint8_t code) {
  const unsigned exponent = code >> 3 & 15u;
  const unsigned mantissa = code & 7u;
  if (code == 127) {
    return 0.0f;
  }
  // The mantissa times 2^-10, shifted by the exponent. Except for exponent 0 it has a leading one.
  return 0x1p-10f * static_cast<float>(exponent == 0 ? mantissa : (8u | mantissa) << (exponent - 1u));
}

/// 64 values of 4 bits (E2M1 floats) in 4 groups of 16, each with an 8-bit scale s: mxfp4_values[quant] *
/// nvfp4_half_scale(s). Layout: ggml's block_nvfp4; byte j of a group's 8 holds elements j and j + 8. The file may also have
/// a factor for the whole tensor (MatmulOutput::scale).
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
