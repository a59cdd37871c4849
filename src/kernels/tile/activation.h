#pragma once

#include "kernels/tile/device_code.h"
#include "ops/activation.h"

namespace rocmforge::gpu {

/// Silu, GELU with a tanh, and the gate of clamped_swiglu.
__device__ inline float times_sigmoid(float x, float z) { return x / (1.0f + expf(-z)); }

/// (1 + tanh z) / 2 = sigmoid(2 z), z = sqrt(2 / pi) * (x + 0.044715 x^3)
__device__ inline float gelu_tanh_argument(float x) { return 1.5957691216f * (x * (0.044715f * x * x + 1.0f)); }

struct Silu {
  __device__ static float value(float x) { return times_sigmoid(x, x); }
};

struct GeluTanh {
  __device__ static float value(float x) { return times_sigmoid(x, gelu_tanh_argument(x)); }
};

struct GeluQuick {
  __device__ static float value(float x) { return times_sigmoid(x, gelu_quick_slope * x); }
};

struct ReluSquared {
  __device__ static float value(float x) { return fmaxf(x, 0.0f) * x; }
};

struct Gelu {
  /// x Phi(x) with 1 - Phi(|x|) = erfc(z) / 2 = e^(-z^2) t P(t), z = |x| / sqrt(2), t = 1 / (1 + 0.4 z), P fitted to a
  /// relative error of 7e-8 up to z = 10.
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

// The activation of the functions below is a run-time value. All cases share one exponential and one division, because tiles
// hold a copy of this code for each of their outputs.

__device__ inline float sigmoid_argument(Activation activation, float x) {
  return activation == Activation::gelu_tanh ? gelu_tanh_argument(x) : x;
}

/// The activation of a product without a gate.
__device__ inline float activate_alone(Activation activation, float up) {
  const float value = times_sigmoid(up, sigmoid_argument(activation, up));
  return activation == Activation::none ? up : activation == Activation::relu_squared ? ReluSquared::value(up) : value;
}

/// The activation of `gate`, times `up`; not for gelu and gelu_quick.
__device__ inline float activate(Activation activation, float gate, float up) {
  const bool clamped = activation == Activation::clamped_swiglu;
  const float x = clamped ? fminf(gate, clamped_swiglu_limit) : gate;
  const float z = clamped ? clamped_swiglu_slope * x : sigmoid_argument(activation, x);
  const float factor = clamped ? fminf(fmaxf(up, -clamped_swiglu_limit), clamped_swiglu_limit) + 1.0f : up;
  return times_sigmoid(x, z) * factor;
}

}  // namespace rocmforge::gpu
