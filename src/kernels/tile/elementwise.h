#pragma once

// What the elementwise kernels share: floats read and written several at a time.

#include "kernels/tile/device_code.h"

namespace rocmforge::gpu {

/// `width` floats that one load reads.
template <int width>
struct alignas(4 * width) Floats {
  float values[width];
};

/// Can rows of `stride` floats from `address` on be read four at a time? (Null addresses can.)
__device__ inline bool takes_fours(const float* address, std::int64_t stride) {
  return (reinterpret_cast<std::uintptr_t>(address) & 15) == 0 && stride % 4 == 0;
}

template <int width>
__device__ inline Floats<width> load(const float* from, std::int64_t item) {
  return reinterpret_cast<const Floats<width>*>(from)[item];
}

template <int width>
__device__ inline void store(float* to, std::int64_t item, const Floats<width>& values) {
  reinterpret_cast<Floats<width>*>(to)[item] = values;
}

// This thread's place among the threads of the grid's first dimension, and how many there are.
__device__ inline std::int64_t grid_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace rocmforge::gpu
