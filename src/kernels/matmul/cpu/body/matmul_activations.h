#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/formats/cpu/matmul_layout.h"
#include "kernels/matmul/cpu/matmul_body.h"
#include "kernels/tile/cpu/matmul_simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

struct QuantisedBlock {
  float scale;
  std::int32_t sums[2];  ///< of the quants of each half
};

/// Quantises 32 values: scale = max |x| / 127, quants rounded to nearest even. A NaN or an infinity makes the scale one, so
/// it reaches the output. `wide` is written where the instruction set reads activations of 16 bits.
[[gnu::always_inline]] inline QuantisedBlock quantise_block(const float* x, std::int8_t* quants,
                                                            [[maybe_unused]] std::int16_t* wide) {
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

/// Writes the scales and sums of a whole panel, block by block. The arrays are as long as vectors.
inline void store_sums_of_panel(const float (&scales)[packed::panel_blocks],
                                const std::int32_t (&half_sums)[2 * packed::panel_blocks], std::int64_t row,
                                const QuantisedActivations& result) {
  const std::int64_t block = row * packed::panel_blocks;
  for (int b = 0; b < packed::panel_blocks; ++b) {
    const std::int32_t sum = half_sums[2 * b] + half_sums[2 * b + 1];
    result.scales[block + b] = scales[b];
    result.sums[block + b] = scales[b] * static_cast<float>(sum);
    result.negative_sums[block + b] = -sum;
  }
  for (int half = 0; half < 2 * packed::panel_blocks; ++half) {
    result.half_sums[2 * block + half] = scales[half / 2] * static_cast<float>(half_sums[half]);
    result.negative_half_sums[2 * block + half] = -half_sums[half];
    if constexpr (wide_activations) {
      result.half_pairs[2 * block + half] = static_cast<std::int16_t>(-half_sums[half]);
    }
  }
}

void quantise(const InputPanel& input, const QuantisedActivations& result) {
  const std::int64_t first = input.panel * packed::panel_columns;
  const std::int64_t columns = input.k - first < packed::panel_columns ? input.k - first : packed::panel_columns;
  for (std::int64_t t = input.token_begin; t < input.token_end; ++t) {
    const std::int64_t row = input.panel * input.tokens + t;
    float scales[packed::panel_blocks] = {};
    std::int32_t half_sums[2 * packed::panel_blocks] = {};
    for (int b = 0; b < columns / packed::block_columns; ++b) {
      const std::int64_t column = row * packed::panel_columns + b * packed::block_columns;
      const QuantisedBlock block =
          quantise_block(input.x + t * input.x_stride + first + b * packed::block_columns, result.quants + column,
                         result.wide_quants + (wide_activations ? column : 0));
      scales[b] = block.scale;
      half_sums[2 * b] = block.sums[0];
      half_sums[2 * b + 1] = block.sums[1];
    }
    store_sums_of_panel(scales, half_sums, row, result);
  }
}

}  // namespace
}  // namespace rocmforge::ROCMFORGE_ISA
