#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/body/matmul_simd.h"
#include "kernels/cpu/matmul_body.h"
#include "kernels/cpu/matmul_layout.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

struct QuantisedBlock {
  float scale;
  std::int32_t sums[2];  ///< of the quants of each half
};

/// Quantises 32 values: scale = max |x| / 127, quants rounded to nearest even. A NaN or an infinity makes the scale one, so
/// it reaches the output. `wide` is written where the instruction set reads activations of 16 bits.
inline QuantisedBlock quantise_block(const float* x, std::int8_t* quants, [[maybe_unused]] std::int16_t* wide) {
  const Floats low = load_floats(x);
  const Floats high = load_floats(x + 16);
  const float largest = largest_magnitude(low, high);
  if (!(largest >= 1e-30f && largest <= 3.4028235e38f)) {  // 127 / largest could overflow, or there is nothing to round
    std::memset(quants, 0, packed::block_columns);
    if constexpr (wide_activations) {
      std::memset(wide, 0, packed::block_columns * sizeof(std::int16_t));
    }
    return {largest < 1.0f ? 0.0f : largest, {}};
  }
  const Floats inverse = broadcast(127.0f / largest);
  const Ints rounded[2] = {round_to_ints(multiply(low, inverse)), round_to_ints(multiply(high, inverse))};
  store_narrowed(quants, rounded[0]);
  store_narrowed(quants + 16, rounded[1]);
  if constexpr (wide_activations) {
    store_words(wide, rounded[0]);
    store_words(wide + 16, rounded[1]);
  }
  return {largest / 127.0f, {sum_of(rounded[0]), sum_of(rounded[1])}};
}

void quantise(const InputPanel& input, const QuantisedActivations& result) {
  const std::int64_t first = input.panel * packed::panel_columns;
  const std::int64_t columns = input.k - first < packed::panel_columns ? input.k - first : packed::panel_columns;
  for (std::int64_t t = input.token_begin; t < input.token_end; ++t) {
    const std::int64_t row = input.panel * input.tokens + t;
    for (int b = 0; b < columns / packed::block_columns; ++b) {
      const std::int64_t column = row * packed::panel_columns + b * packed::block_columns;
      const auto [scale, sums] =
          quantise_block(input.x + t * input.x_stride + first + b * packed::block_columns, result.quants + column,
                         result.wide_quants + (wide_activations ? column : 0));
      const std::int64_t at = row * packed::panel_blocks + b;
      result.scales[at] = scale;
      result.sums[at] = scale * static_cast<float>(sums[0] + sums[1]);
      result.negative_sums[at] = -(sums[0] + sums[1]);
      for (int half = 0; half < 2; ++half) {
        result.half_sums[2 * at + half] = scale * static_cast<float>(sums[half]);
        result.negative_half_sums[2 * at + half] = -sums[half];
        if constexpr (wide_activations) {
          result.half_pairs[2 * at + half] = static_cast<std::int16_t>(-sums[half]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
