#pragma once

// A decode work-group's configuration, its shared memory and the warp that copies tiles of K and V into it.

#include "base/math.h"
#include "kernels/attention/hopper/attention_decode_work.h"
#include "kernels/attention/hopper/attention_quants.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/launch_order.h"

namespace rocmforge::hopper {

inline constexpr int warps_of_tile = DecodeShape::warps_of_tile;
inline constexpr int keys_per_warp = tile_keys / warps_of_tile;
inline constexpr int column_bytes = tile_keys * 128;  ///< of 128 bytes of all keys of a tile
inline constexpr int q_column_bytes = 16 * 128;

/// `padded` is head_dim rounded up to 64-element columns; a work-group computes up to `heads` query heads of a KV head.
/// Groups of four warps take tiles in turns. Products are of T, which K and V are stored as, unless they are quants.
template <class T_, bool quants_, int padded_, int heads_, int groups_>
struct Config {
  using T = T_;
  static constexpr bool quants = quants_;
  static constexpr DecodeShape shape{padded_, heads_, groups_, quants_};
  static constexpr int padded = padded_;
  static constexpr int heads = heads_;
  static constexpr int groups = groups_;
  static constexpr int consumers = shape.consumers();
  static constexpr int consumer_threads = shape.consumer_threads();
  static constexpr int threads = shape.threads();
  static constexpr int halves = heads / 8;         ///< rows of an operand that a lane holds
  static constexpr int columns = shape.columns();  ///< of a tile of K or V
  static constexpr int q_columns = padded / 64;
  static constexpr int slot_bytes = shape.slot_bytes();
  static constexpr int scale_bytes = shape.scale_bytes();
  static constexpr int slots = shape.slots();
  static constexpr int row_floats = shape.row_floats();
  static constexpr int quads_of_thread = shape.quads_of_thread();
  static constexpr int producers = shape.producers();
  static constexpr int producer_registers = quants ? 72 : 56;
  static constexpr int consumer_registers = quants ? 216 : 224;
  static constexpr bool q_in_registers = padded <= 128;
};

template <class C>
struct Shared {
  alignas(1024) char slots[C::slots][C::slot_bytes];
  alignas(1024) char q[C::q_columns][q_column_bytes];
  alignas(16) char scales[C::quants ? C::slots * C::scale_bytes : 16];
  float sums[C::consumers][C::heads][C::row_floats];
  float4 total_sums[C::quads_of_thread][C::consumer_threads];
  float2 total_states[C::quads_of_thread][C::consumer_threads];
  float2 states[C::consumers][C::heads];
  float sinks[C::heads];  ///< of the entry's query heads
  std::uint64_t full[C::slots];
  std::uint64_t free[C::slots];
  bool last;
};

// --- copies -----------------------------------------------------------------------------------------------------------

/// One of the warps that copy; they take slots in turns.
template <class C>
struct Producer {
  static_assert(C::slots % C::producers == 0);  // a warp could not tell the fillings of a slot apart if it missed some

  const AttentionDecodeArgs& args;
  Shared<C>& shared;
  int warp;
  int lane;
  std::uint64_t policy;
  Ring<C::slots> ring{};

  __device__ void run(DecodeWalk& walk) {
    for (; walk.valid(); walk.advance()) {
      if (!C::quants && args.block_tables == nullptr) {
        copy_dense(walk);
      } else {
        copy_pages(walk);
      }
    }
    gpu::wait_for_predecessor();
  }

 private:
  [[nodiscard]] __device__ bool takes_slot() const { return ring.slot % C::producers == warp; }
  /// Waits for the slot and tells its barrier how many bytes will arrive.
  __device__ void open(int bytes) {
    barrier_wait(&shared.free[ring.slot], ring.parity ^ 1);
    barrier_expect(&shared.full[ring.slot], bytes);
  }

  __device__ void copy_dense(const DecodeWalk& walk) {
    gpu::wait_for_predecessor();
    for (int tile = walk.tile_begin(); tile < walk.tile_end(); ++tile) {
      for (const TensorMap* map : {&args.k, &args.v}) {
        if (takes_slot() && lane == 0) {
          open(C::slot_bytes);
          for (int column = 0; column < C::columns; ++column) {
            copy_box(shared.slots[ring.slot] + column * column_bytes, map, &shared.full[ring.slot], column * 64,
                     walk.kv_head, tile * tile_keys, walk.sequence, policy);
          }
        }
        ring.advance();
      }
    }
  }

  /// Lanes read 32 entries of the block table at once, one for each box of keys.
  __device__ void copy_pages(const DecodeWalk& walk) {
    const std::int32_t* table = args.block_tables + std::int64_t{walk.sequence} * args.max_blocks;
    const int box_shift = min(args.block_shift, 6);
    const int boxes_of_tile = tile_keys >> box_shift;
    const int last_box = (walk.keys.kv_len - 1) >> box_shift;
    const int tile_begin = walk.tile_begin();
    const int tile_end = walk.tile_end();
    if (tile_begin >= tile_end) {
      return;
    }
    const int tiles_at_once = 32 >> (6 - box_shift);
    int next = block_of(table, min((tile_begin << (6 - box_shift)) + lane, last_box), box_shift);
    for (int base = tile_begin; base < tile_end; base += tiles_at_once) {
      const int blocks = next;
      next = block_of(table, min(((base + tiles_at_once) << (6 - box_shift)) + lane, last_box), box_shift);
      for (int tile = base; tile < min(base + tiles_at_once, tile_end); ++tile) {
        const int boxes = min(boxes_of_tile, last_box + 1 - tile * boxes_of_tile);
        if ((tile + 1) * tile_keys >= walk.keys.kv_len) {  // this step's kernels wrote the last key
          gpu::wait_for_predecessor();
        }
#pragma unroll
        for (int part = 0; part < 2; ++part) {  // K, V
          const int row = walk.kv_head + part * args.kv_heads;
          if (takes_slot()) {
            copy_tile(blocks, (tile - base) * boxes_of_tile, boxes, tile * tile_keys, row, box_shift);
          }
          ring.advance();
        }
      }
    }
  }
  [[nodiscard]] __device__ int block_of(const std::int32_t* table, int box, int box_shift) const {
    return table[box >> (args.block_shift - box_shift)];
  }
  __device__ void copy_tile(int blocks, int first_lane, int boxes, int first_key, int row, int box_shift) {
    const int box_bytes = 128 << box_shift;
    const int box_scale_bytes = C::quants ? (args.head_dim / 16) << box_shift : 0;
    if (lane == 0) {
      open(boxes * (box_bytes * C::columns + box_scale_bytes));
    }
    for (int box = 0; box < boxes; ++box) {
      const int block = __shfl_sync(all_lanes, blocks, first_lane + box);
      const int inside = (first_key + (box << box_shift)) & ((1 << args.block_shift) - 1);
      if (lane == 0) {
        for (int column = 0; column < C::columns; ++column) {
          copy_box(shared.slots[ring.slot] + column * column_bytes + box * box_bytes, &args.k, &shared.full[ring.slot],
                   column * 64, inside, row, block, policy);
        }
        if constexpr (C::quants) {
          const char* from = args.scales + block_of_scales(block) * args.scale_block_stride + row * args.scale_head_stride;
          copy_bytes(shared.scales + ring.slot * C::scale_bytes + box * box_scale_bytes,
                     from + inside * (args.head_dim / 16), box_scale_bytes, &shared.full[ring.slot], policy);
        }
      }
    }
  }
};

}  // namespace rocmforge::hopper
