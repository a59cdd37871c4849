#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/activation.h"

namespace rocmforge {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Any activation but clamped_swiglu. In double, as the reference computes everything.
inline double activate(Activation activation, double x) {
  if (activation == Activation::none) {
    return x;
  }
  if (activation == Activation::silu) {
    return x / (1.0 + std::exp(-x));
  }
  if (activation == Activation::relu_squared) {
    return x > 0.0 ? x * x : 0.0 * x;  // a NaN stays one
  }
  if (activation == Activation::gelu) {
    return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  }
  if (activation == Activation::gelu_quick) {
    return x / (1.0 + std::exp(-double{gelu_quick_slope} * x));
  }
  // Hendrycks and Gimpel 2016, the tanh form.
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

/// The activation of `gate`, times `up`.
inline double activate(Activation activation, double gate, double up) {
  if (activation != Activation::clamped_swiglu) {
    return activate(activation, gate) * up;
  }
  constexpr double limit = double{clamped_swiglu_limit};
  const double g = std::min(gate, limit);
  return g / (1.0 + std::exp(-double{clamped_swiglu_slope} * g)) * (std::clamp(up, -limit, limit) + 1.0);
}

}  // namespace rocmforge
