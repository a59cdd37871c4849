#pragma once

// Registers that warpgroups hand to each other. Semantics: NVIDIA PTX ISA manual, chapter on setmaxnreg.

#include <cuda_runtime.h>

namespace rocmforge::hopper {

inline constexpr int warpgroup_size = 128;

template <int count>
__device__ inline void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace rocmforge::hopper
