#pragma once

#include "kernels/gpu/device_code.h"
#include "kernels/hopper/experts_args.h"
#include "kernels/hopper/matmul_tile.h"

namespace rocmforge::hopper {

/// A product of row `row` of expert `expert` with its expert's scale and bias.
__device__ inline float finish_product(const gpu::ExpertFinish& finish, int expert, int row, float sum) {
  const float scale = finish.scale != nullptr ? finish.scale[expert] : 1.0f;
  const float bias = finish.bias != nullptr ? finish.bias[expert * finish.bias_stride + row] : 0.0f;
  return sum * scale + bias;
}

}  // namespace rocmforge::hopper
