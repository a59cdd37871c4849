#pragma once

#include <cuda_runtime.h>

#include "kernels/matmul/hopper/gate.h"

namespace rocmforge::hopper {

/// The activation of a gate, which is not none, by approximate exponential and division.
__device__ inline float activate(Gate gate, float x) {
  if (gate == Gate::silu) {
    return __fdividef(x, 1.0f + __expf(-x));
  }
  constexpr float sqrt_two_over_pi = 0.7978845608028654f;
  return 0.5f * x * (1.0f + tanhf(sqrt_two_over_pi * fmaf(0.044715f * x * x, x, x)));
}

}  // namespace rocmforge::hopper
