#pragma once

#include "kernels/gpu/device_code.h"
#include "ops/activation.h"

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

struct ReluSquared {
  __device__ static float value(float x) { return fmaxf(x, 0.0f) * x; }
};

/// Of a product without a gate.
__device__ inline float activate_alone(Activation activation, float up) {
  return activation == Activation::relu_squared ? ReluSquared::value(up)
         : activation == Activation::gelu_tanh  ? GeluTanh::value(up)
                                                : Silu::value(up);
}

/// Of a gate and what it multiplies.
__device__ inline float activate(Activation activation, float gate, float up) {
  if (activation == Activation::clamped_swiglu) {
    const float g = fminf(gate, clamped_swiglu_limit);
    const float u = fminf(fmaxf(up, -clamped_swiglu_limit), clamped_swiglu_limit);
    return g / (1.0f + expf(-clamped_swiglu_slope * g)) * (u + 1.0f);
  }
  return (activation == Activation::gelu_tanh ? GeluTanh::value(gate) : Silu::value(gate)) * up;
}

}  // namespace rocmforge::gpu
