#pragma once

// What HIP and CUDA spell differently, for kernels that both compile. Only device code includes this.

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define ROCMFORGE_DEVICE_AMD 1
#else
#include <cuda_runtime.h>
#define ROCMFORGE_DEVICE_AMD 0
#endif

#include <cstdint>

#include "base/half.h"
#include "kernels/tile/launch_order.h"
#include "tensor/dtype.h"

/// A kernel: C linkage, so that its name in the code object is its name here.
#define ROCMFORGE_KERNEL extern "C" __global__ void

namespace rocmforge::gpu {

/// Lanes that run in step. Never assume 32. The build says it for AMD (tools/build/build_kernels.py).
#if ROCMFORGE_DEVICE_AMD
inline constexpr int wave_size = ROCMFORGE_WAVE_SIZE;
#else
inline constexpr int wave_size = 32;
#endif

__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) & (wave_size - 1); }
__device__ inline int wave_index() { return static_cast<int>(threadIdx.x) / wave_size; }

/// The value of lane (own ^ mask), or of lane `lane`. All lanes of the wave take part.
template <class T>
__device__ inline T shuffle_xor(T value, int mask) {
#if ROCMFORGE_DEVICE_AMD
  return __shfl_xor(value, mask, wave_size);
#else
  return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

template <class T>
__device__ inline T shuffle(T value, int lane) {
#if ROCMFORGE_DEVICE_AMD
  return __shfl(value, lane, wave_size);
#else
  return __shfl_sync(0xffffffffu, value, lane);
#endif
}

/// Orders shared memory inside one wave (lanes of a wave may not run in step on NVIDIA).
__device__ inline void sync_wave() {
#if ROCMFORGE_DEVICE_AMD
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#else
  __syncwarp();
#endif
}

#if ROCMFORGE_DEVICE_AMD
/// __syncthreads() for shared memory alone: loads from memory stay in flight, but for compilers before LLVM 19, whose fences
/// know no address space.
__device__ inline void sync_shared() {
  shake();
#if __clang_major__ >= 19
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
#else
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#endif
  shake();
}
#endif

struct Sum {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ static T combine(T a, T b) {
    return a > b ? a : b;
  }
};

/// The same result in every lane of each group of `width` neighbouring lanes, in a fixed order.
template <class Operation, int width = wave_size, class T>
__device__ inline T wave_reduce(T value) {
#pragma unroll
  for (int mask = width / 2; mask > 0; mask /= 2) {
    value = Operation::combine(value, shuffle_xor(value, mask));
  }
  return value;
}

/// The largest value of the wave, in every lane.
__device__ inline std::uint32_t wave_max(std::uint32_t value) {
#if ROCMFORGE_DEVICE_AMD
  return wave_reduce<Max>(value);
#else
  return __reduce_max_sync(0xffffffffu, value);
#endif
}

/// The same result in every thread of the work-group; `scratch` holds one value for each wave. `identity` leaves a value
/// as it is. Synchronises before and after.
template <class Operation, class T>
__device__ inline T block_reduce(T value, T* scratch, T identity) {
  const int waves = (static_cast<int>(blockDim.x) + wave_size - 1) / wave_size;
  value = wave_reduce<Operation>(value);
  __syncthreads();
  if (lane_index() == 0) {
    scratch[wave_index()] = value;
  }
  __syncthreads();
  T total = lane_index() < waves ? scratch[lane_index()] : identity;
  for (int w = wave_size + lane_index(); w < waves; w += wave_size) {
    total = Operation::combine(total, scratch[w]);
  }
  return wave_reduce<Operation>(total);
}

// Storage types to float and back, round to nearest even. On the device the hardware converts.
__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(half value) {
#if ROCMFORGE_DEVICE_AMD
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}
__device__ inline float to_float(bfloat16 value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

template <class T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline half from_float<half>(float value) {
  half result;
#if ROCMFORGE_DEVICE_AMD
  result.bits = __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#endif
  return result;
}
template <>
__device__ inline bfloat16 from_float<bfloat16>(float value) {
  bfloat16 result;
#if ROCMFORGE_DEVICE_AMD
  result.bits = float_to_bfloat16(value);
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
#endif
  return result;
}

inline constexpr float infinity = __builtin_huge_valf();

/// Two 16-bit elements in a word, `low` in its low half.
template <class Element>
__device__ inline std::uint32_t pack_pair(float low, float high) {
#if ROCMFORGE_DEVICE_AMD
  return from_float<Element>(low).bits | static_cast<std::uint32_t>(from_float<Element>(high).bits) << 16;
#else
  std::uint32_t word;
  if constexpr (__is_same(Element, half)) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#endif
}

/// 2^x; 0 for -infinity.
__device__ inline float exp2_fast(float x) {
#if ROCMFORGE_DEVICE_AMD
  return __builtin_amdgcn_exp2f(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

}  // namespace rocmforge::gpu
