#pragma once

#include "kernels/tile/device_code.h"
#include "kernels/tile/device_memory.h"

namespace rocmforge::gpu {

#if ROCMFORGE_DEVICE_AMD

inline constexpr std::uint32_t most_polls = 1u << 28;

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

/// A counter, as memory of the device: accesses of generic addresses would wait for shared memory too.
using Counter = DeviceMemory<std::uint32_t>;

/// Counts a work-group for those that wait in wait_for_arrivals(); by one thread, behind sync_stores(). Returns how many had
/// arrived before. `seen`: whether a work-group of this launch reads what this one has stored.
__device__ inline std::uint32_t announce(Counter counter, bool seen) {
  shake();
  if (seen) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
  }
  return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

/// Waits in all threads of a work-group until `count` others have called announce(), and sees what they stored before. They
/// must have started before this work-group, so that they go on. A wait without an end becomes a fault of the device: a
/// poll takes 64 cycles and an access to memory.
__device__ inline void wait_for_arrivals(Counter counter, std::uint32_t count) {
  if (thread_index() == 0) {
    std::uint32_t left = most_polls;
#pragma unroll 1
    while (__hip_atomic_load(counter, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) != count) {
      if (--left == 0) {
        __builtin_trap();
      }
      __builtin_amdgcn_s_sleep(1);
    }
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
  }
  __syncthreads();
}

#endif

/// True in the last of `count` work-groups that call this; that work-group sees what the others wrote before their calls.
/// Leaves the counter at zero. `last`: in shared memory.
__device__ inline bool last_to_arrive(std::uint32_t* counter, int count, bool& last) {
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
__device__ inline bool last_to_arrive(std::uint32_t* counter, int count) {
  __shared__ bool last;
  return last_to_arrive(counter, count, last);
}

}  // namespace rocmforge::gpu
