#pragma once

// Barriers: mbarriers, which copies and threads arrive at, and barriers of threads. Semantics: NVIDIA PTX ISA manual,
// chapters on mbarrier and bar.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/shake.h"

namespace rocmforge::hopper {

using gpu::shake;

// A barrier by the address of its 8 bytes in shared memory: `arrivals` complete a phase, and the bytes that are expected in
// it.

__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// Makes what barrier_init has written visible to the copy engines, and to the cluster.
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  shake();
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  shake();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Waits until the phase of this parity has completed.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  shake();
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
  shake();
}

/// Whether the phase of this parity has completed.
__device__ inline bool barrier_test(std::uint32_t barrier, std::uint32_t parity) {
  shake();
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// The same of a barrier by its pointer.
__device__ inline void barrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
  barrier_init(shared_address(barrier), arrivals);
}
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  barrier_expect(shared_address(barrier), bytes);
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) { barrier_arrive(shared_address(barrier)); }
__device__ inline void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}
__device__ inline bool barrier_test(std::uint64_t* barrier, std::uint32_t parity) {
  return barrier_test(shared_address(barrier), parity);
}

/// A barrier of `threads` threads of the work-group; id 0 is __syncthreads'.
template <int id, int threads>
__device__ inline void named_barrier() {
  shake();
  asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
  shake();
}

__device__ inline void named_barrier_sync(int id, int threads) {
  shake();
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
  shake();
}
__device__ inline void named_barrier_arrive(int id, int threads) {
  shake();
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace rocmforge::hopper
