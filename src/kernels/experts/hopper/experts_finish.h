#pragma once

#include "kernels/experts/hopper/experts_args.h"
#include "kernels/tile/device_code.h"

namespace rocmforge::hopper {

/// A product of a row of an expert is sum * scale + bias.
struct ProductFinish {
  float scale;
  float bias;
};
__device__ inline ProductFinish load_finish(const gpu::ExpertFinish& finish, int expert, int row) {
  return {finish.scale != nullptr ? finish.scale[expert] : 1.0f,
          finish.bias != nullptr ? finish.bias[expert * finish.bias_stride + row] : 0.0f};
}

}  // namespace rocmforge::hopper
