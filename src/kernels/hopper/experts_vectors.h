#pragma once

// Products of few tokens with the matrices of their experts. A warp multiplies a run of records of 16 rows with one slot's
// activations: records come by bulk copies into a ring of its own, become binary16 in registers and are multiplied by the
// tensor core, whose eight columns all hold the slot's activations. Sums of the runs of a row are added up in their order,
// so that they depend on k alone.

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch_order.h"
#include "kernels/hopper/experts_finish.h"
#include "kernels/hopper/matmul_dequantize.h"

namespace rocmforge::hopper {

/// What a warp keeps between its runs: where it is in its ring.
template <WeightFormat format>
struct ExpertWarp {
  static constexpr WeightLayout layout = weight_layout(format);
  static constexpr int groups = layout.elems / weight_group_elems;
  static constexpr int lanes = layout.elems / 8;  ///< that hold columns of a record

  const ExpertVectorArgs& args;
  std::uint32_t ring;   ///< addresses in shared memory
  std::uint32_t x_row;  ///< [block of 32][4 chunks] of 8 activations in the order of activation_element
  char* ring_bytes;
  std::uint64_t* barriers;
  int lane;
  int place = 0;
  std::uint32_t parity = 0;

  __device__ void fetch(int at, const std::uint8_t* record) const {
    if (lane == 0) {
      barrier_expect(&barriers[at], layout.record_bytes);
      copy_bytes(ring_bytes + at * layout.record_bytes, record, layout.record_bytes, &barriers[at]);
    }
  }

  /// The 8 columns of this lane, zeros from k on.
  __device__ void load(const float* x, int record, float (&values)[8]) const {
    const int at = record * layout.elems + lane * 8;
    if (lane < lanes && args.x_aligned != 0 && at + 8 <= args.k) {
      const float4 low = *reinterpret_cast<const float4*>(x + at);
      const float4 high = *reinterpret_cast<const float4*>(x + at + 4);
      values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
      values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = lane < lanes && at + i < args.k ? x[at + i] : 0.0f;
    }
  }

  /// Stores a record's activations as binary16; returns the power of two that they are to be multiplied with.
  __device__ float store(const float (&values)[8]) const {
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      most = fmaxf(most, fabsf(values[i]));
    }
    most = __uint_as_float(gpu::wave_max(__float_as_uint(most)));  // floats from 0 on are in the order of their bits
    const float scale = half_scale(most);
    std::uint32_t words[4];
    pack_eight(values, 1.0f / scale, words);
    __syncwarp();  // all lanes have read the record before
    if (lane < lanes) {
      rocmforge::hopper::store_shared(x_row + static_cast<std::uint32_t>(lane * 16), words);
    }
    __syncwarp();
    return scale;
  }

  template <int s>
  __device__ void multiply_block(const LaneWeights<format>& weights, int group, float (&sums)[4]) const {
    std::uint32_t a[2][4];
    weights.template dequantize<s>(a);
    std::uint32_t b[4];
    load_shared(b, x_row + static_cast<std::uint32_t>(((group * 4 + s) * 4 + lane % 4) * 16));
    multiply<half>(sums, a[0], b[0], b[1]);
    multiply<half>(sums, a[1], b[2], b[3]);
  }

  /// Starts the copies of as many of the records [first, last) of 16 rows as the ring holds.
  __device__ void start(const std::uint8_t* tile, int first, int last) const {
    for (int i = first, at = place; i < min(first + args.ring, last); ++i) {
      fetch(at, tile + std::int64_t{i} * layout.record_bytes);
      at = at + 1 == args.ring ? 0 : at + 1;
    }
  }

  /// Records [first, last), whose copies were started, times x: of rows lane / 4 and 8 further on.
  __device__ float2 run(const std::uint8_t* tile, int first, int last, const float* x) {
    const int ahead = min(args.ring, last - first);
    float2 total{0.0f, 0.0f};
    float values[8];
    if (first < last) {
      load(x, first, values);
    }
#pragma unroll 1
    for (int record = first; record < last; ++record) {
      const float scale = store(values);
      if (record + 1 < last) {
        load(x, record + 1, values);
      }
      barrier_wait(&barriers[place], parity);
      float sums[4] = {};
#pragma unroll
      for (int group = 0; group < groups; ++group) {
        LaneWeights<format> weights;
        weights.load(ring + static_cast<std::uint32_t>(place * layout.record_bytes), group, lane);
        multiply_block<0>(weights, group, sums);
        multiply_block<1>(weights, group, sums);
        multiply_block<2>(weights, group, sums);
        multiply_block<3>(weights, group, sums);
      }
      total.x = fmaf(sums[0], scale, total.x);
      total.y = fmaf(sums[2], scale, total.y);
      __syncwarp();
      if (record + ahead < last) {
        fetch(place, tile + static_cast<std::int64_t>(record + ahead) * layout.record_bytes);
      }
      if (++place == args.ring) {
        place = 0;
        parity ^= 1;
      }
    }
    return total;
  }
};

/// The shared expert that a token's slot has, which needs no choice; below the first of them for the other slots.
__device__ inline int shared_expert(const ExpertVectorArgs& args, int slot) { return args.experts - args.used + slot; }
__device__ inline bool is_shared(const ExpertVectorArgs& args, int slot) { return slot >= args.used - args.shared; }

/// A run of records of 16 rows for a slot.
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
    first = args.records * part / args.parts;
    last = args.records * (part + 1) / args.parts;
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
  const ExpertVectorShared shared = expert_vector_shared(runs, warps, args.ring, layout.record_bytes, args.used);
  char* ring = memory + warp * args.ring * layout.record_bytes;
  auto* sums = reinterpret_cast<float*>(memory + shared.sums);
  auto* barriers = reinterpret_cast<std::uint64_t*>(memory + shared.barriers) + warp * args.ring;
  if (lane == 0) {
    for (int i = 0; i < args.ring; ++i) {
      barrier_init(&barriers[i], 1);
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
  ExpertWarp<format> own{args, shared_address(ring), shared_address(memory + shared.x + warp * 512), ring, barriers, lane};
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
      experts[work.slot] = work.expert;
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
