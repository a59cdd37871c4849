#pragma once

#include "kernels/gpu/device_code.h"

namespace rocmforge::gpu {

/// True in the last of `count` work-groups that call this; that work-group sees what the others wrote before their calls.
/// Leaves the counter at zero.
__device__ inline bool last_to_arrive(std::uint32_t* counter, int count) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (thread_index() == 0) {
    last = atomicAdd(counter, 1u) == static_cast<std::uint32_t>(count - 1);
    if (last) {
      *counter = 0;
    }
  }
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace rocmforge::gpu
