#pragma once

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_args.h"
#include "kernels/hopper/matmul_tile.h"

namespace rocmforge::hopper {

/// A product of row `row` of expert `expert` with what is done to it.
__device__ inline float finish_product(const gpu::ExpertFinish& finish, int expert, int row, float sum) {
  const float scale = finish.scale != nullptr ? finish.scale[expert] : 1.0f;
  const float bias = finish.bias != nullptr ? finish.bias[expert * finish.bias_stride + row] : 0.0f;
  return sum * scale + bias;
}

/// The power of two that binary16 activations of up to `most` are multiplied with: 1 where they fit.
__device__ inline float half_scale(float most) {
  constexpr float most_half = 32768.0f;
  const bool large = most > most_half && most < gpu::infinity;
  return large ? __uint_as_float((__float_as_uint(most) & 0x7f800000u) - (14u << 23)) : 1.0f;
}

/// Eight activations times `factor`, in the order of activation_element.
__device__ inline void pack_eight(const float (&values)[8], float factor, std::uint32_t (&words)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int element = i / 2 * 4 + i % 2;
    words[i] = pack<half>(values[element] * factor, values[element + 2] * factor);
  }
}

}  // namespace rocmforge::hopper
