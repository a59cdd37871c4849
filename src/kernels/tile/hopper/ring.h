#pragma once

// Places in a ring of slots that one side fills and the other frees: the slot, and the parity of the barrier's phase that
// fills it in this round. A side that frees waits for the other parity.

#include <cuda_runtime.h>

#include <cstdint>

namespace rocmforge::hopper {

/// A ring whose size is known when it runs.
struct RingPlace {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance(int size) {
    if (++slot == size) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// A ring of `count` slots.
template <int count>
struct Ring : RingPlace {
  __device__ void advance() { RingPlace::advance(count); }
};

/// The slot of a ring that its `index`-th entry uses, and the parity of the phase that fills it.
template <int count>
__device__ inline int stage_of(int index) {
  return index % count;
}
template <int count>
__device__ inline std::uint32_t parity_of(int index) {
  return static_cast<std::uint32_t>(index / count) & 1;
}

}  // namespace rocmforge::hopper
