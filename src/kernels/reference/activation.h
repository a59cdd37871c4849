#pragma once

#include <cmath>
#include <numbers>

#include "ops/elementwise.h"

namespace rocmforge {

/// In double, as the reference computes everything.
inline double activate(Activation activation, double x) {
  if (activation == Activation::silu) {
    return x / (1.0 + std::exp(-x));
  }
  // Hendrycks and Gimpel 2016, the tanh form.
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

}  // namespace rocmforge
