#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

/// The norm before a product: one factor for each token, 1 / sqrt(mean(x^2) + eps).
struct RowFactorsArgs {
  const float* x;   ///< [tokens, k], rows x_stride apart
  double* factors;  ///< [tokens]
  std::int64_t tokens;
  std::int64_t k;
  std::int64_t x_stride;
  double eps;
};

/// The sums of MatmulPostNorm; `factors` are those of y.
struct PostNormArgs {
  const float* x;
  const float* y;
  const float* weight;
  const double* factors;
  float* out;
  std::int64_t tokens;
  std::int64_t k;
  std::int64_t x_stride;
  std::int64_t y_stride;
  std::int64_t out_stride;
  double factor;
  double scale;
};

/// One linear layer, or with `up` a gate and an up part.
struct MatmulCheckArgs {
  struct Part {
    const void* weight;  ///< [n, k] as in the file
    const float* bias;   ///< [n] or null
    std::int64_t row_bytes;
    double scale;
    DType dtype;
    std::int32_t unused;
  };
  Part first;
  Part up;
  const float* x;
  const float* norm_weight;  ///< [k] or null
  const double* factors;     ///< [tokens] or null
  float* out;
  std::int64_t tokens;
  std::int64_t n;
  std::int64_t k;
  std::int64_t x_stride;
  std::int64_t out_stride;
  std::int32_t accumulate;
  std::int32_t gated;
  Activation activation;
  std::int32_t unused;
};

}  // namespace rocmforge::check_kernels
