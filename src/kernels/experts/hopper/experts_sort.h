#pragma once

// The order of slots for experts_few.h and the work of its tiles, by one work-group of the launch that quantises the
// activations. The kernel of experts/portable/experts.hip sorts for larger tiles, in a launch of its own.

#include "kernels/experts/hopper/experts_args.h"
#include "kernels/tile/device_code.h"

namespace rocmforge::hopper {

inline constexpr int sort_warps = few_convert_threads / 32;

struct SortShared {
  std::int32_t next[gpu::most_experts];  ///< slots of each expert, then the place of the next of them
  int3 of_warps[sort_warps];             ///< slots, tiles and their work
};

/// The work of a tile of few slots in experts_few.h: its relative time, as measured on an H200.
__device__ inline int few_tile_work(int count, bool mxfp4) {
  if (mxfp4) {
    return count <= 4 ? 16 : 20;
  }
  return count == 1 ? 16 : count == 2 ? 18 : count <= 4 ? 19 : 25;
}

/// Numbers of slots and tiles and the work of consecutive experts.
struct SortCounts {
  int slots = 0;
  int tiles = 0;
  int work = 0;

  __device__ void add(int count, int tile_tokens, bool mxfp4) {
    const int whole = count / tile_tokens;
    const int rest = count - whole * tile_tokens;
    slots += count;
    tiles += whole + (rest > 0 ? 1 : 0);
    work += whole * few_tile_work(tile_tokens, mxfp4) + (rest > 0 ? few_tile_work(rest, mxfp4) : 0);
  }
  __device__ void add(const SortCounts& other) {
    slots += other.slots;
    tiles += other.tiles;
    work += other.work;
  }
  __device__ SortCounts of_lane_before(int distance) const {
    SortCounts other;
    other.slots = __shfl_up_sync(0xffffffffu, slots, distance);
    other.tiles = __shfl_up_sync(0xffffffffu, tiles, distance);
    other.work = __shfl_up_sync(0xffffffffu, work, distance);
    return other;
  }
};

__device__ inline void sort_few_slots(const gpu::SortSlotsArgs& args, bool mxfp4, SortShared& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  for (int expert = thread; expert < args.experts; expert += few_convert_threads) {
    shared.next[expert] = 0;
  }
  __syncthreads();
  for (int slot = thread; slot < args.slots; slot += few_convert_threads) {
    atomicAdd(&shared.next[args.ids[slot]], 1);
  }
  __syncthreads();
  // A thread has a run of experts.
  const int run = (args.experts + few_convert_threads - 1) / few_convert_threads;
  const int first = min(thread * run, args.experts);
  const int last = min(first + run, args.experts);
  SortCounts own;
  for (int expert = first; expert < last; ++expert) {
    own.add(shared.next[expert], args.tile_tokens, mxfp4);
  }
  SortCounts through = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const SortCounts other = through.of_lane_before(distance);
    if (lane >= distance) {
      through.add(other);
    }
  }
  if (lane == 31) {
    shared.of_warps[warp] = {through.slots, through.tiles, through.work};
  }
  __syncthreads();
  SortCounts at = through.of_lane_before(1);
  if (lane == 0) {
    at = {};
  }
  for (int w = 0; w < warp; ++w) {
    at.add({shared.of_warps[w].x, shared.of_warps[w].y, shared.of_warps[w].z});
  }
  for (int expert = first; expert < last; ++expert) {
    const int count = shared.next[expert];
    shared.next[expert] = at.slots;
    int work = at.work;
    for (int i = 0; i * args.tile_tokens < count; ++i) {
      const int slots = min(count - i * args.tile_tokens, args.tile_tokens);
      args.tiles[at.tiles + i] = {expert, at.slots + i * args.tile_tokens, slots, work};
      work += few_tile_work(slots, mxfp4);
    }
    at.add(count, args.tile_tokens, mxfp4);
  }
  if (thread == few_convert_threads - 1) {
    args.tile_count[0] = at.tiles;
    args.tile_count[1] = at.work;
  }
  __syncthreads();
  for (int slot = thread; slot < args.slots; slot += few_convert_threads) {
    args.order[atomicAdd(&shared.next[args.ids[slot]], 1)] = slot;
  }
}

}  // namespace rocmforge::hopper
