#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// The state of one channel, a vector's elements from `n` on: value = exp(step * a) * value + step * x * B. Returns it.
inline Vec advanced(Vec a, Vec step, Vec state, Vec input, Vec b) { return fma(exponential(step * a), state, input * b); }

inline float scan_channel(const SelectiveScanRow& row, int32_t channel) {
  const int32_t size = row.state_size;
  float* state = row.state + int64_t{channel} * size;
  const float* a = row.a + int64_t{channel} * size;
  const Vec step = broadcast(row.step[channel]);
  const Vec input = broadcast(row.step[channel] * row.x[channel]);
  Vec sum = zero_vec();
  int32_t n = 0;
  for (; n + vec_width <= size; n += vec_width) {
    const Vec value = advanced(load(a + n), step, load(state + n), input, load(row.b + n));
    store(state + n, value);
    sum = fma(value, load(row.c + n), sum);
  }
  if (const int rest = size - n; rest > 0) {
    const Vec value =
        advanced(load_partial(a + n, rest), step, load_partial(state + n, rest), input, load_partial(row.b + n, rest));
    store_partial(state + n, value, rest);
    sum = fma(value, load_partial(row.c + n, rest), sum);
  }
  return sum_lanes(sum) + row.skip[channel] * row.x[channel];
}

}  // namespace

void selective_scan_row(const SelectiveScanRow& row) {
  for (int32_t channel = 0; channel < row.channels; ++channel) {
    row.out[channel] = scan_channel(row, channel);
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
