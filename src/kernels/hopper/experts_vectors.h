#pragma once

// Products of few tokens with the matrices of their experts. A warp multiplies a run of units of 16 rows with one slot's
// activations: units come by bulk copies into a ring of its own. The eight columns of the tensor core are blocks of a unit's
// activations, of which each product with a block of weights has one that is wanted: so a lane converts eight activations
// alone and scales the sums of two blocks alone. Sums of the runs of a row are added up in their order, so that they depend
// on k alone.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_finish.h"
#include "kernels/hopper/experts_units.h"
#include "kernels/hopper/matvec_tile.h"

namespace rocmforge::hopper {

/// What a warp keeps between its runs: where it is in its ring.
template <WeightFormat format>
struct ExpertWarp {
  using U = Unit<format>;
  using Weights = LaneWeights<format>;
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int unit_bytes = U::records * layout.record_bytes;

  const ExpertVectorArgs& args;
  std::uint32_t ring;  ///< addresses in shared memory
  std::uint32_t barriers;
  int lane;
  int place = 0;
  std::uint32_t parity = 0;

  __device__ void fetch(int at, const std::uint8_t* tile, int unit) const {
    if (lane == 0) {
      const int records = min(args.records - unit * U::records, U::records);
      const auto bytes = static_cast<std::uint32_t>(records * layout.record_bytes);
      const std::uint32_t barrier = barriers + static_cast<std::uint32_t>(at * 8);
      copy_bytes(ring + static_cast<std::uint32_t>(at * unit_bytes), tile + std::int64_t{unit} * unit_bytes, bytes, barrier);
      arrive_at(barrier);
    }
  }

  /// Starts the copies of as many of the units [first, last) of 16 rows as the ring holds.
  __device__ void start(const std::uint8_t* tile, int first, int last) const {
    for (int i = first, at = place; i < min(first + args.ring, last); ++i) {
      fetch(at, tile, i);
      at = at + 1 == args.ring ? 0 : at + 1;
    }
  }

  /// This lane's columns of a unit: 8 lane and on, of block lane / 4.
  __device__ void load(const float* x, int unit, float (&values)[8]) const {
    load_eight(x, unit * expert_unit_columns + lane * 8, args.k, args.x_aligned != 0, values);
  }

  /// Adds the sums that this lane has of a unit, of Q6_K of group `group`, times `factor`: of rows lane / 4 and 8 further
  /// on, of two blocks each.
  __device__ void add_blocks(std::uint32_t unit, int group, const float (&products)[4], const BlockSums& blocks,
                             bool present, float factor, float (&total)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float scale[2] = {};
      float minimum[2] = {};
      if (present) {
        U::load_scales(unit, group, lane / 4 + 8 * r, lane % 4, scale, minimum);
      }
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        sum = U::add_block(sum, products[2 * r + j], blocks.all[j], scale[j], minimum[j]);
      }
      total[r] = fmaf(sum, factor, total[r]);
    }
  }

  /// Block s of a group times all columns of B, of which lanes `own` keep column 2 (lane % 4) + j in found[j] and found[2 +
  /// j].
  template <int s>
  __device__ static void multiply_block(const Weights& weights, const std::uint32_t (&b)[4], const BlockSums& blocks,
                                        bool own, int j, float (&found)[4]) {
    std::uint32_t a[2][4];
    U::template operand_a<s>(weights, a);
    float products[4] = {blocks.start[0], blocks.start[1], blocks.start[0], blocks.start[1]};
    multiply<half>(products, a[0], b[0], b[1]);
    multiply<half>(products, a[1], b[2], b[3]);
    found[j] = own ? products[j] : found[j];
    found[2 + j] = own ? products[2 + j] : found[2 + j];
    if constexpr (U::half_blocks) {
      found[1 - j] = own ? products[1 - j] : found[1 - j];
      found[3 - j] = own ? products[3 - j] : found[3 - j];
    }
  }
  __device__ void multiply_group(std::uint32_t unit, int group, const std::uint32_t (&b)[4], const BlockSums& blocks,
                                 float (&found)[4]) const {
    Weights weights;
    U::load_codes(unit, group, lane, weights);
    const int c = lane % 4;
    if constexpr (U::half_blocks) {  // columns 2 s and 2 s + 1 are the halves of block s
      multiply_block<0>(weights, b, blocks, c == 0, 0, found);
      multiply_block<1>(weights, b, blocks, c == 1, 0, found);
      multiply_block<2>(weights, b, blocks, c == 2, 0, found);
      multiply_block<3>(weights, b, blocks, c == 3, 0, found);
    } else {  // column 4 group + s is block s
      multiply_block<0>(weights, b, blocks, c == 2 * group, 0, found);
      multiply_block<1>(weights, b, blocks, c == 2 * group, 1, found);
      multiply_block<2>(weights, b, blocks, c == 2 * group + 1, 0, found);
      multiply_block<3>(weights, b, blocks, c == 2 * group + 1, 1, found);
    }
  }

  /// Adds a unit's part of rows lane / 4 and 8 further on, times `scale`: that of the blocks whose sums this lane has.
  __device__ void add_unit(std::uint32_t unit, int groups, const std::uint32_t (&b)[4], float scale,
                           float (&total)[2]) const {
    float found[4] = {};
    const BlockSums all_blocks(U::offsets(), b);
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
      if constexpr (U::half_blocks) {
        std::uint32_t columns[4];
        half_columns(b, group, lane, columns);
        const BlockSums blocks(U::offsets(), columns);
        multiply_group(unit, group, columns, blocks, found);
        add_blocks(unit, group, found, blocks, true, scale, total);
      } else {
        multiply_group(unit, group, b, all_blocks, found);
      }
    }
    if constexpr (!U::half_blocks) {
      add_blocks(unit, 0, found, all_blocks, lane % 4 / 2 < groups, scale, total);
    }
  }

  /// Units [first, last), whose copies were started, times x: of rows lane / 4 and 8 further on.
  __device__ float2 run(const std::uint8_t* tile, int first, int last, const float* x) {
    const int ahead = min(args.ring, last - first);
    float total[2] = {};
    float values[8];
    if (first < last) {
      load(x, first, values);
    }
#pragma unroll 1
    for (int unit = first; unit < last; ++unit) {
      std::uint32_t b[4];
      const UnitScale scale(gpu::wave_max(largest_bits(values)));
      pack_eight(values, scale.to_half, U::offsets().second_share, b);
      if (unit + 1 < last) {
        load(x, unit + 1, values);
      }
      wait_for(barriers + static_cast<std::uint32_t>(place * 8), parity);
      add_unit(ring + static_cast<std::uint32_t>(place * unit_bytes),
               U::records == 2 ? min(args.records - unit * 2, 2) : U::groups, b, scale.back * U::factor, total);
      __syncwarp();
      if (unit + ahead < last) {
        fetch(place, tile, unit + ahead);
      }
      if (++place == args.ring) {
        place = 0;
        parity ^= 1;
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
      total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
    }
    return {total[0], total[1]};
  }
};

/// The shared expert that a token's slot has, which needs no choice; below the first of them for the other slots.
__device__ inline int shared_expert(const ExpertVectorArgs& args, int slot) { return args.experts - args.used + slot; }
__device__ inline bool is_shared(const ExpertVectorArgs& args, int slot) { return slot >= args.used - args.shared; }

/// A run of units of 16 rows for a slot.
struct ExpertRun {
  const std::uint8_t* tile;
  const float* x;
  int slot;  ///< of the token
  int part;
  int expert;
  int first;
  int last;

  __device__ ExpertRun(const ExpertVectorArgs& args, bool gated, int run, std::int64_t tile_bytes) {
    part = run % args.parts;
    slot = gated ? static_cast<int>(blockIdx.y) : run / args.parts;
    const int which = gated ? run / args.parts : 0;
    const int token = static_cast<int>(blockIdx.z);
    const int at = token * args.used + slot;
    // The first cache may still have the ids of another step.
    expert = gated && is_shared(args, slot) ? shared_expert(args, slot) : __ldcg(args.ids + at);
    tile = args.weights[which] + expert * args.expert_bytes[which] + std::int64_t{blockIdx.x} * tile_bytes;
    x = args.x + static_cast<std::int64_t>(gated ? token : at) * args.k;
    first = args.units * part / args.parts;
    last = args.units * (part + 1) / args.parts;
  }
};

template <WeightFormat format, bool gated>
__device__ inline void expert_vectors(const ExpertVectorArgs& args) {
  constexpr WeightLayout layout = weight_layout(format);
  extern __shared__ __align__(128) char memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int runs = gated ? 2 * args.parts : args.used * args.parts;
  constexpr int unit_bytes = ExpertWarp<format>::unit_bytes;
  const ExpertVectorShared shared = expert_vector_shared(runs, warps, args.ring, unit_bytes, args.used);
  const std::uint32_t ring = shared_address(memory + warp * args.ring * unit_bytes);
  auto* sums = reinterpret_cast<float*>(memory + shared.sums);
  const std::uint32_t barriers = shared_address(memory + shared.barriers + warp * args.ring * 8);
  if (lane == 0) {
    for (int i = 0; i < args.ring; ++i) {
      init_barrier(barriers + static_cast<std::uint32_t>(i * 8), 1);
    }
    barrier_init_fence();
  }
  __syncwarp();
  if (gated) {
    if (!is_shared(args, static_cast<int>(blockIdx.y))) {
      gpu::begin_in_turn();
    }
  } else {
    gpu::release_successor();
    if (args.chosen_before == 0) {
      gpu::wait_for_predecessor();
    }
  }
  ExpertWarp<format> own{args, ring, barriers, lane};
  const std::int64_t tile_bytes = std::int64_t{args.records} * layout.record_bytes;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.x) * weight_tile_rows + thread;
  const bool writes = thread < weight_tile_rows && row < args.n;
  const int token = static_cast<int>(blockIdx.z);
  const int out_row = gated ? token * args.used + static_cast<int>(blockIdx.y) : token;
  float* out = args.out + static_cast<std::int64_t>(out_row) * args.n + row;
  auto* shares = reinterpret_cast<float*>(memory + shared.shares);
  auto* experts = reinterpret_cast<int*>(memory + shared.experts);
  // What the sums are finished with is loaded before they are made.
  float before = 0.0f;
  int expert = 0;
  for (int run = warp; run < runs; run += warps) {
    const ExpertRun work(args, gated, run, tile_bytes);
    own.start(work.tile, work.first, work.last);
    if (gated && is_shared(args, work.slot)) {
      gpu::begin_in_turn();  // for x; a warp has one run
    }
    const bool first_part = !gated && work.part == 0 && lane == 0;
    float share = 0.0f;
    if (first_part) {
      experts[work.slot] = work.expert;
    }
    if constexpr (!gated) {
      if (run == warp) {
        gpu::wait_for_predecessor();  // for x; weights are on their way
        before = writes ? *out : 0.0f;
      }
      share = first_part ? args.shares[token * args.used + work.slot] : 0.0f;
    }
    const float2 found = own.run(work.tile, work.first, work.last, work.x);
    if (lane % 4 == 0) {
      sums[run * weight_tile_rows + lane / 4] = found.x;
      sums[run * weight_tile_rows + lane / 4 + 8] = found.y;
    }
    if (first_part) {
      shares[work.slot] = share;
    }
    expert = work.expert;
  }
  if (!gated && warp >= runs) {
    gpu::wait_for_predecessor();
  }
  __syncthreads();
  if (!writes) {
    return;
  }
  const auto sum_of = [&](int first) {
    float sum = sums[first * weight_tile_rows + thread];
    for (int part = 1; part < args.parts; ++part) {
      sum += sums[(first + part) * weight_tile_rows + thread];
    }
    return sum;
  };
  if constexpr (gated) {
    const float gate = finish_product(args.finish[0], expert, row, sum_of(0));
    const float up = finish_product(args.finish[1], expert, row, sum_of(args.parts));
    *out = gpu::activate(args.activation, gate, up);
  } else {
    float total = 0.0f;
    for (int j = 0; j < args.used; ++j) {
      total = fmaf(shares[j], finish_product(args.finish[0], experts[j], row, sum_of(j * args.parts)), total);
    }
    *out = before + total;
  }
}

}  // namespace rocmforge::hopper
