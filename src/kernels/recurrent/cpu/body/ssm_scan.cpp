#include "kernels/launch/cpu/body/operations.h"
#include "kernels/tile/cpu/simd.h"

namespace rocmforge::ROCMFORGE_ISA {
namespace {

/// S = decay * S + x * B of `rows` rows of the state, and their products with C.
template <int rows>
inline void scan_rows(const SsmScanHead& head, int32_t first) {
  const int32_t size = head.state_size;
  float* state = head.state + int64_t{first} * size;
  const Vec decay = broadcast(head.decay);
  Vec inputs[rows];
  Vec sums[rows];
  for (int r = 0; r < rows; ++r) {
    inputs[r] = broadcast(head.step * head.x[first + r]);
    sums[r] = zero_vec();
  }
  int32_t n = 0;
  for (; n + vec_width <= size; n += vec_width) {
    const Vec b = load(head.b + n);
    const Vec c = load(head.c + n);
    for (int r = 0; r < rows; ++r) {
      const Vec value = fma(decay, load(state + r * size + n), inputs[r] * b);
      store(state + r * size + n, value);
      sums[r] = fma(value, c, sums[r]);
    }
  }
  if (const int rest = size - n; rest > 0) {
    const Vec b = load_partial(head.b + n, rest);
    const Vec c = load_partial(head.c + n, rest);
    for (int r = 0; r < rows; ++r) {
      const Vec value = fma(decay, load_partial(state + r * size + n, rest), inputs[r] * b);
      store_partial(state + r * size + n, value, rest);
      sums[r] = fma(value, c, sums[r]);
    }
  }
  for (int r = 0; r < rows; ++r) {
    head.out[first + r] = sum_lanes(sums[r]) + head.skip * head.x[first + r];
  }
}

}  // namespace

void ssm_scan_row(const SsmScanHead& head) {
  constexpr int together = 4;
  int32_t row = 0;
  for (; row + together <= head.head_dim; row += together) {
    scan_rows<together>(head, row);
  }
  for (; row < head.head_dim; ++row) {
    scan_rows<1>(head, row);
  }
}

}  // namespace rocmforge::ROCMFORGE_ISA
