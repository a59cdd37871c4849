#pragma once

// The copy engine: bulk copies to shared memory, of bytes and of boxes of a tensor. Semantics: NVIDIA PTX ISA manual,
// chapters on cp.async.bulk, cp.async.bulk.tensor and createpolicy.

#include <cuda_runtime.h>

#include <cstdint>

#include "device/tensor_map.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/shake.h"

namespace rocmforge::hopper {

using gpu::shake;

/// Ordinary writes to shared memory become visible to wgmma and to bulk copies.
__device__ inline void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#if ROCMFORGE_SHAKEN
/// The first 128 bytes that a copy is about to write become NaN at once: the copy itself comes too late to show a reader
/// that has not ended. Every copy's destination is free from here on.
__device__ inline void poison_destination(std::uint32_t to, std::uint32_t bytes) {
  if (rocmforge_shake_seed != 0) {
    const std::uint32_t nan[4] = {~0u, ~0u, ~0u, ~0u};
    for (std::uint32_t at = 0; at < bytes && at < 128; at += 16) {
      store_shared(to + at, nan);
    }
    async_proxy_fence();
  }
}
#else
__device__ inline void poison_destination(std::uint32_t /*to*/, std::uint32_t /*bytes*/) {}
#endif

constexpr std::uint32_t least_box_bytes = 128;  // one row of 64 numbers

/// Copies one box of a 4-dimensional tensor to shared memory; its bytes count towards the barrier's phase.
__device__ inline void copy_box(void* to, const TensorMap* map, std::uint64_t* barrier, int c0, int c1, int c2, int c3) {
  poison_destination(shared_address(to), least_box_bytes);
  shake();
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::
          "r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// The same under a cache policy.
__device__ inline void copy_box(void* to, const TensorMap* map, std::uint64_t* barrier, int c0, int c1, int c2, int c3,
                                std::uint64_t policy) {
  poison_destination(shared_address(to), least_box_bytes);
  shake();
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, "
      "%6}], [%2], %7;" ::"r"(shared_address(to)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
      : "memory");
}
/// A cache policy: data that are read under it leave the L2 cache first, so that what is read once does not displace the
/// rest.
__device__ inline std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

/// Copies a multiple of 16 bytes, from and to addresses that are such multiples; they count towards the
/// barrier's phase, which expects them by barrier_expect.
__device__ inline void copy_bytes(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  poison_destination(shared_address(to), bytes);
  shake();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
/// The same under a cache policy.
__device__ inline void copy_bytes(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                                  std::uint64_t policy) {
  poison_destination(shared_address(to), bytes);
  shake();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
/// `once`: nothing reads the data again, so that they leave the L2 cache first.
__device__ inline void copy_bytes_read(bool once, void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  if (once) {
    copy_bytes(to, from, bytes, barrier, evict_first_policy());
  } else {
    copy_bytes(to, from, bytes, barrier);
  }
}
/// The same by addresses in shared memory, under a cache policy or none; expects the bytes too, so that the barrier's phase
/// needs no barrier_expect.
__device__ inline void copy_bytes_expected(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier,
                                           std::uint64_t policy) {
  poison_destination(to, bytes);
  shake();
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%3], %2;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void copy_bytes_expected(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
  poison_destination(to, bytes);
  shake();
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%3], %2;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace rocmforge::hopper
