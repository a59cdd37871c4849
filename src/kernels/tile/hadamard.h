#pragma once

#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

/// walsh_hadamard of ops/kv_codes.h by one wave, in shared memory that it has written; ends synchronised.
__device__ inline void turn_by_hadamard(float* head, int dims, int block, float factor) {
  for (int apart = 1; apart < block; apart *= 2) {
    sync_wave();
    for (int i = lane_index(); i < dims / 2; i += wave_size) {
      const int first = (i & ~(apart - 1)) * 2 + (i & (apart - 1));
      const float a = head[first];
      const float b = head[first + apart];
      head[first] = a + b;
      head[first + apart] = a - b;
    }
  }
  sync_wave();
  for (int i = lane_index(); i < dims; i += wave_size) {
    head[i] *= factor;
  }
  sync_wave();
}

}  // namespace rocmforge::gpu
