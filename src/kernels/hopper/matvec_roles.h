#pragma once

// The frame of the kernels for few tokens: which warps fetch, multiply and write. `Kind` says how weights are stored:
//
//   tokens, has_image                         constants; whether the activations come as an image
//   slot_bytes(args)                          of 8 steps
//   Kind(args, shared, memory, warp, lane)    made by every warp that multiplies
//   steps(args), shared(args)                 steps of a tile, where things lie in shared memory
//   fetch(args, place, step, count, slot, position, barrier, lane, policy)
//                                             a warp starts the copies of `count` steps to positions of a slot
//   stage()                                   the activations, by all warps that multiply; they are there after a barrier
//   prepare()                                 after that barrier
//   add_tile(part, barriers, slot, first, to) steps first, first + 8 .. of a tile: their sums to `to` [tokens][16 rows]

#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/matvec_common.h"

namespace rocmforge::hopper {

/// The barriers, as addresses in shared memory.
struct Barriers {
  std::uint32_t image;
  std::uint32_t sums;   ///< of half h: complete at 16 h, free again at 16 h + 8
  std::uint32_t slots;  ///< of slot s: filled at 16 s, free again at 16 s + 8

  __device__ Barriers(const MatvecShared& shared, const std::uint8_t* memory)
      : image(shared_address(memory + shared.barriers)), sums(image + 8), slots(sums + 32) {}

  __device__ void init(int count) const {
    init_barrier(image, 1);
    for (int h = 0; h < 2; ++h) {
      init_barrier(sums + 16 * h, matvec_warps);
      init_barrier(sums + 16 * h + 8, 1);
    }
    for (int s = 0; s < count; ++s) {
      init_barrier(slots + 16 * s, 1);
      init_barrier(slots + 16 * s + 8, matvec_warps);
    }
    barrier_init_fence();
  }
};

/// A place in a ring, and the parity of the round.
struct Turn {
  int at = 0;
  std::uint32_t parity = 0;
  __device__ void advance(int size) {
    if (++at == size) {
      at = 0;
      parity ^= 1;
    }
  }
};

/// Fetches the weights of all steps of a work-group, 8 at a time; one warp.
template <class Kind>
class Fetcher {
 public:
  __device__ Fetcher(const MatvecArgs& args, const Barriers& barriers, std::uint8_t* ring, int items, int lane)
      : args_(args),
        barriers_(barriers),
        ring_(shared_address(ring)),
        steps_(Kind::steps(args)),
        items_(items),
        lane_(lane),
        policy_(read_once_policy()) {}

  __device__ bool done() const { return item_ >= items_; }

  /// Fills the next slot, which must be free.
  __device__ void fill() {
    const std::uint32_t full = barriers_.slots + 16 * turn_.at;
    const std::uint32_t slot = ring_ + turn_.at * Kind::slot_bytes(args_);
    for (int filled = 0; filled < matvec_slot_steps && !done();) {
      const int count = min(matvec_slot_steps - filled, steps_ - step_);
      Kind::fetch(args_, place_of(args_, item_), step_, count, slot, filled, full, lane_, policy_);
      filled += count;
      step_ += count;
      if (step_ == steps_) {
        step_ = 0;
        ++item_;
      }
    }
    __syncwarp();
    if (lane_ == 0) {
      arrive_at(full);
    }
    turn_.advance(args_.slots);
  }

  /// Waits until the next slot is free, after the first round.
  __device__ void wait() const { wait_for(barriers_.slots + 16 * turn_.at + 8, turn_.parity ^ 1); }

 private:
  const MatvecArgs& args_;
  const Barriers& barriers_;
  std::uint32_t ring_;
  int steps_;
  int items_;
  int lane_;
  std::uint64_t policy_;
  Turn turn_;
  int item_ = 0;
  int step_ = 0;
};

/// The warps that multiply.
template <class Kind>
__device__ inline void multiply_tiles(Kind& kind, const MatvecArgs& args, const Barriers& barriers, float* partial,
                                      int items, int warp, int lane) {
  const int steps = Kind::steps(args);
  int first = warp;  // this warp's first step of the tile, and its partial sum
  Turn slot;
  Turn half;
  half.parity = 1;  // both halves of the sums are free at first
  for (int item = 0; item < items; ++item) {
    if (item % matvec_chunk == 0) {
      wait_for(barriers.sums + 16 * half.at + 8, half.parity);
    }
    if (first < steps) {
      kind.add_tile(args.parts[place_of(args, item).part], barriers, slot, first,
                    partial + ((item & (2 * matvec_chunk - 1)) * matvec_warps + first) * weight_tile_rows * Kind::tokens);
    }
    first = next_first(first, steps);
    if (item % matvec_chunk == matvec_chunk - 1 || item == items - 1) {
      __syncwarp();
      if (lane == 0) {
        arrive_at(barriers.sums + 16 * half.at);
      }
      half.advance(2);
    }
  }
}

/// The warp that writes outputs.
template <class Kind>
__device__ inline void write_tiles(const MatvecArgs& args, const Barriers& barriers, const float* partial, int items,
                                   int lane) {
  const int partial_sums = min(Kind::steps(args), matvec_warps);
  Turn half;
  for (int first = 0; first < items; first += matvec_chunk) {
    const std::uint32_t complete = barriers.sums + 16 * half.at;
    finish<Kind::tokens>(args, partial, first, items, partial_sums, [&] { wait_for(complete, half.parity); });
    __syncwarp();
    if (lane == 0) {
      arrive_at(complete + 8);
    }
    half.advance(2);
  }
}

template <class Kind>
__device__ inline void run_matvec(const MatvecArgs& args) {
  extern __shared__ __align__(128) std::uint8_t memory[];
  const MatvecShared shared = Kind::shared(args);
  const Barriers barriers(shared, memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int items = count_items(args);
  auto* const partial = reinterpret_cast<float*>(memory + shared.sums);
  gpu::release_successor();
  if (warp == matvec_warps) {
    Fetcher<Kind> fetcher(args, barriers, memory + shared.ring, items, lane);
    if (lane == 0) {
      barriers.init(args.slots);
    }
    __syncwarp();
    for (int i = 0; i < args.slots && !fetcher.done(); ++i) {
      fetcher.fill();
    }
    gpu::wait_for_predecessor();
    if (Kind::has_image && lane == 0) {
      copy_bytes(shared_address(memory), args.image, static_cast<std::uint32_t>(shared.image_bytes), barriers.image);
      arrive_at(barriers.image);
    }
    __syncthreads();
    while (!fetcher.done()) {
      fetcher.wait();
      fetcher.fill();
    }
    return;
  }
  gpu::wait_for_predecessor();
  if (warp > matvec_warps) {
    __syncthreads();
    write_tiles<Kind>(args, barriers, partial, items, lane);
    return;
  }
  Kind kind(args, shared, memory, warp, lane);
  kind.stage();
  __syncthreads();
  if constexpr (Kind::has_image) {
    wait_for(barriers.image, 0);
  }
  kind.prepare();
  multiply_tiles(kind, args, barriers, partial, items, warp, lane);
}

}  // namespace rocmforge::hopper
