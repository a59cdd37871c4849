#pragma once

// What the plain kernels share.

#include "kernels/tile/device_code.h"
#include "ops/activation.h"

namespace rocmforge::check_kernels {

inline constexpr int check_threads = 256;
#define ROCMFORGE_CHECK_KERNEL extern "C" __global__ void __launch_bounds__(::rocmforge::check_kernels::check_threads)

inline constexpr double infinite = __builtin_huge_val();

/// body(i) for each of `count` elements, each by one thread of the grid.
template <class Body>
__device__ __forceinline__ void for_each_element(std::int64_t count, const Body& body) {
  const std::int64_t threads = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {
    body(i);
  }
}

/// The activation of `gate`, times `up`: the formulas of ops/activation.h.
__device__ inline double activate(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::silu:
      return gate / (1.0 + exp(-gate)) * up;
    case Activation::gelu:
      return 0.5 * gate * erfc(-gate * 0.70710678118654752440) * up;
    case Activation::gelu_quick:
      return gate / (1.0 + exp(-static_cast<double>(gelu_quick_slope) * gate)) * up;
    case Activation::gelu_tanh:
      return 0.5 * gate * (1.0 + tanh(0.79788456080286535588 * (gate + 0.044715 * gate * gate * gate))) * up;
    case Activation::relu_squared:
      return (gate > 0.0 ? gate * gate : 0.0 * gate) * up;  // a NaN stays one
    case Activation::none:
      return gate * up;
    case Activation::clamped_swiglu:
      break;
  }
  constexpr double limit = clamped_swiglu_limit;
  const double g = fmin(gate, limit);
  return g / (1.0 + exp(-static_cast<double>(clamped_swiglu_slope) * g)) * (fmax(fmin(up, limit), -limit) + 1.0);
}

}  // namespace rocmforge::check_kernels
