// Fused attention for Hopper. A work-group stays on its multiprocessor and takes tiles of query rows one after another. Its
// first warpgroup loads: one thread copies tiles of K and V with the bulk copy engine, the other warps convert the next tile
// of q. Two or three consumer warpgroups have 64 query rows each, at head_dim 512 the same rows: while one computes weights
// from scores, another one's products run.

#include "base/math.h"
#include "kernels/hopper/attention_args.h"
#include "kernels/hopper/tile.h"

namespace rocmforge::hopper {
namespace {

constexpr int rows_per_consumer = 64;
constexpr int stages = 2;
constexpr int q_loaders = warpgroup_size - 32;
constexpr int work_slots = 4;  ///< tiles of q: two loaded ahead, the current one, and the one to be stored
constexpr int loading = 15;    ///< id of the loaders' named barrier
constexpr float infinity = __builtin_huge_valf();

/// `padded` is head_dim rounded up to whole 64-element columns; a tile holds `keys` keys. Each consumer has rows of its own, or
/// they share the rows: then each computes all of their weights, and its part of the columns of V.
template <class T_, int padded_, int keys_, int consumers_, int q_stages_, bool turns_, bool shared_rows_ = false>
struct Config {
  using T = T_;
  static constexpr int padded = padded_;
  static constexpr int keys = keys_;
  static constexpr int consumers = consumers_;
  static constexpr int q_stages = q_stages_;
  static constexpr bool turns = turns_;  ///< consumers multiply one after another
  static constexpr int q_parts = shared_rows_ ? 1 : consumers;
  static constexpr int rows = q_parts * rows_per_consumer;            ///< of a tile of q
  static constexpr int values = padded * q_parts / consumers;        ///< columns of V of a consumer
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

/// The stage of a ring that its `index`-th entry uses, and the parity of the phase that fills it.
template <int count>
__device__ inline int stage_of(int index) {
  return index % count;
}
template <int count>
__device__ inline std::uint32_t parity_of(int index) {
  return static_cast<std::uint32_t>(index / count) & 1;
}

/// One tile of query rows of one head. The last one of a work-group is empty: it ends before it begins.
struct Work {
  int sequence;
  int head;
  int q_begin;  ///< first row, in the sequence
  int q_len;
  int first_row;  ///< of the sequence, in the batch
  int kv_len;
  int tile_begin;  ///< key tiles [begin, end) hold keys that some row sees
  int tile_end;
  int seen_begin;  ///< every row sees every key of the tiles [begin, end)
  int seen_end;

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
    return args.causal != 0 ? max(0, min(kv_len, kv_len - q_len + row + 1)) : kv_len;
  }
};

template <class C>
struct Shared {
  alignas(1024) char q[C::q_stages][C::q_parts][C::q_bytes];
  alignas(1024) char k[stages][C::tile_bytes];
  alignas(1024) char v[stages][C::tile_bytes];
  Work works[work_slots];  ///< of the tiles of q, in a ring
  std::uint64_t work_full[work_slots];
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

template <class C>
__device__ void copy_tile(const AttentionPrefillArgs& args, const TensorMapBytes& map_bytes, const Work& work, int tile,
                          bool value, char* to, std::uint64_t* full) {
  const auto* map = reinterpret_cast<const TensorMap*>(&map_bytes);
  const int kv_head = work.head / (args.q_heads / args.kv_heads);
  const int first_key = tile * C::keys;
  if (args.block_tables == nullptr) {
    barrier_expect(full, C::tile_bytes);
    for (int column = 0; column < C::columns; ++column) {
      copy_box(to + column * C::column_bytes, map, full, column * 64, kv_head, first_key, work.sequence);
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
      copy_box(to + column * C::column_bytes + box * args.box_tokens * 128, map, full, column * 64, inside,
               kv_head + (value ? args.kv_heads : 0), block);
    }
  }
}

template <class C>
__device__ void produce(const AttentionPrefillArgs& args, Shared<C>& shared) {
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
    barrier_wait(&shared.work_full[stage_of<work_slots>(works)], parity_of<work_slots>(works));
    const Work work = shared.works[stage_of<work_slots>(works)];
    barrier_arrive(&shared.q_free[stage_of<C::q_stages>(works)]);
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
        bits = pack<T>(static_cast<const float*>(q)[at + i], 0.0f);
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
    result.words[0] = pack<T>(low.x, low.y);
    result.words[1] = pack<T>(low.z, low.w);
    result.words[2] = pack<T>(high.x, high.y);
    result.words[3] = pack<T>(high.z, high.w);
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
      copy_box(to + part * C::q_bytes + column * C::q_column_bytes, reinterpret_cast<const TensorMap*>(&args.q_map), full,
               column * 64, work.head, work.first_row + work.q_begin + part * rows_per_consumer, 0);
    }
  }
}

__device__ inline void store_pair(const AttentionPrefillArgs& args, std::int64_t at, float first, float second) {
  if (args.io == IoType::f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(args.out) + at) = float2{first, second};
  } else {
    const std::uint32_t packed = args.io == IoType::f16 ? pack<half>(first, second) : pack<bfloat16>(first, second);
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(args.out) + at) = packed;
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
__device__ bool take_work(const AttentionPrefillArgs& args, int total, Work& work) {
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
__device__ void produce_q(const AttentionPrefillArgs& args, Shared<C>& shared, int total, int thread) {
#pragma unroll 1
  for (int works = 0;; ++works) {
    const int stage = stage_of<C::q_stages>(works);
    const int slot = stage_of<work_slots>(works);
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

/// Rows of V beyond the last key become zeros: memory may hold NaN there, and a weight of zero times NaN is NaN.
template <class C>
__device__ void clear_rows(char* v, int first, int thread) {
  for (int i = first * 8 + thread; i < C::keys * 8; i += warpgroup_size) {
    for (int column = 0; column < C::columns; ++column) {
      *reinterpret_cast<uint4*>(v + column * C::column_bytes + i * 16) = uint4{0, 0, 0, 0};
    }
  }
}

template <class C>
struct Consumer {
  using T = typename C::T;
  static constexpr int score_count = C::keys / 2;  ///< scores in a thread
  static constexpr int out_count = C::values / 2;
  static constexpr int first_turn = 1;                              ///< id of the first consumer's named barrier
  static constexpr int first_clearing = first_turn + C::consumers;  ///< likewise

  const AttentionPrefillArgs& args;
  int works = 0;  ///< tiles of q before this one
  int tile;       ///< of keys
  int tiles = 0;  ///< tiles of K before the current one; V is one tile behind after the first scores
  float out[out_count];
  float scores[score_count];
  std::uint32_t weights[C::keys / 16][4];
  float row_max[2];
  float row_sum[2];

  /// scores = q k^T of the tile in the current K stage; issued, not awaited.
  __device__ void multiply_k() {
    std::uint64_t q = operand(shared().q[stage_of<C::q_stages>(works)][q_part()]);
    forget(q);  // else the compiler keeps its 16 advanced copies, in memory where registers are short
    std::uint64_t k = operand(shared().k[stage_of<stages>(tiles)]);
    forget(k);
#pragma unroll
    for (int step = 0; step < C::padded / 16; ++step) {
      const int column = step / 4;
      const int inside = step % 4 * 32;
      Wgmma<T, C::keys>::shared(scores, advance(q, column * C::q_column_bytes + inside),
                                advance(k, column * C::column_bytes + inside), step > 0);
    }
  }
  /// out += weights v of the tile before; issued, not awaited.
  __device__ void multiply_v() {
    std::uint64_t v =
        operand(shared().v[stage_of<stages>(tiles - 1)] + first_value() / 64 * C::column_bytes, 1024, C::column_bytes);
    forget(v);
#pragma unroll
    for (int step = 0; step < C::keys / 16; ++step) {
      Wgmma<T, C::values>::registers(out, weights[step], advance(v, step * 2048));
    }
  }
  __device__ void wait_k() { barrier_wait(&shared().k_full[stage_of<stages>(tiles)], parity_of<stages>(tiles)); }
  /// Waits for the values of tile `before` of `of`.
  __device__ void wait_v(const Work& of, int before) {
    const int stage = stage_of<stages>(tiles - 1);
    barrier_wait(&shared().v_full[stage], parity_of<stages>(tiles - 1));
    const int value_rows = of.kv_len - before * C::keys;
    if (value_rows < C::keys) {  // each consumer clears its own: a barrier of all could deadlock with their turns
      clear_rows<C>(shared().v[stage], value_rows, thread());
      async_proxy_fence();
      named_barrier_sync(first_clearing + consumer(), warpgroup_size);
    }
  }
  __device__ void free_k() {
    if (thread() == 0) {
      barrier_arrive(&shared().k_free[stage_of<stages>(tiles)]);
    }
  }
  __device__ void free_v() {
    if (thread() == 0) {
      barrier_arrive(&shared().v_free[stage_of<stages>(tiles - 1)]);
    }
  }

  static __device__ int consumer() { return static_cast<int>(threadIdx.x) / warpgroup_size - 1; }
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % warpgroup_size; }
  static __device__ int q_part() { return C::q_parts == 1 ? 0 : consumer(); }
  static __device__ int first_value() { return C::q_parts == C::consumers ? 0 : consumer() * C::values; }
  static __device__ Shared<C>& shared() { return shared_memory<C>(); }
  // In shared memory: registers are for the sums.
  __device__ const Work& work() const { return shared().works[stage_of<work_slots>(works)]; }
  __device__ const Work& done() const { return shared().works[stage_of<work_slots>(works - 1)]; }

  __device__ int row(int half) const {
    return work().q_begin + q_part() * rows_per_consumer + thread() / 32 * 16 + thread() % 32 / 4 + 8 * half;
  }

  /// Options that few models use: soft-cap and additive mask. Leaves scores in units of log2.
  __device__ void transform() {
#pragma unroll
    for (int i = 0; i < score_count; ++i) {
      float score = scores[i] * args.scale;
      if (args.soft_cap > 0.0f) {
        score = args.soft_cap * tanhf(score / args.soft_cap);
      }
      if (args.mask != nullptr) {
        const int q_row = row(i / 2 % 2);
        const int key = tile * C::keys + i / 4 * 8 + thread() % 4 * 2 + i % 2;
        score += q_row < work().q_len && key < work().kv_len
                     ? args.mask[(std::int64_t{work().first_row} + q_row) * args.mask_stride + key]
                     : -infinity;
      }
      scores[i] = score * log2_e;
    }
  }

  __device__ void hide() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q_row = row(half);
      const int end = work().visible_end(args, q_row);
      const int begin = args.window > 0 ? max(0, work().kv_len - work().q_len + q_row - args.window + 1) : 0;
      const auto span = static_cast<unsigned>(max(0, end - begin));
      const auto first = static_cast<unsigned>(tile * C::keys + thread() % 4 * 2 - begin);  // wraps around before `begin`
#pragma unroll
      for (int i = 0; i < score_count / 4; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (first + static_cast<unsigned>(i * 8 + e) >= span) {
            scores[i * 4 + half * 2 + e] = -infinity;
          }
        }
      }
    }
  }

  /// Turns scores into weights relative to the new maximum; `rescale` is the factor of earlier sums.
  __device__ void soften(float scale, float (&rescale)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = row_max[half];
#pragma unroll
      for (int i = 0; i < score_count / 4; ++i) {
        most = fmaxf(most, fmaxf(scores[i * 4 + half * 2], scores[i * 4 + half * 2 + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
      const float base = most == -infinity ? 0.0f : most * scale;
      // Exactly 1 where the maximum stays: the exponential's rounding would make results depend on hidden tiles.
      rescale[half] = row_max[half] == most ? 1.0f : exp2_fast(row_max[half] * scale - base);
      row_max[half] = most;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < score_count / 4; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[i * 4 + half * 2 + e];
          score = exp2_fast(score * scale - base);
          sum += score;
        }
      }
      row_sum[half] = row_sum[half] * rescale[half] + sum;
    }
  }
  __device__ void pack_weights() {
#pragma unroll
    for (int step = 0; step < C::keys / 16; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int at = step * 8 + word * 2;
        weights[step][word] = pack<T>(scores[at], scores[at + 1]);
      }
    }
  }
  /// Rescales the sums; zeros them for a new tile of q, because multiplying by zero would keep NaN and infinity.
  __device__ void rescale_out(const float (&rescale)[2], bool fresh) {
    if (__any_sync(0xffffffffu, fresh || rescale[0] != 1.0f || rescale[1] != 1.0f) == 0) {
      return;
    }
#pragma unroll
    for (int i = 0; i < out_count; ++i) {
      out[i] = fresh ? 0.0f : out[i] * rescale[i / 2 % 2];
    }
  }

  template <bool special>
  __device__ void weigh(float (&rescale)[2]) {
    if constexpr (special) {
      transform();
    }
    if (tile < work().seen_begin || tile >= work().seen_end) {
      hide();
    }
    soften(special ? 1.0f : args.scale * log2_e, rescale);
  }

  /// All tiles of q of this work-group. The products of one's last values run beside those of the next one's first scores.
  template <bool special>
  __device__ void run() {
    if (!next_work()) {
      return;
    }
#pragma unroll
    for (int i = 0; i < out_count; ++i) {
      out[i] = 0.0f;
    }
    first_tile<special>();
    for (;;) {
      ++tiles;
      ++tile;
      const bool first = holds(tile == work().tile_end);
      if (first) {
        ++works;
        if (!next_work()) {
          break;
        }
      }
      add_tile<special>(first);
    }
    finish();
  }

  /// Goes on to the next tile of q. False when there is none.
  __device__ bool next_work() {
    barrier_wait(&shared().q_full[stage_of<C::q_stages>(works)], parity_of<C::q_stages>(works));
    tile = work().tile_begin;
    return holds(tile < work().tile_end);
  }

  /// A sink is a key that has a score, and zeros as its value.
  template <bool special>
  __device__ void reset_rows() {
    row_max[0] = row_max[1] = -infinity;
    row_sum[0] = row_sum[1] = 0.0f;
    if (args.sinks != nullptr) {
      row_max[0] = row_max[1] = args.sinks[work().head] * (special ? log2_e : 1.0f / args.scale);
      row_sum[0] = row_sum[1] = thread() % 4 == 0 ? 1.0f : 0.0f;
    }
  }

  template <bool special>
  __device__ void first_tile() {
    float rescale[2];
    wait_k();
    wait_turn();
    wgmma_fence();
    multiply_k();
    wgmma_commit();
    pass_turn();
    wgmma_wait<0>();
    keep(scores);
    free_k();
    if (tile + 1 == work().tile_end) {
      free_q();
    }
    reset_rows<special>();
    weigh<special>(rescale);
    pack_weights();
  }
  /// Scores of this tile, and the values of the one before, which may be the last of another tile of q (`first`).
  template <bool special>
  __device__ void add_tile(bool first) {
    float rescale[2];
    float factors[2];
    wait_k();
    wait_turn();
    wgmma_fence();
    multiply_k();
    wgmma_commit();
    wait_v(first ? done() : work(), first ? done().tile_end - 1 : tile - 1);
    wgmma_fence();
    multiply_v();
    wgmma_commit();
    pass_turn();
    wgmma_wait<1>();
    keep(scores);
    free_k();
    if (tile + 1 == work().tile_end) {
      free_q();
    }
    if (first) {
      normalise(factors);
      reset_rows<special>();
    }
    weigh<special>(rescale);
    stay_before(row_sum[0] + row_sum[1], &shared().works);  // computed while the products run, not after the wait
    wgmma_wait<0>();
    keep(out);
    free_v();
    if (first) {
      store(factors);
    }
    rescale_out(rescale, first);
    pack_weights();
  }
  /// The last values of the last tile of q, which no other products overlap.
  __device__ void finish() {
    wait_v(done(), done().tile_end - 1);
    wgmma_fence();
    multiply_v();
    wgmma_commit();
    wgmma_wait<0>();
    keep(out);
    free_v();
    float factors[2];
    normalise(factors);
    store(factors);
  }

  /// Consumers issue their products one after another, so that one's weights are computed beside another's products.
  __device__ void wait_turn() {
    if constexpr (C::turns) {
      named_barrier_sync(first_turn + consumer(), 2 * warpgroup_size);
    }
  }
  __device__ void pass_turn() {
    if constexpr (C::turns) {
      named_barrier_arrive(first_turn + (consumer() + 1) % C::consumers, 2 * warpgroup_size);
    }
  }
  __device__ void free_q() {
    if (thread() == 0) {
      barrier_arrive(&shared().q_free[stage_of<C::q_stages>(works)]);
    }
  }

  /// The factors of the finished tile's sums. A row's weights are spread over four lanes.
  __device__ void normalise(float (&factors)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = row_sum[half];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      factors[half] = sum > 0.0f ? 1.0f / sum : 0.0f;
    }
  }
  /// Stores the sums of the finished tile of q.
  __device__ void store(const float (&factors)[2]) const {
    const int first = done().q_begin + q_part() * rows_per_consumer + thread() / 32 * 16 + thread() % 32 / 4;
    const bool wide = args.io != IoType::f32 && reinterpret_cast<std::uintptr_t>(args.out) % 16 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q_row = first + 8 * half;
      const bool exists = q_row < done().q_len;
      const std::int64_t at = ((std::int64_t{done().first_row} + q_row) * args.q_heads + done().head) * args.head_dim;
      if (wide) {
#pragma unroll
        for (int i = 0; i < out_count / 4; i += 4) {
          store_chunks(half, i, factors[half], exists, at);
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < out_count / 4; ++i) {
        const int column = first_value() + i * 8 + thread() % 4 * 2;
        if (exists && column < args.head_dim) {
          store_pair(args, at + column, out[i * 4 + half * 2] * factors[half], out[i * 4 + half * 2 + 1] * factors[half]);
        }
      }
    }
  }
  /// Stores 16-bit columns 8 i to 8 i + 31 of a row: four lanes, each with two columns of every 8, exchange them so that
  /// each has 8 neighbouring columns.
  __device__ void store_chunks(int half, int i, float factor, bool exists, std::int64_t at) const {
    const int lane = thread() % 4;
    std::uint32_t words[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float low = out[(i + j) * 4 + half * 2] * factor;
      const float high = out[(i + j) * 4 + half * 2 + 1] * factor;
      words[j] = args.io == IoType::f16 ? pack<rocmforge::half>(low, high) : pack<bfloat16>(low, high);
    }
    exchange(words[0], words[1], 1, lane);
    exchange(words[2], words[3], 1, lane);
    exchange(words[0], words[2], 2, lane);
    exchange(words[1], words[3], 2, lane);
    const int column = first_value() + (i + lane) * 8;
    if (exists && column < args.head_dim) {
      *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(args.out) + at + column) =
          uint4{words[0], words[1], words[2], words[3]};
    }
  }
  /// Exchange between lanes `distance` apart: the lower lane's second for the upper lane's first.
  static __device__ void exchange(std::uint32_t& first, std::uint32_t& second, int distance, int lane) {
    const bool upper = (lane & distance) != 0;
    const std::uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? first : second, distance);
    (upper ? first : second) = received;
  }
};

template <class C, bool special>
__device__ void attend(const AttentionPrefillArgs& args) {
  Shared<C>& shared = shared_memory<C>();
  const int total = args.max_q_tiles * args.q_heads * args.num_sequences;
  if (threadIdx.x == 0) {
    if (shared_address(&shared) % 1024 != 0) {
      __trap();
    }
    for (int stage = 0; stage < stages; ++stage) {
      barrier_init(&shared.k_full[stage], 1);
      barrier_init(&shared.v_full[stage], 1);
      barrier_init(&shared.k_free[stage], C::consumers);
      barrier_init(&shared.v_free[stage], C::consumers);
    }
    for (int stage = 0; stage < C::q_stages; ++stage) {
      barrier_init(&shared.q_full[stage], q_loaders);
      barrier_init(&shared.q_free[stage], C::consumers + 1);
    }
    for (int slot = 0; slot < work_slots; ++slot) {
      barrier_init(&shared.work_full[slot], 1);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / warpgroup_size;
  if (group == 0) {
    give_up_registers<C::producer_registers>();
    if (threadIdx.x == 0) {
      produce<C>(args, shared);
    } else if (threadIdx.x >= 32) {
      produce_q<C>(args, shared, total, static_cast<int>(threadIdx.x) - 32);
    }
  } else {
    take_registers<C::consumer_registers>();
    Consumer<C> consumer{args};
    if (group == C::consumers) {
      consumer.pass_turn();  // the first consumer begins
    }
    consumer.template run<special>();
  }
}

template <class T>
using HeadDim64 = Config<T, 64, 128, 3, 2, false>;
template <class T>
using HeadDim128 = Config<T, 128, 128, 2, 2, false>;
template <class T>
using HeadDim256 = Config<T, 256, 80, 2, 1, false>;
template <class T>
using HeadDim512 = Config<T, 512, 32, 2, 1, false, true>;

}  // namespace

#define ROCMFORGE_ATTENTION_PREFILL(name, config, special)         \
  extern "C" __global__ void __launch_bounds__(config::threads, 1) \
      name(const __grid_constant__ AttentionPrefillArgs args) {    \
    attend<config, special>(args);                                 \
  }

ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_64, HeadDim64<half>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_128, HeadDim128<half>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_256, HeadDim256<half>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_512, HeadDim512<half>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_64, HeadDim64<bfloat16>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_128, HeadDim128<bfloat16>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_256, HeadDim256<bfloat16>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_512, HeadDim512<bfloat16>, false)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_64_special, HeadDim64<half>, true)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_128_special, HeadDim128<half>, true)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_f16_256_special, HeadDim256<half>, true)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_64_special, HeadDim64<bfloat16>, true)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_128_special, HeadDim128<bfloat16>, true)
ROCMFORGE_ATTENTION_PREFILL(attention_prefill_bf16_256_special, HeadDim256<bfloat16>, true)

}  // namespace rocmforge::hopper
