#pragma once

// Waits of pseudo-random lengths around everything that hands data from thread to thread, in kernels that are compiled to
// look for a lost order (tools/build/build_kernels.py --shaken): a thread that has arrived too early, or reads too late,
// then shows. Without the option there are none, and the code objects are the same.

#include <cstdint>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#else
#include <cuda_runtime.h>
#endif

#if ROCMFORGE_SHAKEN
/// Which waits; 0: none. tools/build/shake.py writes it into the code object.
extern "C" __device__ std::uint32_t rocmforge_shake_seed = 1;
#endif

namespace rocmforge::gpu {

#if ROCMFORGE_SHAKEN

__device__ inline std::uint32_t scatter_bits(std::uint32_t value) {
  value = (value ^ value >> 15) * 0x2c1b3c6du;
  value = (value ^ value >> 13) * 0x9e3779b1u;
  return value ^ value >> 16;
}

/// Waits at least about so long; the same for the whole wave.
__device__ inline void wait_nanoseconds(std::uint32_t nanoseconds) {
#if defined(__HIPCC__)
  const int rounds = __builtin_amdgcn_readfirstlane(static_cast<int>((nanoseconds + 199) / 200));
  for (int i = 0; i < rounds; ++i) {
    __builtin_amdgcn_s_sleep(8);  // 512 cycles
  }
#else
  if (nanoseconds != 0) {
    __nanosleep(nanoseconds);
  }
#endif
}

/// By each wave on its own. An eighth of the waves are slow: they wait each time. The others mostly wait for no time or a
/// short one, and seldom so long that everybody else must wait for them.
__device__ inline void shake() {
  if (rocmforge_shake_seed == 0) {
    return;
  }
  const std::uint32_t group = blockIdx.x + 977 * blockIdx.y + 31337 * blockIdx.z;
  const std::uint32_t wave = scatter_bits(scatter_bits(rocmforge_shake_seed + group) + threadIdx.x / 32);
  const std::uint32_t now = scatter_bits(wave + static_cast<std::uint32_t>(clock64()));
  std::uint32_t nanoseconds = 0;
  if (wave % 8 == 0) {
    nanoseconds = 200 + now % 2048;
  } else if (now % 64 == 0) {
    nanoseconds = 20'000;
  } else if (now % 2 == 0) {
    nanoseconds = now / 64 % 512;
  }
  wait_nanoseconds(nanoseconds);
}

#else

__device__ inline void shake() {}

#endif

}  // namespace rocmforge::gpu

#if ROCMFORGE_SHAKEN
// The words of both languages, so that kernels need not know.
#define __syncthreads() (::rocmforge::gpu::shake(), ::__syncthreads(), ::rocmforge::gpu::shake())
#define __syncwarp(...) (::rocmforge::gpu::shake(), ::__syncwarp(__VA_ARGS__))
#define __threadfence() (::rocmforge::gpu::shake(), ::__threadfence())
#define atomicAdd(...) (::rocmforge::gpu::shake(), ::atomicAdd(__VA_ARGS__))
#endif
