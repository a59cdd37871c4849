#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, for each row or each part of a row   (Ba et al. 2016)
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";

  struct Spec {
    std::int64_t dim = 0;
    float eps = 1e-5f;
    bool bias = false;
    std::int64_t groups = 1;  ///< parts of a row that are normalised by themselves, each with weights of its own
  };

  struct Args {
    const float* x = nullptr;  ///< [rows, groups, dim], rows `stride` elements apart
    std::int64_t rows = 0;
    const float* weight = nullptr;  ///< [groups, dim]
    const float* bias = nullptr;    ///< [groups, dim] when Spec::bias
    float* out = nullptr;           ///< as x; may be x
    std::int64_t stride = 0;        ///< 0: groups * dim
  };
};

/// The distance of rows in elements.
constexpr std::int64_t row_stride(const LayerNorm::Spec& spec, const LayerNorm::Args& args) {
  return args.stride != 0 ? args.stride : spec.groups * spec.dim;
}

std::string to_string(const LayerNorm::Spec& spec);

}  // namespace rocmforge
