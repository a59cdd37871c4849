#pragma once

#include "kernels/gpu/device_code.h"

namespace rocmforge::gpu {

#if ROCMFORGE_DEVICE_AMD

/// The counter of last_to_arrive by one thread, whose fences stand for the whole work-group: barriers order them with what
/// the other threads did before and do after. On CDNA a release writes back the whole L2 cache of a part of the chip, so one
/// for each work-group, and an acquire in the last one alone.
__device__ inline bool arrive(std::uint32_t* counter, int count) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  const bool last = atomicAdd(counter, 1u) == static_cast<std::uint32_t>(count - 1);
  if (last) {
    *counter = 0;
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  }
  return last;
}

/// A barrier behind which what this wave has stored is in the caches that one thread's release covers.
__device__ inline void sync_stores() {
#if defined(__GFX9__)  // whose barriers let stores on their way be
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
#endif
  __syncthreads();
}

#endif

/// True in the last of `count` work-groups that call this; that work-group sees what the others wrote before their calls.
/// Leaves the counter at zero.
__device__ inline bool last_to_arrive(std::uint32_t* counter, int count) {
  __shared__ bool last;
#if ROCMFORGE_DEVICE_AMD
  sync_stores();
  if (thread_index() == 0) {
    last = arrive(counter, count);
  }
  __syncthreads();
#else
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
#endif
  return last;
}

}  // namespace rocmforge::gpu
