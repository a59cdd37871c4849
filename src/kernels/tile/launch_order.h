#pragma once

// How a kernel that may start before its predecessor on the stream has ended (LaunchShape::dependent) keeps their order.
// Both compilers take this header; where the hardware starts kernels one after another both functions are empty.

#include "kernels/tile/shake.h"

namespace rocmforge::gpu {

/// Waits until every earlier kernel of the stream has ended and its writes are visible. A kernel that is launched dependent
/// calls it in every thread, on every path: before it reads anything that a kernel writes, before it writes anything, and
/// also when it has nothing to do, because its successor waits for this kernel alone. Data that no kernel of the step writes
/// may be read sooner: weights; the arrays of a step, which are copied before its first kernel starts; and results of
/// earlier steps, which ended before that copy: K and V of other positions than the step's own.
__device__ inline void wait_for_predecessor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  shake();
  asm volatile("griddepcontrol.wait;" ::: "memory");
  shake();
#endif
}

/// Lets the successor start: once all work-groups have called this or ended, its work-groups take the free places. The
/// successor still waits for the end of this kernel before it reads results. Correctness never needs this call.
__device__ inline void release_successor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  shake();
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  shake();
#endif
}

/// The usual beginning of a kernel that reads nothing before its predecessor has ended.
__device__ inline void begin_dependent() {
  release_successor();
  wait_for_predecessor();
}

/// The beginning of a kernel that is launched in turn (LaunchOrder::by_kernel_in_turn).
__device__ inline void begin_in_turn() {
  wait_for_predecessor();
  release_successor();
}

}  // namespace rocmforge::gpu
