#pragma once

// Products of quantised weights with few tokens (9 to about 128), bound by the reading of weights. k is cut into segments of
// 1,024 columns, whatever the rest of the call: a segment's activations stay in shared memory while tiles of 64 rows pass. A
// work-group takes a span of (tile of tokens, segment, tile of rows); each consumer warpgroup takes every n-th of these
// tiles, from a ring of its own that one producer warp fills. Where there are several segments, sums go to memory, and the
// last segment of a tile to arrive adds them up in order. A separate warp counts arrivals while consumers multiply the next
// tile.

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

template <WeightFormat format_, int tokens_, bool gated>
struct FewConfig {
  using Args = MatmulTilesArgs;
  static constexpr WeightFormat format = format_;
  static constexpr WeightLayout layout = weight_layout(format_);
  static constexpr TilesShape shape = few_shape(tokens_, gated);
  static constexpr int subtiles = shape.subtiles;  ///< 2: the same 64 rows of gate and up
  static constexpr int tokens = shape.tokens;
  static constexpr int consumers = shape.consumers;
  static constexpr FewRings rings = few_rings(shape, format_);
  static constexpr int boxes_per_record = rocmforge::hopper::boxes_per_record(format_);
  static constexpr int groups = layout.elems / weight_group_elems;
  static constexpr int sums = tokens / 2;
};

template <class C>
struct FewShared {
  alignas(1024) char x[C::rings.boxes][C::shape.box_bytes()];
  alignas(128) char weights[C::consumers][C::rings.slots][C::rings.slot_bytes];
  std::uint64_t weights_full[C::consumers][C::rings.slots];
  std::uint64_t weights_free[C::consumers][C::rings.slots];
  std::uint64_t x_full[C::rings.boxes];
  std::uint64_t x_free;
  std::uint64_t stored[C::consumers];      ///< a tile's sums have been stored to memory
  std::uint64_t told[C::consumers];        ///< the counting warp has answered whether that tile is complete
  std::int32_t stored_tile[C::consumers];  ///< no_tile: that was the last one
  bool whole[C::consumers];
  bool last_whole[C::consumers];
};
inline constexpr std::int32_t no_tile = -1;

/// Calls act(span) for each span of this work-group, in order.
template <class Act>
__device__ inline void for_each_span(const MatmulTilesArgs& args, Act&& act) {
  for (FewSpans spans(args, blockIdx.x, gridDim.x); spans.any();) {
    act(spans.next(args));
  }
}

/// The part that a tile of 64 rows belongs to, and its first row there.
struct FewRows {
  int part;
  int row;
};
__device__ inline FewRows few_rows(const MatmulTilesArgs& args, int row_tile) {
  int part = 0;
  if (args.gate == Gate::none) {
    while (part + 1 < args.num_parts && row_tile >= args.parts[part + 1].first_tile) {
      ++part;
    }
  }
  return {part, (row_tile - args.parts[part].first_tile) * 64};
}

/// A warp copies the weights of one consumer; the first one also the activations.
template <class C>
__device__ void produce_few(const MatmulTilesArgs& args, FewShared<C>& shared, int consumer) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t tile_bytes = std::int64_t{args.records} * C::layout.record_bytes;
  Ring<C::rings.slots> slot;
  std::uint32_t runs = 0;
  for_each_span(args, [&](const FewSpan& span) {
    if (consumer == 0) {
      if (runs == 0) {
        gpu::wait_for_predecessor();
      } else {
        barrier_wait(&shared.x_free, (runs & 1) ^ 1);
      }
      const int boxes = (span.end_record - span.first_record) * C::boxes_per_record;
      if (lane < boxes) {
        const std::int64_t box =
            std::int64_t{span.token_tile} * args.x_boxes + span.first_record * C::boxes_per_record + lane;
        barrier_expect(&shared.x_full[lane], C::shape.box_bytes());
        copy_bytes(shared.x[lane], args.x + box * C::shape.box_bytes(), C::shape.box_bytes(), &shared.x_full[lane]);
      } else if (lane < C::rings.boxes) {
        barrier_arrive(&shared.x_full[lane]);  // a short segment: all boxes stay in the same phase
      }
      __syncwarp();
    }
    ++runs;
    for (int row_tile = span.begin + consumer; row_tile < span.end; row_tile += C::consumers) {
      const FewRows rows = few_rows(args, row_tile);
      const std::uint8_t* weight = nullptr;  // of this lane's 16 rows
      if (lane < C::subtiles * 4) {
        const MatmulTilesPart& part = args.parts[C::subtiles == 2 ? lane / 4 : rows.part];
        const int tile = rows.row / weight_tile_rows + lane % 4;
        if (tile * weight_tile_rows < part.n) {
          weight = part.weight + tile * tile_bytes + std::int64_t{span.first_record} * C::layout.record_bytes;
        }
      }
      const int pieces = __popc(__ballot_sync(0xffffffffu, weight != nullptr));
      for (int record = span.first_record; record < span.end_record; ++record) {
        std::uint64_t* full = &shared.weights_full[consumer][slot.slot];
        barrier_wait(&shared.weights_free[consumer][slot.slot], slot.parity ^ 1);
        if (lane == 0) {
          barrier_expect(full, pieces * C::layout.record_bytes);
        }
        __syncwarp();
        if (weight != nullptr) {
          copy_bytes_read(args.token_tiles == 1, shared.weights[consumer][slot.slot] + lane * C::layout.record_bytes, weight,
                          C::layout.record_bytes, full);
          weight += C::layout.record_bytes;
        }
        slot.advance();
      }
    }
  });
}

/// Counts a segment of a tile; called after a barrier that follows the stores of its sums. True for the last segment: the
/// sums of all segments can then be read.
__device__ inline bool count_segment(const MatmulTilesArgs& args, std::int32_t tile) {
  __threadfence();
  const bool whole = atomicAdd(args.arrivals + tile, 1u) + 1 == static_cast<std::uint32_t>(args.segments);
  if (whole) {
    args.arrivals[tile] = 0;  // for the next launch
    __threadfence();
  }
  return whole;
}

/// By one warp, a lane for each consumer: counts the segments of tiles that are in memory, and tells which was the last.
template <class C>
__device__ void count_segments(const MatmulTilesArgs& args, FewShared<C>& shared) {
  const int consumer = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t parity = 0;
  bool more = consumer < C::consumers && args.segments > 1 && FewSpans(args, blockIdx.x, gridDim.x).any();
  while (__any_sync(0xffffffffu, more)) {
    if (more && barrier_test(&shared.stored[consumer], parity)) {
      parity ^= 1;
      const std::int32_t tile = shared.stored_tile[consumer];
      more = tile != no_tile;
      if (more) {
        shared.whole[consumer] = count_segment(args, tile);
        barrier_arrive(&shared.told[consumer]);
      }
    }
    __syncwarp();
  }
}

template <class C>
struct FewConsumer {
  const MatmulTilesArgs& args;
  FewShared<C>& shared;
  int consumer;
  int warp;
  int lane;
  Ring<C::rings.slots> slot;
  std::uint32_t runs = 0;
  float sums[C::subtiles][C::sums];
  LaneWeights<C::format> weights[C::subtiles];
  std::uint32_t operands[2][C::subtiles][2][2][4];  ///< [box % 2][subtile][block of the box][step]
  std::int32_t pending = no_tile;                   ///< a tile whose sums are stored; those of other segments may be missing
  std::uint32_t tells = 0;
  bool fresh = true;  ///< the span is new: its activations may not have arrived yet

  /// The 64 columns of half `half` of a group, whose activations are box `box`: issued, not awaited.
  template <int half>
  __device__ void multiply_box(int box) {
#pragma unroll
    for (int m = 0; m < C::subtiles; ++m) {
      weights[m].template dequantize<2 * half>(operands[half][m][0]);
      weights[m].template dequantize<2 * half + 1>(operands[half][m][1]);
    }
    if (fresh) {
      barrier_wait(&shared.x_full[box], runs & 1);
    }
    const std::uint64_t x = operand(shared.x[box]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int m = 0; m < C::subtiles; ++m) {
        multiply_registers(sums[m], operands[half][m][step / 2][step % 2], advance(x, step * 32));
      }
    }
    wgmma_commit();
    wgmma_wait<1>();  // all but this one: the other operands are free
  }

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < C::subtiles; ++m) {
#pragma unroll
      for (int i = 0; i < C::sums; ++i) {
        sums[m][i] = 0.0f;
      }
    }
  }

  __device__ void multiply(const FewSpan& span) {
    clear();
    int box = 0;
#pragma unroll 1
    for (int record = span.first_record; record < span.end_record; ++record) {
      barrier_wait(&shared.weights_full[consumer][slot.slot], slot.parity);
      const std::uint32_t pieces =
          shared_address(shared.weights[consumer][slot.slot]) + static_cast<std::uint32_t>(warp * C::layout.record_bytes);
#pragma unroll 1
      for (int group = 0; group < C::groups; ++group) {
#pragma unroll
        for (int m = 0; m < C::subtiles; ++m) {
          weights[m].load(pieces + m * 4 * C::layout.record_bytes, group, lane);
        }
        if (group == C::groups - 1) {
          __syncwarp();
          if (lane == 0) {
            barrier_arrive(&shared.weights_free[consumer][slot.slot]);
          }
          slot.advance();
        }
        multiply_box<0>(box);
        multiply_box<1>(box + 1);
        box += weight_group_elems / tiles_box_columns;
      }
    }
    wgmma_wait<0>();
#pragma unroll
    for (int m = 0; m < C::subtiles; ++m) {
      keep(sums[m]);
    }
  }

  // Sums of a tile in memory are [segment][subtile][4 sums][thread][4].
  static constexpr int quads = C::sums / 4;
  static constexpr int tile_quads = C::subtiles * quads * warpgroup_size;
  [[nodiscard]] __device__ float4* partials(std::int32_t tile, int segment) const {
    return reinterpret_cast<float4*>(args.partials) + (std::int64_t{tile} * args.segments + segment) * tile_quads +
           warp * 32 + lane;
  }

  __device__ void store_partials(std::int32_t tile, int segment) {
    float4* to = partials(tile, segment);
#pragma unroll
    for (int m = 0; m < C::subtiles; ++m) {
#pragma unroll
      for (int i = 0; i < quads; ++i) {
        __stcg(to + (m * quads + i) * warpgroup_size,
               float4{sums[m][4 * i], sums[m][4 * i + 1], sums[m][4 * i + 2], sums[m][4 * i + 3]});
      }
    }
  }

  /// Asks the counting warp to count `next`, whose sums are stored (no_tile: none is left). Returns the previous tile if it
  /// is complete.
  [[nodiscard]] __device__ std::int32_t pass_on(std::int32_t next) {
    std::int32_t whole = no_tile;
    if (pending != no_tile) {
      barrier_wait(&shared.told[consumer], tells & 1);
      ++tells;
      whole = shared.whole[consumer] ? pending : no_tile;
    }
    if (warp == 0 && lane == 0) {
      shared.stored_tile[consumer] = next;
    }
    __syncwarp();
    if (lane == 0) {
      barrier_arrive(&shared.stored[consumer]);
    }
    pending = next;
    return whole;
  }

  /// Counts the consumer's last tile itself, since no multiplication is left to overlap. Returns the tile if it is complete.
  [[nodiscard]] __device__ std::int32_t count_last(std::int32_t tile) {
    named_barrier_sync(1 + consumer, warpgroup_size);
    if (warp == 0 && lane == 0) {
      shared.last_whole[consumer] = count_segment(args, tile);
    }
    named_barrier_sync(1 + consumer, warpgroup_size);
    return shared.last_whole[consumer] ? tile : no_tile;
  }

  __device__ void add_segments(std::int32_t tile) {
    clear();
#pragma unroll 4
    for (int segment = 0; segment < args.segments; ++segment) {
      const float4* from = partials(tile, segment);
#pragma unroll
      for (int m = 0; m < C::subtiles; ++m) {
#pragma unroll
        for (int i = 0; i < quads; ++i) {
          const float4 more = __ldcg(from + (m * quads + i) * warpgroup_size);
          sums[m][4 * i] += more.x;
          sums[m][4 * i + 1] += more.y;
          sums[m][4 * i + 2] += more.z;
          sums[m][4 * i + 3] += more.w;
        }
      }
    }
  }

  __device__ void store(std::int32_t tile) {
    const FewRows rows = few_rows(args, tile % args.row_tiles);
    const int row = rows.row + warp * 16 + lane / 4;
    const int token = tile / args.row_tiles * C::tokens + lane % 4 * 2;
    if constexpr (C::subtiles == 2) {
      store_gated(args, row, token, sums);
    } else {
      store_sums(args, args.parts[rows.part], row, token, sums);
    }
  }

  __device__ void run() {
    for_each_span(args, [&](const FewSpan& span) {
      // Once more at the end, for the tile that is pending.
      const int end = span.last ? span.end + C::consumers : span.end;
      for (int row_tile = span.begin + consumer; row_tile < end; row_tile += C::consumers) {
        const bool more = row_tile < span.end;
        const std::int32_t tile = more ? span.token_tile * args.row_tiles + row_tile : no_tile;
        if (more) {
          multiply(span);
          fresh = false;
        }
        std::int32_t whole = tile;
        if (args.segments > 1) {
          if (more) {
            store_partials(tile, span.segment);
          }
          whole = more && span.last && row_tile + C::consumers >= span.end ? count_last(tile) : pass_on(tile);
        }
        if (whole != no_tile) {
          if (args.segments > 1) {
            add_segments(whole);
          }
          store(whole);
        }
      }
      // This warp reads no more of the segment's activations. It has seen all of them arrive if it took a tile; else it
      // waits here, so that phases are never more than one apart.
      if (lane < C::rings.boxes) {
        barrier_wait(&shared.x_full[lane], runs & 1);
      }
      __syncwarp();
      if (lane == 0) {
        barrier_arrive(&shared.x_free);
      }
      ++runs;
      fresh = true;
    });
  }
};

template <class C>
__device__ void multiply_few(const MatmulTilesArgs& args) {
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<FewShared<C>*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  static_assert(C::rings.slots >= 2, "shared memory is too small for two records of each consumer");
  static_assert(sizeof(FewShared<C>) + 1024 <= C::rings.bytes);
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::rings.boxes; ++i) {
      barrier_init(&shared.x_full[i], TilesShape::full_arrivals);
    }
    barrier_init(&shared.x_free, C::shape.free_arrivals());
    for (int consumer = 0; consumer < C::consumers; ++consumer) {
      for (int i = 0; i < C::rings.slots; ++i) {
        barrier_init(&shared.weights_full[consumer][i], TilesShape::full_arrivals);
        barrier_init(&shared.weights_free[consumer][i], TilesShape::own_free_arrivals);
      }
      barrier_init(&shared.stored[consumer], TilesShape::stored_arrivals);
      barrier_init(&shared.told[consumer], TilesShape::told_arrivals);
    }
    barrier_init_fence();
  }
  __syncthreads();
  gpu::release_successor();
  const int group = static_cast<int>(threadIdx.x) / warpgroup_size;
  const int warp = static_cast<int>(threadIdx.x) % warpgroup_size / 32;
  if (group == C::consumers) {
    give_up_registers<tiles_producer_registers(C::consumers)>();
    if (warp < C::consumers) {
      produce_few<C>(args, shared, warp);
    }
    gpu::wait_for_predecessor();
    if (warp == 3) {
      static_assert(C::consumers <= 3, "the fourth warp counts");
      count_segments<C>(args, shared);
    }
  } else {
    take_registers<tiles_consumer_registers(C::consumers)>();
    gpu::wait_for_predecessor();
    FewConsumer<C> consumer{args, shared, group, warp, static_cast<int>(threadIdx.x) % 32};
    consumer.run();
  }
}

}  // namespace rocmforge::hopper
