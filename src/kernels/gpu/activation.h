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

struct Gelu {
  /// The share of |x| that does not pass is erfc(z) / 2 = e^(-z^2) t P(t), z = |x| / sqrt(2), t = 1 / (1 + 0.4 z), P fitted
  /// to a relative error of 7e-8 up to z = 10.
  __device__ static float value(float x) {
    const float z = fabsf(x) * 0.70710678f;
    const float t = 1.0f / (1.0f + 0.4f * z);
    float p = 0.0206283331f;
    p = p * t - 0.070168294f;
    p = p * t + 0.0420112088f;
    p = p * t + 0.0439625531f;
    p = p * t + 0.0398914143f;
    p = p * t + 0.0966911837f;
    p = p * t + 0.10094513f;
    p = p * t + 0.113221377f;
    p = p * t + 0.112817124f;
    const float rest = p * t * expf(-z * z);
    return x * (x < 0.0f ? rest : 1.0f - rest);
  }
};

/// Of a gate and what it multiplies; not gelu.
__device__ inline float activate(Activation activation, float gate, float up) {
  if (activation == Activation::clamped_swiglu) {
    const float g = fminf(gate, clamped_swiglu_limit);
    const float u = fminf(fmaxf(up, -clamped_swiglu_limit), clamped_swiglu_limit);
    return g / (1.0f + expf(-clamped_swiglu_slope * g)) * (u + 1.0f);
  }
  return (activation == Activation::gelu_tanh ? GeluTanh::value(gate) : Silu::value(gate)) * up;
}

}  // namespace rocmforge::gpu
