#pragma once

// Prefill attention: the tiles of query rows that work-groups take, and a work-group's shared memory.

#include "kernels/attention/hopper/attention_args.h"
#include "kernels/attention/hopper/attention_prefill_pipeline.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/registers.h"

namespace rocmforge::hopper::prefill {

inline constexpr int loading = 15;  ///< id of the loaders' named barrier
inline constexpr float infinity = __builtin_huge_valf();
static_assert(q_loaders == warpgroup_size - 32);

/// The numbers of a variant that the kernel is compiled for, with the type of K and V.
template <class T_, const Variant& variant_>
struct Config {
  using T = T_;
  static constexpr Variant variant = variant_;
  static constexpr int padded = variant.padded;
  static constexpr int keys = variant.keys;
  static constexpr int consumers = variant.consumers;
  static constexpr int q_stages = variant.q_stages;
  static constexpr int work_slots = variant.work_slots();
  static constexpr int q_parts = variant.q_parts();
  static constexpr int rows = variant.rows();
  static constexpr int values = padded * q_parts / consumers;  ///< columns of V of a consumer
  static constexpr int threads = (consumers + 1) * warpgroup_size;
  static constexpr int producer_registers = consumers == 2 ? 40 : 32;
  static constexpr int consumer_registers = consumers == 2 ? 232 : 160;
  static constexpr int columns = padded / 64;      ///< of 64 elements, 128 bytes
  static constexpr int column_bytes = keys * 128;  ///< of K or V in a stage
  static constexpr int tile_bytes = columns * column_bytes;
  static constexpr int q_column_bytes = rows_per_consumer * 128;
  static constexpr int q_bytes = columns * q_column_bytes;  ///< of 64 rows
};

/// A condition that is the same for all lanes, marked as uniform: in paths that the compiler takes for divergent, it
/// serialises wgmma.
__device__ inline bool holds(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }

struct Work : WorkNumbers {
  __device__ void set_range(const AttentionPrefillArgs& args, int rows, int keys) {
    const int q_end = min(q_len, q_begin + rows);
    const int diagonal = kv_len - q_len;  // row i sees key i + diagonal
    tile_end = (visible_end(args, q_end - 1) + keys - 1) / keys;
    tile_begin = args.window > 0 ? max(0, diagonal + q_begin - args.window + 1) / keys : 0;
    tile_end = max(tile_end, tile_begin);
    seen_begin = args.window > 0 ? (max(0, diagonal + q_begin + rows - args.window) + keys - 1) / keys : 0;
    seen_end = visible_end(args, q_begin) / keys;
  }
  /// Keys [0, end) may be visible to a row.
  __device__ int visible_end(const AttentionPrefillArgs& args, int row) const {
    const int ahead = args.causal != 0 ? 1 : args.window;  // 0: all keys
    return ahead > 0 ? max(0, min(kv_len, kv_len - q_len + row + ahead)) : kv_len;
  }
};

template <class C>
struct Shared {
  alignas(1024) char q[C::q_stages][C::q_parts][C::q_bytes];
  alignas(1024) char k[stages][C::tile_bytes];
  alignas(1024) char v[stages][C::tile_bytes];
  Work works[C::work_slots];  ///< of the tiles of q, in a ring
  std::uint64_t work_full[C::work_slots];
  std::uint64_t q_full[C::q_stages];
  std::uint64_t q_free[C::q_stages];
  std::uint64_t k_full[stages];
  std::uint64_t k_free[stages];
  std::uint64_t v_full[stages];
  std::uint64_t v_free[stages];
};

/// At an address that is known at compile time: a work-group's dynamic shared memory begins at a multiple of 1,024 bytes.
template <class C>
__device__ inline Shared<C>& shared_memory() {
  static_assert(sizeof(Shared<C>) == shared_bytes(C::variant));
  extern __shared__ __align__(1024) char memory[];
  return *reinterpret_cast<Shared<C>*>(memory);
}

/// Heads come in sections whose keys and values fit into the L2 cache together; in a section the tiles with the most keys
/// come first, and the heads of a group are neighbours.
__device__ inline bool find_work(const AttentionPrefillArgs& args, int index, int rows, int keys, Work& work) {
  const int section = index / (args.section_heads * args.max_q_tiles);
  const int first_head = section * args.section_heads;
  const int heads = min(args.section_heads, args.q_heads * args.num_sequences - first_head);
  const int rest = index - first_head * args.max_q_tiles;
  const int tile = args.max_q_tiles - 1 - rest / heads;
  const int head = first_head + rest % heads;
  work.sequence = head / args.q_heads;
  work.head = head % args.q_heads;
  work.first_row = args.query_offsets[work.sequence];
  work.q_len = args.query_offsets[work.sequence + 1] - work.first_row;
  work.kv_len = args.kv_lengths[work.sequence];
  work.q_begin = tile * rows;
  if (work.q_begin >= work.q_len || (args.rows != 0 && (args.rows == 1) != (work.q_len == 1))) {
    return false;
  }
  work.set_range(args, rows, keys);
  return true;
}

__device__ inline void store_pair(const AttentionPrefillArgs& args, std::int64_t at, float first, float second) {
  if (args.io == IoType::f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(args.out) + at) = float2{first, second};
  } else {
    const std::uint32_t packed =
        args.io == IoType::f16 ? pack_pair<half>(first, second) : pack_pair<bfloat16>(first, second);
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(args.out) + at) = packed;
  }
}

}  // namespace rocmforge::hopper::prefill
