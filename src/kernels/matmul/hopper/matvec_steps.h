#pragma once

// How a warp walks over the steps of tiles of repacked weights, as they come through the ring of matvec_roles.h.

#include "kernels/matmul/hopper/matvec_packed.h"
#include "kernels/matmul/hopper/matvec_roles.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/ring.h"

namespace rocmforge::hopper {

/// The values that are the same for all tiles of a work-group.
struct StepWalk {
  const std::uint8_t* ring;
  int slots;
  int place_bytes;  ///< of a step in a slot, at least a step of any tile
  int k;
  int warp;
  int lane;
};

/// Adds steps first, first + 8 .. of a tile times rows of codes to `sums`. `slot` is the next slot of the ring. `ordered`:
/// see load_codes.
template <bool ordered, WeightFormat format, int tokens>
__device__ inline void add_steps(const StepWalk& walk, int step_bytes, const Activations& x, const Barriers& barriers,
                                 RingPlace& slot, int first, float (&sums)[2 * tokens]) {
  constexpr int elems = weight_layout(format).elems;
  for (int step = first; step < matvec_steps(walk.k); step += matvec_warps) {
    // Steps of one tile lie close together in a slot, those of different tiles place_bytes apart.
    const int of_tile = min(step, walk.warp);
    const int at = (slot.slot * matvec_slot_steps + walk.warp - of_tile) * walk.place_bytes + of_tile * step_bytes;
    const std::uint32_t full = barriers.slots + 16 * slot.slot;
    barrier_wait(full, slot.parity);
    RawStep<format, tokens> raw;
    raw.load(walk.ring + at, elems == 256 || step * matvec_step + elems < walk.k ? 2 : 1, walk.lane);
    const auto release = [&] {
      __syncwarp();
      if (walk.lane == 0) {
        barrier_arrive(full + 8);
      }
    };
    if constexpr (!raw.keeps_slot) {
      release();
    }
    add_step<ordered>(raw, x, step, walk.lane, sums);
    if constexpr (raw.keeps_slot) {
      release();
    }
    slot.advance(walk.slots);
  }
}

}  // namespace rocmforge::hopper
