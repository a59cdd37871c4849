#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// out[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + eps) * weight + bias   (Ba et al. 2016)
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";

  struct Spec {
    std::int64_t dim = 0;
    float eps = 1e-5f;
    bool bias = false;
  };

  struct Args {
    const float* x = nullptr;  ///< [rows, dim]
    std::int64_t rows = 0;
    const float* weight = nullptr;  ///< [dim]
    const float* bias = nullptr;    ///< [dim] when Spec::bias
    float* out = nullptr;           ///< [rows, dim]; may be x
  };
};

std::string to_string(const LayerNorm::Spec& spec);

}  // namespace rocmforge
