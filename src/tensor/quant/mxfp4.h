#pragma once

#include <bit>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/quant/block.h"

namespace rocmforge {

/// The values of the E2M1 codes, doubled to be integers.
inline constexpr std::int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The value 2^(exponent - 128): the E8M0 scale (bias 127), halved because the table is doubled. Exponents 0 and 1 are
/// denormals. 255 is NaN in the OCP specification, but an ordinary exponent here, as in ggml.
static constexpr float mxfp4_half_scale(std::uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

/// 32 values of 4 bits (E2M1 floats) with a shared power of two: mxfp4_values[quant] * 2^(exponent - 128). Values: OCP
/// Microscaling Formats 1.0. Layout: ggml's block_mxfp4; nibbles as in Q4_0.
struct BlockMXFP4 : QuantBlock {
  static constexpr DType dtype = DType::mxfp4;
  static constexpr int elems = 32;
  static constexpr unsigned group = 32;
  using Low = CodePlane<4, 16>;
  static constexpr const std::int8_t (&values)[16] = mxfp4_values;
  std::uint8_t exponent;
  std::uint8_t quants[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

static constexpr float exponent_scale(const BlockMXFP4& block) { return mxfp4_half_scale(block.exponent); }

}  // namespace rocmforge
