#pragma once

// A row of RMSNorm: what is added up of it, and how it is written.

#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {

template <int width>
__device__ inline float sum_of_squares(const Floats<width>& item) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    sum += item.values[i] * item.values[i];
  }
  return sum;
}

/// Writes a normalised row.
struct RmsNormOut {
  const float* weights;
  const float* residual;  ///< or null
  float* out;
  float factor;
  float sum_scale;

  template <int width>
  __device__ Floats<width> before(std::int64_t item) const {
    return residual != nullptr ? load<width>(residual, item) : Floats<width>{};
  }
  template <int width>
  __device__ void write(std::int64_t item, const Floats<width>& x, float scale) const {
    write(item, x, scale, load<width>(weights, item), before<width>(item));
  }
  /// The same, with operands that were loaded before: `sum` is the residual.
  template <int width>
  __device__ void write(std::int64_t item, Floats<width> x, float scale, const Floats<width>& weight,
                        const Floats<width>& sum) const {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      x.values[i] *= scale * weight.values[i];
    }
    if (residual != nullptr) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        x.values[i] = (sum.values[i] + factor * x.values[i]) * sum_scale;
      }
    }
    store(out, item, x);
  }
};

}  // namespace rocmforge::gpu
