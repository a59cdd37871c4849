#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight (Zhang and Sennrich 2019; the mean is not subtracted) With a residual:
/// out[r] = (residual[r] + factor * norm(x[r])) * scale.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";

  struct Spec {
    std::int64_t dim = 0;
    float eps = 1e-5f;
    std::int64_t groups = 1;  ///< neighbouring rows, each with weights of its own
  };

  struct Args {
    const float* x = nullptr;  ///< [rows, dim], rows `stride` elements apart
    std::int64_t rows = 0;
    const float* weight = nullptr;    ///< [groups, dim]: row r has those of r % groups
    float* out = nullptr;             ///< likewise; may be x
    std::int64_t stride = 0;          ///< 0: dim
    const float* residual = nullptr;  ///< likewise, null for none; may be out
    float factor = 1.0f;
    float scale = 1.0f;
  };
};

std::string to_string(const RmsNorm::Spec& spec);

}  // namespace rocmforge
