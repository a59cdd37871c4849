#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/matmul_body.h"
#include "kernels/cpu/matmul_layout.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// Quantises 32 values: scale = max |x| / 127, quants rounded to nearest even. A NaN or an infinity makes the scale one, so
/// it reaches the output. Returns the scale.
inline float quantise_block(const float* x, std::int8_t* quants) {
  std::int32_t bits[packed::block_columns];
  std::memcpy(bits, x, sizeof bits);
  std::int32_t largest_bits = 0;  // the bits of non-negative floats are ordered as the floats are, NaN last
  for (const std::int32_t value : bits) {
    const std::int32_t magnitude = value & 0x7fffffff;
    largest_bits = magnitude > largest_bits ? magnitude : largest_bits;
  }
  float largest = 0;
  std::memcpy(&largest, &largest_bits, sizeof largest);
  if (largest < 1e-30f) {  // 127 / largest could overflow
    std::memset(quants, 0, packed::block_columns);
    return 0;
  }
  const float inverse = 127.0f / largest;
  constexpr float round_bias = 12582912.0f;  // 1.5 * 2^23: the sum's low mantissa bits are the rounded integer
  for (int i = 0; i < packed::block_columns; ++i) {
    const float shifted = x[i] * inverse + round_bias;
    std::int32_t shifted_bits = 0;
    std::memcpy(&shifted_bits, &shifted, sizeof shifted);
    quants[i] = static_cast<std::int8_t>(shifted_bits);
  }
  return largest / 127.0f;
}

inline std::int32_t sum_half(const std::int8_t* quants) {
  std::int32_t sum = 0;
  for (int i = 0; i < packed::block_columns / 2; ++i) {
    sum += quants[i];
  }
  return sum;
}

void quantise(const float* x, std::int64_t x_stride, std::int64_t k, std::int64_t tokens, std::int64_t panel,
              std::int64_t token_begin, std::int64_t token_end, const QuantisedActivations& result) {
  const std::int64_t first = panel * packed::panel_columns;
  const std::int64_t columns = k - first < packed::panel_columns ? k - first : packed::panel_columns;
  for (std::int64_t t = token_begin; t < token_end; ++t) {
    const std::int64_t row = panel * tokens + t;
    for (int b = 0; b < columns / packed::block_columns; ++b) {
      std::int8_t* quants = result.quants + row * packed::panel_columns + b * packed::block_columns;
      const float scale = quantise_block(x + t * x_stride + first + b * packed::block_columns, quants);
      const std::int32_t sums[2] = {sum_half(quants), sum_half(quants + packed::block_columns / 2)};
      const std::int64_t at = row * packed::panel_blocks + b;
      result.scales[at] = scale;
      result.sums[at] = scale * static_cast<float>(sums[0] + sums[1]);
      result.negative_sums[at] = -(sums[0] + sums[1]);
      for (int half = 0; half < 2; ++half) {
        result.half_sums[2 * at + half] = scale * static_cast<float>(sums[half]);
        result.negative_half_sums[2 * at + half] = -sums[half];
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
