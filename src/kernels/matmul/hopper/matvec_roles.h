#pragma once

// The frame of the kernels for few tokens: the warps that fetch, multiply and write. `Kind` defines the tiles of a
// work-group (its items, one after another) and how weights are stored:
//
//   Args, Shared                              the launch's arguments, where things lie in shared memory
//   has_image, sums                           constants; whether the activations come as an image, sums of a tile
//   shared(args), steps(args), items(args)    steps of a tile, tiles of the work-group
//   slot_bytes(args)                          of 8 steps
//   begin(args), wait(args)                   by all threads, at first and before what a kernel writes is read
//   is_early(args, item)                      whether the item's weights may be fetched before wait()
//   Source(args, memory, lane)                of the warp that fetches
//     choose()                                after wait(), before items that are not early
//     fetch(item, step, count, slot, position, barrier, policy)
//                                             starts the copies of `count` steps to positions of a slot
//   Kind(args, shared, memory, warp, lane)    made by every warp that multiplies, before wait(): it may read what no kernel
//                                             writes
//     stage(), prepare()                      the activations, by all warps that multiply; after the barrier behind it
//     add_tile(item, barriers, slot, first, to)
//                                             steps first, first + 8 .. of a tile: their sums to `to`
//   Writer(args, memory, lane)                of the warp that writes
//     finish(partial, first, items, partial_sums, wait)
//                                             writes the outputs of items [first, first + 2), complete once wait() returns

#include "kernels/matmul/hopper/matvec_common.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {

/// The barriers, as addresses in shared memory.
struct Barriers {
  std::uint32_t image;
  std::uint32_t sums;   ///< of half h: complete at 16 h, free again at 16 h + 8
  std::uint32_t slots;  ///< of slot s: filled at 16 s, free again at 16 s + 8

  __device__ Barriers(const MatvecShared& shared, const std::uint8_t* memory)
      : image(shared_address(memory + shared.barriers)), sums(image + 8), slots(sums + 16 * matvec_halves) {}

  __device__ void init(int count) const {
    barrier_init(image, MatvecArrivals::image);
    for (int h = 0; h < matvec_halves; ++h) {
      barrier_init(sums + 16 * h, MatvecArrivals::sums_complete);
      barrier_init(sums + 16 * h + 8, MatvecArrivals::sums_free);
    }
    for (int s = 0; s < count; ++s) {
      barrier_init(slots + 16 * s, MatvecArrivals::slot_full);
      barrier_init(slots + 16 * s + 8, MatvecArrivals::slot_free);
    }
    barrier_init_fence();
  }
};

/// Fetches the weights of all steps of a work-group, 8 at a time; one warp.
template <class Kind>
class Fetcher {
 public:
  using Args = typename Kind::Args;

  __device__ Fetcher(const Args& args, typename Kind::Source& source, const Barriers& barriers, std::uint8_t* ring,
                     int items, int lane)
      : args_(args),
        source_(source),
        barriers_(barriers),
        ring_(shared_address(ring)),
        steps_(Kind::steps(args)),
        items_(items),
        lane_(lane),
        policy_(evict_first_policy()) {}

  __device__ bool done() const { return item_ >= items_; }
  /// The last item of which the next slot has steps.
  __device__ int last_item() const { return min(item_ + (step_ + matvec_slot_steps - 1) / steps_, items_ - 1); }

  /// Fills the next slot, which must be free.
  __device__ void fill() {
    const std::uint32_t full = barriers_.slots + 16 * turn_.slot;
    const std::uint32_t slot = ring_ + turn_.slot * Kind::slot_bytes(args_);
    for (int filled = 0; filled < matvec_slot_steps && !done();) {
      const int count = min(matvec_slot_steps - filled, steps_ - step_);
      source_.fetch(item_, step_, count, slot, filled, full, policy_);
      filled += count;
      step_ += count;
      if (step_ == steps_) {
        step_ = 0;
        ++item_;
      }
    }
    __syncwarp();
    if (lane_ == 0) {
      barrier_arrive(full);
    }
    turn_.advance(args_.slots);
  }

  /// Waits until the next slot is free, after the first round.
  __device__ void wait() const { barrier_wait(barriers_.slots + 16 * turn_.slot + 8, turn_.parity ^ 1); }

 private:
  const Args& args_;
  typename Kind::Source& source_;
  const Barriers& barriers_;
  std::uint32_t ring_;
  int steps_;
  int items_;
  int lane_;
  std::uint64_t policy_;
  RingPlace turn_;
  int item_ = 0;
  int step_ = 0;
};

/// The warps that multiply.
template <class Kind>
__device__ inline void multiply_tiles(Kind& kind, const typename Kind::Args& args, const Barriers& barriers, float* partial,
                                      int items, int warp, int lane) {
  const int steps = Kind::steps(args);
  int first = warp;  // this warp's first step of the tile, and its partial sum
  RingPlace slot;
  RingPlace half;
  half.parity = 1;  // both halves of the sums are free at first
  for (int item = 0; item < items; ++item) {
    if (item % matvec_chunk == 0) {
      barrier_wait(barriers.sums + 16 * half.slot + 8, half.parity);
    }
    if (first < steps) {
      kind.add_tile(item, barriers, slot, first,
                    partial + ((item & (matvec_halves * matvec_chunk - 1)) * matvec_warps + first) * Kind::sums);
    }
    first = next_first(first, steps);
    if (item % matvec_chunk == matvec_chunk - 1 || item == items - 1) {
      __syncwarp();
      if (lane == 0) {
        barrier_arrive(barriers.sums + 16 * half.slot);
      }
      half.advance(matvec_halves);
    }
  }
}

/// The warp that writes outputs.
template <class Kind>
__device__ inline void write_tiles(const typename Kind::Args& args, const std::uint8_t* memory, const Barriers& barriers,
                                   const float* partial, int items, int lane) {
  const int partial_sums = min(Kind::steps(args), matvec_warps);
  typename Kind::Writer writer(args, memory, lane);
  RingPlace half;
  for (int first = 0; first < items; first += matvec_chunk) {
    const std::uint32_t complete = barriers.sums + 16 * half.slot;
    writer.finish(partial, first, items, partial_sums, [&] { barrier_wait(complete, half.parity); });
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(complete + 8);
    }
    half.advance(matvec_halves);
  }
}

/// All roles once, each at a place of its own: __syncthreads() asks for one place for all threads.
__device__ inline void meet() { named_barrier<2, matvec_all_threads>(); }

template <class Kind>
__device__ inline void run_matvec(const typename Kind::Args& args) {
  extern __shared__ __align__(128) std::uint8_t memory[];
  const typename Kind::Shared shared = Kind::shared(args);
  const Barriers barriers(shared, memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int items = Kind::items(args);
  auto* const partial = reinterpret_cast<float*>(memory + shared.sums);
  Kind::begin(args);
  if (warp == matvec_warps) {
    typename Kind::Source source(args, memory, lane);
    Fetcher<Kind> fetcher(args, source, barriers, memory + shared.ring, items, lane);
    if (lane == 0) {
      barriers.init(args.slots);
    }
    __syncwarp();
    int filled = 0;
    for (; filled < args.slots && !fetcher.done() && Kind::is_early(args, fetcher.last_item()); ++filled) {
      fetcher.fill();
    }
    Kind::wait(args);
    source.choose();
    for (; filled < args.slots && !fetcher.done(); ++filled) {
      fetcher.fill();
    }
    if constexpr (Kind::has_image) {
      if (lane == 0) {
        copy_bytes_expected(shared_address(memory), args.image, static_cast<std::uint32_t>(shared.image_bytes),
                            barriers.image);
        barrier_arrive(barriers.image);
      }
    }
    meet();
    while (!fetcher.done()) {
      fetcher.wait();
      fetcher.fill();
    }
    return;
  }
  if (warp > matvec_warps) {
    Kind::wait(args);
    meet();
    write_tiles<Kind>(args, memory, barriers, partial, items, lane);
    return;
  }
  Kind kind(args, shared, memory, warp, lane);
  Kind::wait(args);
  kind.stage();
  meet();
  if constexpr (Kind::has_image) {
    barrier_wait(barriers.image, 0);
  }
  kind.prepare();
  multiply_tiles(kind, args, barriers, partial, items, warp, lane);
}

/// Shared by the kinds of dense products: items are tiles of the launch's parts, and Kind::fetch starts their copies.
template <class Kind>
struct DenseItems {
  using Args = MatvecArgs;
  using Shared = MatvecShared;

  __device__ static int items(const MatvecArgs& args) { return count_items(args); }
  __device__ static void begin(const MatvecArgs&) { gpu::release_successor(); }
  __device__ static void wait(const MatvecArgs&) { gpu::wait_for_predecessor(); }
  __device__ static bool is_early(const MatvecArgs&, int) { return true; }

  struct Source {
    const MatvecArgs& args;
    int lane;

    __device__ Source(const MatvecArgs& all, std::uint8_t*, int own_lane) : args(all), lane(own_lane) {}
    __device__ void choose() const {}
    __device__ void fetch(int item, int step, int count, std::uint32_t slot, int position, std::uint32_t barrier,
                          std::uint64_t policy) const {
      Kind::fetch(args, item, step, count, slot, position, barrier, lane, policy);
    }
  };
};
template <int tokens>
struct DenseWriter {
  const MatvecArgs& args;

  __device__ DenseWriter(const MatvecArgs& all, const std::uint8_t*, int) : args(all) {}
  template <class Wait>
  __device__ void finish(const float* partial, int first, int items, int partial_sums, const Wait& wait) const {
    rocmforge::hopper::finish<tokens>(args, partial, first, items, partial_sums, wait);
  }
};

}  // namespace rocmforge::hopper
