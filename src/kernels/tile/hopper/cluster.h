#pragma once

// Work-groups of a cluster: each other's shared memory, and a barrier of all. Semantics: NVIDIA PTX ISA manual, chapters on
// mapa and barrier.cluster.

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/shake.h"

namespace rocmforge::hopper {

using gpu::shake;

/// Writes a float to the same place in the shared memory of work-group `rank` of the cluster.
__device__ inline void store_cluster(const float* pointer, std::uint32_t rank, float value) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.f32 [there], %2;\n"
      "}\n" ::"r"(shared_address(pointer)),
      "r"(rank), "f"(value)
      : "memory");
}
/// Reads from the same place in the shared memory of work-group `rank` of the cluster.
__device__ inline float load_cluster(const float* pointer, std::uint32_t rank) {
  float value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [there];\n"
      "}\n"
      : "=f"(value)
      : "r"(shared_address(pointer)), "r"(rank)
      : "memory");
  return value;
}
__device__ inline float4 load_cluster(const float4* pointer, std::uint32_t rank) {
  float4 value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(shared_address(pointer)), "r"(rank)
      : "memory");
  return value;
}
/// The two halves of a barrier of all threads of the cluster: writes to each other's shared memory before arriving are
/// visible after waiting. Once a work-group has arrived, others may write its shared memory.
__device__ inline void cluster_arrive() {
  shake();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// For work-groups that have only read: their reads are complete before others overwrite, and no write is waited for.
__device__ inline void cluster_arrive_relaxed() {
  shake();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  shake();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  shake();
}

}  // namespace rocmforge::hopper
