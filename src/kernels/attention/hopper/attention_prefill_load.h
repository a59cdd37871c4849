#pragma once

// Prefill attention: the first warpgroup. One thread copies tiles of K and V, the other warps take tiles of q and load them.

#include "kernels/attention/hopper/attention_prefill_work.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/hopper/wgmma.h"

namespace rocmforge::hopper::prefill {

template <class C>
__device__ inline void copy_tile(const AttentionPrefillArgs& args, const TensorMap& map, const Work& work, int tile,
                                 bool value, char* to, std::uint64_t* full) {
  const int kv_head = work.head / (args.q_heads / args.kv_heads);
  const int first_key = tile * C::keys;
  if (args.block_tables == nullptr) {
    barrier_expect(full, C::tile_bytes);
    for (int column = 0; column < C::columns; ++column) {
      copy_box(to + column * C::column_bytes, &map, full, column * 64, kv_head, first_key, work.sequence);
    }
    return;
  }
  const int count = min(C::keys, work.kv_len - first_key);
  const int boxes = (count + args.box_tokens - 1) / args.box_tokens;
  barrier_expect(full, boxes * args.box_tokens * 128 * C::columns);
  const std::int32_t* table = args.block_tables + std::int64_t{work.sequence} * args.max_blocks;
#pragma unroll 1
  for (int box = 0; box < boxes; ++box) {
    const int key = first_key + box * args.box_tokens;
    const int block = table[key >> args.block_shift];
    const int inside = key & ((1 << args.block_shift) - 1);
    for (int column = 0; column < C::columns; ++column) {
      copy_box(to + column * C::column_bytes + box * args.box_tokens * 128, &map, full, column * 64, inside,
               kv_head + (value ? args.kv_heads : 0), block);
    }
  }
}

template <class C>
__device__ inline void produce(const AttentionPrefillArgs& args, Shared<C>& shared) {
  int tiles = 0;  // copied so far
  const auto copy_k = [&](const Work& work, int tile, int index) {
    const int stage = stage_of<stages>(index);
    barrier_wait(&shared.k_free[stage], parity_of<stages>(index) ^ 1);
    copy_tile<C>(args, args.k, work, tile, false, shared.k[stage], &shared.k_full[stage]);
  };
  const auto copy_v = [&](const Work& work, int tile, int index) {
    const int stage = stage_of<stages>(index);
    barrier_wait(&shared.v_free[stage], parity_of<stages>(index) ^ 1);
    copy_tile<C>(args, args.v, work, tile, true, shared.v[stage], &shared.v_full[stage]);
  };
  for (int works = 0;; ++works) {
    barrier_wait(&shared.work_full[stage_of<C::work_slots>(works)], parity_of<C::work_slots>(works));
    const Work work = shared.works[stage_of<C::work_slots>(works)];
    if (work.tile_end < 0) {
      return;
    }
    for (int tile = work.tile_begin; tile < work.tile_end; ++tile, ++tiles) {
      copy_k(work, tile, tiles);
      if (tile > work.tile_begin) {
        copy_v(work, tile - 1, tiles - 1);
      }
    }
    if (work.tile_end > work.tile_begin) {
      copy_v(work, work.tile_end - 1, tiles - 1);
    }
  }
}

template <class T>
struct Vector8 {
  std::uint32_t words[4]{};
};

/// 8 elements of q as T.
template <class T>
__device__ inline Vector8<T> load_q(const void* q, IoType io, bool aligned, std::int64_t at) {
  Vector8<T> result;
  if (!aligned) {
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      std::uint32_t bits = 0;
      if (io == IoType::f32) {
        bits = pack_pair<T>(static_cast<const float*>(q)[at + i], 0.0f);
      } else {
        bits = static_cast<const std::uint16_t*>(q)[at + i];
      }
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        result.words[word] = i == 2 * word ? bits : i == 2 * word + 1 ? result.words[word] | bits << 16 : result.words[word];
      }
    }
  } else if (io == IoType::f32) {
    const float4* from = reinterpret_cast<const float4*>(static_cast<const float*>(q) + at);
    const float4 low = from[0];
    const float4 high = from[1];
    result.words[0] = pack_pair<T>(low.x, low.y);
    result.words[1] = pack_pair<T>(low.z, low.w);
    result.words[2] = pack_pair<T>(high.x, high.y);
    result.words[3] = pack_pair<T>(high.z, high.w);
  } else {
    const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(q) + at);
    result.words[0] = words.x;
    result.words[1] = words.y;
    result.words[2] = words.z;
    result.words[3] = words.w;
  }
  return result;
}

/// A tile of q into shared memory, in the swizzled columns that wgmma reads; zeros beyond the sequence and beyond head_dim.
/// A thread stays in one column of 8 elements.
template <class C>
__device__ inline void store_q(const AttentionPrefillArgs& args, const Work& work, int thread, std::uint32_t q) {
  constexpr int chunks = C::padded / 8;
  constexpr int step = q_loaders / chunks;  // rows of one pass
  if (thread >= step * chunks) {
    return;
  }
  int chunk = thread % chunks;
  forget(chunk);  // computed again for each tile, which frees its register
  const int rows = chunk * 8 < args.head_dim ? min(C::rows, work.q_len - work.q_begin) : 0;
  std::int64_t at = (std::int64_t{work.first_row} + work.q_begin + thread / chunks) * args.q_stride +
                    std::int64_t{work.head} * args.head_dim + chunk * 8;
  q += chunk / 8 * C::q_column_bytes;
#pragma unroll 1
  for (int row = thread / chunks; row < C::rows; row += step) {
    Vector8<typename C::T> value{};
    if (row < rows) {
      value = load_q<typename C::T>(args.q, args.io, args.q_aligned != 0, at);
    }
    store_shared(q + row / rows_per_consumer * C::q_bytes + row % rows_per_consumer * 128 + ((chunk % 8) ^ (row % 8)) * 16,
                 value.words);
    at += step * args.q_stride;
  }
}

/// The same by the bulk copy engine, where q is stored as T. Rows behind the sequence are those of the next one.
template <class C>
__device__ inline void copy_q(const AttentionPrefillArgs& args, const Work& work, char* to, std::uint64_t* full) {
  barrier_expect(full, C::q_parts * C::q_bytes);
  for (int part = 0; part < C::q_parts; ++part) {
    for (int column = 0; column < C::columns; ++column) {
      copy_box(to + part * C::q_bytes + column * C::q_column_bytes, &args.q_map, full, column * 64, work.head,
               work.first_row + work.q_begin + part * rows_per_consumer, 0);
    }
  }
}

/// For a tile of q that sees no key.
__device__ inline void store_zeros(const AttentionPrefillArgs& args, const Work& work, int rows, int thread) {
  const int count = min(rows, work.q_len - work.q_begin) * args.head_dim / 2;
#pragma unroll 1
  for (int i = thread; i < count; i += q_loaders) {
    const std::int64_t row = work.first_row + work.q_begin + i * 2 / args.head_dim;
    store_pair(args, (row * args.q_heads + work.head) * args.head_dim + i * 2 % args.head_dim, 0.0f, 0.0f);
  }
}

/// The next tile of q that no work-group has taken; false when all are taken.
template <class C>
__device__ inline bool take_work(const AttentionPrefillArgs& args, int total, Work& work) {
  work.tile_begin = 0;
  work.tile_end = -1;
  for (;;) {
    const int index = static_cast<int>(atomicAdd(args.taken, 1u));
    if (index >= total) {
      return false;
    }
    if (find_work(args, index, C::rows, C::keys, work)) {
      return true;
    }
  }
}

/// The last work-group sets the counters back to zero.
__device__ inline void leave(const AttentionPrefillArgs& args) {
  if (atomicAdd(args.taken + 1, 1u) == gridDim.x - 1) {
    args.taken[0] = 0;
    args.taken[1] = 0;
  }
}

template <class C>
__device__ inline void produce_q(const AttentionPrefillArgs& args, Shared<C>& shared, int total, int thread) {
#pragma unroll 1
  for (int works = 0;; ++works) {
    const int stage = stage_of<C::q_stages>(works);
    const int slot = stage_of<C::work_slots>(works);
    const Work& work = shared.works[slot];
    for (;;) {
      if (thread == 0) {
        take_work<C>(args, total, shared.works[slot]);
      }
      named_barrier<loading, q_loaders>();
      if (work.tile_begin != work.tile_end) {
        break;
      }
      store_zeros(args, work, C::rows, thread);
      named_barrier<loading, q_loaders>();
    }
    if (thread == 0) {
      barrier_arrive(&shared.work_full[slot]);
    }
    barrier_wait(&shared.q_free[stage], parity_of<C::q_stages>(works) ^ 1);
    const bool last = work.tile_end < 0;
    if (!last && args.q_bulk == 0) {
      store_q<C>(args, work, thread, shared_address(shared.q[stage]));
      async_proxy_fence();
    }
    if (!last && args.q_bulk != 0 && thread == 0) {
      copy_q<C>(args, work, shared.q[stage][0], &shared.q_full[stage]);
    } else {
      barrier_arrive(&shared.q_full[stage]);
    }
    if (last) {
      if (thread == 0) {
        leave(args);
      }
      return;
    }
  }
}

}  // namespace rocmforge::hopper::prefill
