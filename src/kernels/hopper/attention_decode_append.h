#pragma once

// RopeAppend at the beginning of a decode call, see AttentionBackend::takes. A work-group turns the query heads of its
// entries itself. Who has the last tile of a head appends its row of K and V first, then tells its own warp that copies:
// nobody else reads that row. Two work-groups that have the last tile of the same KV head write the same.

#include "kernels/gpu/turn_heads.h"
#include "kernels/hopper/attention_decode_copy.h"
#include "kernels/hopper/tile.h"

namespace rocmforge::hopper {

/// By the threads that multiply. Angles lie where sums of warps are shared later.
template <class C>
struct DecodeAppend {
  using T = typename C::T;
  const gpu::RopeAppendArgs& args;
  Shared<C>& shared;
  int thread;
  int turned = -1;  ///< the row whose angles are there

  [[nodiscard]] __device__ bool active() const { return args.q != nullptr; }
  /// The sums of a piece have taken their place.
  __device__ void forget_turns() { turned = -1; }

  /// K and V of all entries of `walk` that end with a sequence's last key. Waits for the predecessor.
  __device__ void append_keys(DecodeWalk walk) {
    if (args.kv_heads > 0) {
      bool first = true;
      for (; walk.valid(); walk.advance()) {
        if (walk.split + 1 < walk.keys.pieces || walk.keys.tiles == 0) {
          continue;
        }
        const int row = walk.args.query_offsets[walk.sequence];
        find_turns(row);  // of the first while the predecessor still runs
        if (first) {
          gpu::wait_for_predecessor();
          first = false;
        }
        for (int part = thread / 32; part < 2; part += C::consumers) {  // K, V
          append_head(row, walk.sequence, walk.kv_head + part * args.kv_heads);
        }
      }
    }
    gpu::wait_for_predecessor();
    if (args.kv_heads > 0) {
      __threadfence();
      async_fence_of_memory();
      __syncwarp();
      if (thread % 32 == 0) {
        barrier_arrive(&shared.appended);
      }
    }
  }

  /// Calls put(head, dim, value) for each element of query heads [first_head, first_head + heads) of a row.
  template <class Put>
  __device__ void turn_queries(int row, int first_head, int heads, const Put& put) {
    find_turns(row);
    const gpu::TurnRules rules = gpu::turn_rules(args);
    const float factor = gpu::query_factor(args, args.positions[row]);
    for (int head = thread / 32; head < heads; head += C::consumers) {
      gpu::turn_head(rules, gpu::head_at(args, row, first_head + head), turns(),
                     [&](int dim, float value) { put(head, dim, value * factor); });
    }
  }

 private:
  [[nodiscard]] __device__ gpu::Turn* turns() const { return reinterpret_cast<gpu::Turn*>(&shared.sums[0][0][0]); }

  /// All threads that multiply come here together.
  __device__ void find_turns(int row) {
    static_assert(sizeof(shared.sums) >= C::padded / 2 * sizeof(gpu::Turn));
    if (turned == row) {
      return;
    }
    turned = row;
    named_barrier<1, C::consumer_threads>();  // the angles before may still be read
    const auto position = static_cast<float>(args.positions[row]);
    for (int p = thread; p < args.pairs; p += C::consumer_threads) {
      turns()[p] = gpu::turn_of(position, args.inverse_frequency[p], args.magnitude);
    }
    named_barrier<1, C::consumer_threads>();
  }

  /// Head `kv` of a page: K's, then V's.
  __device__ void append_head(int row, int sequence, int kv) const {
    const int position = args.positions[row];
    const int slot = position & ((1 << args.block_shift) - 1);
    const std::int64_t entry = std::int64_t{sequence} * args.max_blocks + (position >> args.block_shift);
    std::uint16_t* to = static_cast<std::uint16_t*>(args.cache) + args.block_tables[entry] * args.block_elems +
                        kv * args.head_elems + std::int64_t{slot} * args.head_dim;
    gpu::turn_head(gpu::turn_rules(args), gpu::head_at(args, row, args.q_heads + kv), turns(),
                   [&](int dim, float value) { to[dim] = static_cast<std::uint16_t>(pack<T>(value, 0.0f)); });
  }

  /// Ordinary writes to memory come before bulk copies from there.
  __device__ static void async_fence_of_memory() { asm volatile("fence.proxy.async;" ::: "memory"); }
};

}  // namespace rocmforge::hopper
