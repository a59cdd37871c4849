#pragma once

// Products of quantised weights with many tokens. A work-group stays on its multiprocessor and takes tiles of rows x tokens
// one after another. One warp copies records of packed weights by bulk copies, one boxes of activations, each through a ring
// of its own. Consumer warpgroups hold the sums of their rows; they dequantise weights in registers, as wgmma's operand A,
// while the products of the previous block run.

#include <type_traits>

#include "kernels/experts/hopper/experts_args.h"
#include "kernels/matmul/hopper/matmul_dequantize.h"
#include "kernels/matmul/hopper/matmul_tiles_parts.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/registers.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/hopper/wgmma.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {

/// A tile is 64 rows for each of two consumers, or of four (matmul_high), times `tokens`. With `Args_` of experts, slots of
/// one expert.
/// `also`: parts may have this format too; its records have as many columns.
template <WeightFormat format_, int tokens_, int blocks_ = 1, class Args_ = MatmulTilesArgs,
          int consumers_ = tiles_consumers, WeightFormat also_ = format_>
struct TilesConfig {
  using Args = Args_;
  static constexpr WeightFormat format = format_;
  static constexpr WeightFormat also = also_;
  static constexpr WeightLayout layout = weight_layout(format_);
  static constexpr int tokens = tokens_;
  static constexpr int consumers = consumers_;
  static constexpr bool is_high = consumers == high_tile_consumers;
  static constexpr int blocks = blocks_;  ///< of 32 columns that are multiplied at a time: 1 or 2
  static constexpr TilesShape shape{1, tokens_, consumers};
  static constexpr TilesRings rings = tiles_rings(shape, larger_format(format, also));
  static constexpr int pieces = consumers * 4;  ///< tiles of 16 rows
  static constexpr int boxes_per_record = rocmforge::hopper::boxes_per_record(format_);
  static_assert(layout.elems == weight_layout(also).elems);
  static_assert(boxes_per_record >= least_boxes_of_tile && rings.scales >= tiles_scales_needed(rings.boxes));
  static constexpr int groups = layout.elems / weight_group_elems;
  static constexpr int sums = tokens / 2;
  static constexpr bool slots = !std::is_same_v<Args, MatmulTilesArgs>;
};

template <class C>
struct TilesShared {
  alignas(1024) char x[C::rings.boxes][C::shape.box_bytes()];
  alignas(128) char weights[C::rings.slots][C::rings.slot_bytes];
  TilesStage stage[C::consumers];
  alignas(16) float scales[C::rings.scales][C::tokens];
  std::uint64_t x_full[C::rings.boxes];
  std::uint64_t x_free[C::rings.boxes];
  std::uint64_t weights_full[C::rings.slots];
  std::uint64_t weights_free[C::rings.slots];
};

/// One tile of outputs: which part, which of its tiles of rows, which tile of tokens.
struct TileWork {
  int part;
  int row_tile;
  int token_tile;
  int segment;  ///< of k, in matmul_high; all tiles of one segment come before those of the next one
};
__device__ inline TileWork find_tile(const MatmulTilesArgs& args, int index) {
  const int segment = index / (args.row_tiles * args.token_tiles);
  const int tile = index - segment * args.row_tiles * args.token_tiles;
  TileWork work{0, tile / args.token_tiles, tile % args.token_tiles, segment};
  if (args.gate == Gate::none) {
    while (work.part + 1 < args.num_parts && work.row_tile >= args.parts[work.part + 1].first_tile) {
      ++work.part;
    }
    work.row_tile -= args.parts[work.part].first_tile;
  }
  return work;
}

__device__ inline const MatmulTilesArgs& product_of(const MatmulTilesArgs& args) { return args; }
__device__ inline int count_tiles(const MatmulTilesArgs& args) { return args.row_tiles * args.token_tiles * args.segments; }
__device__ inline const std::uint8_t* weight_of(const MatmulTilesArgs& args, const TileWork&, int part) {
  return args.parts[part].weight;
}
__device__ inline TokensInOrder tokens_of(const MatmulTilesArgs&, const TileWork&) { return {}; }

// The same of experts: all tiles of rows with one tile of slots, then with the next one.
struct ExpertTileWork : TileWork {
  int expert;
  int first;  ///< in the order of slots
  int count;
};
__device__ inline ExpertTileWork find_tile(const ExpertTilesArgs& args, int index) {
  const int tile = index / args.product.row_tiles;
  const gpu::ExpertTile slots = args.work[tile];
  return {{0, index % args.product.row_tiles, tile, 0}, slots.expert, slots.first, slots.count};
}
__device__ inline const MatmulTilesArgs& product_of(const ExpertTilesArgs& args) { return args.product; }
__device__ inline int count_tiles(const ExpertTilesArgs& args) { return args.product.row_tiles * *args.work_count; }
__device__ inline const std::uint8_t* weight_of(const ExpertTilesArgs& args, const ExpertTileWork& work, int part) {
  return args.product.parts[part].weight + work.expert * args.expert_bytes[part];
}
__device__ inline SlotsOfExpert tokens_of(const ExpertTilesArgs& args, const ExpertTileWork& work) {
  SlotsOfExpert slots{args.order + work.first, work.count, {}, {}, args.activation};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const gpu::ExpertFinish& finish = args.finish[i];
    slots.biases[i] = finish.bias != nullptr ? finish.bias + work.expert * finish.bias_stride : nullptr;
    slots.scales[i] = finish.scale != nullptr ? finish.scale[work.expert] : 1.0f;
  }
  return slots;
}

/// The part and the first row of a consumer's 64 rows. With a gate every second consumer has the same rows of up as the one
/// before it has of the gate.
struct ConsumerRows {
  int part;
  int first_row;
};
template <int consumers>
__device__ inline ConsumerRows consumer_rows(const MatmulTilesArgs& args, const TileWork& work, int consumer) {
  if (args.gate != Gate::none) {
    return {consumer % 2, (work.row_tile * (consumers / 2) + consumer / 2) * 64};
  }
  return {work.part, (work.row_tile * consumers + consumer) * 64};
}

/// The records of a tile, all of them or those of a segment.
struct TileRecords {
  int first;
  int end;
};
template <class C>
__device__ inline TileRecords records_of(const MatmulTilesArgs& args, const TileWork& work) {
  if constexpr (C::is_high) {
    const int first = work.segment * args.segment_records;
    return {first, min(args.records, first + args.segment_records)};
  } else {
    return {0, args.records};
  }
}

/// Bytes of a part's record of 16 rows.
template <class C>
__device__ inline int record_bytes(const MatmulTilesPart& part) {
  if constexpr (C::also != C::format) {
    return part.format == C::also ? weight_layout(C::also).record_bytes : C::layout.record_bytes;
  } else {
    return C::layout.record_bytes;
  }
}

/// One warp copies weights: no kernel writes them, so that they are fetched before the predecessor has ended.
template <class C>
__device__ void produce_weights(const typename C::Args& call, TilesShared<C>& shared) {
  const MatmulTilesArgs& args = product_of(call);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Ring<C::rings.slots> slot;
  if constexpr (C::slots) {
    gpu::wait_for_predecessor();  // the predecessor chooses the experts whose weights are needed
  }
  const int total = count_tiles(call);
  for (int index = static_cast<int>(blockIdx.x); index < total; index += static_cast<int>(gridDim.x)) {
    const auto work = find_tile(call, index);
    const TileRecords records = records_of<C>(args, work);
    const int bytes = record_bytes<C>(args.parts[work.part]);
    const std::uint8_t* weight = nullptr;  // of this lane's 16 rows
    if (lane < C::pieces) {
      const ConsumerRows rows = consumer_rows<C::consumers>(args, work, lane / 4);
      const int tile = rows.first_row / weight_tile_rows + lane % 4;
      if (tile * weight_tile_rows < args.parts[rows.part].n) {
        weight = weight_of(call, work, rows.part) + (std::int64_t{tile} * args.records + records.first) * bytes;
      }
    }
    const int pieces = __popc(__ballot_sync(0xffffffffu, weight != nullptr));
    for (int record = records.first; record < records.end; ++record) {
      barrier_wait(&shared.weights_free[slot.slot], slot.parity ^ 1);
      if (lane == 0) {
        barrier_expect(&shared.weights_full[slot.slot], pieces * bytes);
      }
      __syncwarp();
      if (weight != nullptr) {
        copy_bytes_read(C::is_high && args.token_tiles == 1, shared.weights[slot.slot] + lane * bytes, weight, bytes,
                        &shared.weights_full[slot.slot]);
        weight += bytes;
      }
      slot.advance();
    }
  }
  gpu::wait_for_predecessor();
}

/// One lane copies the boxes of activations, and with a tile's first box the scales of its tokens.
template <class C>
__device__ void produce_boxes(const typename C::Args& call, TilesShared<C>& shared) {
  gpu::wait_for_predecessor();
  if (threadIdx.x % 32 != 0) {
    return;
  }
  const MatmulTilesArgs& args = product_of(call);
  Ring<C::rings.boxes> box;
  Ring<C::rings.scales> scale;
  const int total = count_tiles(call);
  for (int index = static_cast<int>(blockIdx.x); index < total; index += static_cast<int>(gridDim.x)) {
    const auto work = find_tile(call, index);
    const TileRecords records = records_of<C>(args, work);
    const int end = records.end * C::boxes_per_record;
    for (int i = records.first * C::boxes_per_record; i < end; ++i) {
      const bool first = i == records.first * C::boxes_per_record;
      barrier_wait(&shared.x_free[box.slot], box.parity ^ 1);
      barrier_expect(&shared.x_full[box.slot], C::shape.box_bytes() + (first ? C::tokens * 4 : 0));
      if (first) {
        copy_bytes(shared.scales[scale.slot], args.x_scales + work.token_tile * C::tokens, C::tokens * 4,
                   &shared.x_full[box.slot]);
      }
      copy_bytes(shared.x[box.slot], args.x + (std::int64_t{work.token_tile} * args.x_boxes + i) * C::shape.box_bytes(),
                 C::shape.box_bytes(), &shared.x_full[box.slot]);
      box.advance();
    }
    scale.advance();
  }
}

template <class C>
struct TilesConsumer {
  const typename C::Args& call;
  const MatmulTilesArgs& args;  ///< of the call
  TilesShared<C>& shared;
  int consumer;
  int warp;
  int lane;
  Ring<C::rings.slots> slot;
  Ring<C::rings.boxes> box;
  Ring<C::rings.scales> scale;
  float sums[C::sums];
  int last_box = 0;                            ///< the place of the box before `box`
  bool begins = true;                          ///< before its first multiplication
  std::uint32_t operands[2][C::blocks][2][4];  ///< [multiplication % 2][block][step]

  __device__ void arrive(std::uint64_t* barrier) const {
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(barrier);
    }
  }
  __device__ void free_last_box() { arrive(&shared.x_free[last_box]); }

  /// Blocks s to s + C::blocks - 1 of a group: issued, not awaited. `first`: the tile's first box.
  template <int s, WeightFormat format>
  __device__ void multiply(const LaneWeights<format>& weights, bool first) {
    constexpr int turn = s / C::blocks % 2;
    weights.template dequantize<s>(operands[turn][0]);
    if constexpr (C::blocks == 2) {
      weights.template dequantize<s + 1>(operands[turn][1]);
    }
    if constexpr (s % 2 == 0) {
      barrier_wait(&shared.x_full[box.slot], box.parity);
    }
    const std::uint64_t x = advance(operand(shared.x[0]), box.slot * C::shape.box_bytes());
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2 * C::blocks; ++step) {
      multiply_registers(sums, operands[turn][step / 2][step % 2], advance(x, (s % 2) * 64 + step * 32));
    }
    wgmma_commit();
    wgmma_wait<1>();  // all but this one: the other operands are free, and so is the box before this one
    if constexpr (s % 2 == 0) {
      if (!first) {
        free_last_box();
      }
    }
    if constexpr ((s + C::blocks) % 2 == 0) {
      last_box = box.slot;
      box.advance();
    }
  }

  /// The first consumer of two is two boxes ahead of the second, so that the tensor cores compute the products of one while
  /// the other writes its sums. With a gate both write together.
  __device__ void wait_for_lead() const {
    if (!C::is_high && args.gate == Gate::none) {
      named_barrier_sync(4, 2 * warpgroup_size);
    }
  }
  __device__ void give_lead() const {
    if (!C::is_high && args.gate == Gate::none && consumer == 0) {
      named_barrier_arrive(4, 2 * warpgroup_size);
    }
  }

  template <int s, WeightFormat format>
  __device__ void multiply_from(const LaneWeights<format>& weights, bool first) {
    if constexpr (s < 4) {
      multiply<s>(weights, first && s < 2);
      multiply_from<s + C::blocks>(weights, first);
    }
  }

  template <WeightFormat format>
  __device__ void multiply_records(const TileRecords& records) {
    constexpr WeightLayout layout = weight_layout(format);
    LaneWeights<format> weights;
    bool first = true;
#pragma unroll 1
    for (int record = records.first; record < records.end; ++record) {
      barrier_wait(&shared.weights_full[slot.slot], slot.parity);
      const std::uint32_t piece = shared_address(shared.weights[slot.slot]) +
                                  static_cast<std::uint32_t>((consumer * 4 + warp) * layout.record_bytes);
#pragma unroll 1
      for (int group = 0; group < C::groups; ++group) {
        weights.load(piece, group, lane);
        if (group == C::groups - 1) {
          arrive(&shared.weights_free[slot.slot]);
          slot.advance();
        }
        multiply_from<0>(weights, first);
        first = false;
        if (begins) {
          begins = false;
          give_lead();
        }
      }
    }
  }

  /// Leaves a segment's sums for matmul_add_segments, as [index][consumer][4 sums][thread][4].
  __device__ void store_partials(int index) const {
    constexpr int quads = C::sums / 4;
    float4* to = reinterpret_cast<float4*>(args.partials) +
                 (std::int64_t{index} * C::consumers + consumer) * quads * warpgroup_size + warp * 32 + lane;
#pragma unroll
    for (int i = 0; i < quads; ++i) {
      __stcg(to + i * warpgroup_size, float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    }
  }

  template <class Work>
  __device__ void run(const Work& work, int index) {
#pragma unroll
    for (int i = 0; i < C::sums; ++i) {
      sums[i] = 0.0f;
    }
    if (begins && consumer == 1) {
      wait_for_lead();
    }
    const TileRecords records = records_of<C>(args, work);
    if (C::also != C::format && args.parts[work.part].format == C::also) {
      multiply_records<C::also>(records);
    } else {
      multiply_records<C::format>(records);
    }
    wgmma_wait<0>();
    keep(sums);
    free_last_box();
    if constexpr (C::is_high) {
      if (args.segments > 1) {
        store_partials(index);
        scale.advance();
        return;
      }
    }
    const TilesOutput output{args, args.parts[work.part], shared.scales[scale.slot],
                             consumer_rows<C::consumers>(args, work, consumer).first_row, work.token_tile * C::tokens};
    if constexpr (C::is_high) {
      if (args.gate == Gate::none) {
        const int row = output.first_row + warp * 16 + lane / 4;
        store_sums(args, output.part, row, output.first_token + lane % 4 * 2,
                   reinterpret_cast<const float(&)[1][C::sums]>(sums));
        scale.advance();
        return;
      }
    }
    store_tile(output, tokens_of(call, work), shared.stage, consumer, static_cast<int>(threadIdx.x) % warpgroup_size, sums);
    scale.advance();
  }
};

template <class C>
__device__ void multiply_tiles(const typename C::Args& args) {
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<TilesShared<C>*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  static_assert(sizeof(TilesShared<C>) + 1024 <= C::rings.bytes);
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::rings.boxes; ++i) {
      barrier_init(&shared.x_full[i], TilesShape::full_arrivals);
      barrier_init(&shared.x_free[i], C::shape.free_arrivals());
    }
    for (int i = 0; i < C::rings.slots; ++i) {
      barrier_init(&shared.weights_full[i], TilesShape::full_arrivals);
      barrier_init(&shared.weights_free[i], C::shape.free_arrivals());
    }
    barrier_init_fence();
  }
  __syncthreads();
  gpu::release_successor();
  const int group = static_cast<int>(threadIdx.x) / warpgroup_size;
  if (group == C::consumers) {
    give_up_registers<tiles_producer_registers(C::consumers)>();
    const int warp = static_cast<int>(threadIdx.x) % warpgroup_size / 32;
    if (warp == 0) {
      produce_weights<C>(args, shared);
    } else if (warp == 1) {
      produce_boxes<C>(args, shared);
    } else {
      gpu::wait_for_predecessor();
    }
  } else {
    take_registers<tiles_consumer_registers(C::consumers)>();
    gpu::wait_for_predecessor();
    const int thread = static_cast<int>(threadIdx.x) % warpgroup_size;
    TilesConsumer<C> consumer{args, product_of(args), shared, group, thread / 32, thread % 32};
    const int total = count_tiles(args);
    for (int index = static_cast<int>(blockIdx.x); index < total; index += static_cast<int>(gridDim.x)) {
      consumer.run(find_tile(args, index), index);
    }
  }
}

}  // namespace rocmforge::hopper
