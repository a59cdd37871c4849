#pragma once

#include <cstdint>

#include "ops/activation.h"
#include "tensor/dtype.h"

namespace rocmforge::check_kernels {

/// A call of ExpertMatmul, whose formulas are in ops/experts.h.
struct ExpertsCheckArgs {
  struct Part {
    const void* weight;  ///< [experts, n, k] as in the file, experts `expert_bytes` apart
    const float* bias;   ///< [n] of each expert, bias_stride apart, or null
    const float* scale;  ///< [experts] or null
    std::int64_t expert_bytes;
    std::int64_t row_bytes;
    std::int64_t bias_stride;
    DType dtype;
    std::int32_t unused;
  };
  Part parts[2];  ///< gate and up; up alone; or down
  const float* x;
  const std::int32_t* ids;  ///< [tokens, used]
  const float* shares;      ///< [tokens, used], of down
  float* out;
  std::int64_t outputs;  ///< rows of `out`: tokens of down, otherwise slots
  std::int64_t n;
  std::int64_t k;
  std::int64_t used;
  std::int32_t down;
  std::int32_t gated;
  Activation activation;
  std::int32_t unused;
};

}  // namespace rocmforge::check_kernels
