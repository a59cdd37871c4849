#pragma once

#include "kernels/gpu/device_code.h"

namespace rocmforge::gpu {

struct Silu {
  __device__ static float value(float x) { return x / (1.0f + expf(-x)); }
};

struct GeluTanh {
  /// (1 + tanh z) / 2 = 1 / (1 + e^(-2 z)), z = sqrt(2 / pi) * (x + 0.044715 x^3)
  __device__ static float value(float x) {
    const float inner = x * (0.044715f * x * x + 1.0f);
    return x / (1.0f + expf(-1.5957691216f * inner));
  }
};

}  // namespace rocmforge::gpu
