#pragma once

#include <cstdint>
#include <string>

#include "ops/registry.h"

namespace rocmforge {

/// What a row has above its mean by more than some standard deviations, 0 for the rest:
///   x[r] = max(x[r] - (mean(x[r]) + deviations * sqrt(mean((x[r] - mean(x[r]))^2))), 0)
/// Of normally distributed elements this keeps a known share (activation sparsity of Gemma 3n).
struct CutRows {
  static constexpr std::string_view name = "cut_rows";

  struct Spec {
    std::int64_t width = 0;
    float deviations = 0.0f;
  };

  struct Args {
    float* x = nullptr;  ///< [rows, width], rows `stride` apart; in and out
    std::int64_t rows = 0;
    std::int64_t stride = 0;
  };
};

std::string to_string(const CutRows::Spec& spec);

}  // namespace rocmforge
