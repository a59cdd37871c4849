// Attention of one query row a sequence, for Hopper. One work-group stays on each multiprocessor. The work is a list of
// (sequence, KV head, piece of the keys) whose lengths the kernel reads itself; work-groups take neighbouring entries, as
// many as make equal numbers of key tiles. One warp copies tiles of K and V with the bulk copy engine into a ring that
// entries share; four warps multiply 16 keys of each tile with all query heads of the KV head. Pieces of one head are added
// up in their order: inside the work-group where it has them all, else by the last work-group to arrive.

#include "kernels/hopper/attention_decode_args.h"
#include "kernels/hopper/tile.h"

namespace rocmforge::hopper {
namespace {

constexpr int tile_keys = decode_tile_keys;
constexpr int consumers = 4;  ///< warps
constexpr int keys_per_warp = tile_keys / consumers;
constexpr int consumer_threads = consumers * 32;
constexpr int threads = consumer_threads + 32;
constexpr int column_bytes = tile_keys * 128;  ///< of 64 elements of all keys of a tile
constexpr int q_column_bytes = 16 * 128;
constexpr float log2e = 1.4426950408889634f;
constexpr float infinity = __builtin_huge_valf();
constexpr std::uint32_t all_lanes = 0xffffffffu;

/// `padded` is head_dim rounded up to 64-element columns; a work-group computes up to `heads` query heads of a KV head.
template <class T_, int padded_, int heads_>
struct Config {
  using T = T_;
  static constexpr int padded = padded_;
  static constexpr int heads = heads_;
  static constexpr int halves = heads / 8;  ///< rows of an operand that a lane holds
  static constexpr int columns = padded / 64;
  static constexpr int slot_bytes = columns * column_bytes;  ///< a tile of K or V
  static constexpr int row_floats = padded + 8;              ///< padding spreads rows over banks
  static constexpr int quads = heads * padded / 4;           ///< of four neighbouring sums
  static constexpr int quads_of_thread = (quads + consumer_threads - 1) / consumer_threads;
  static constexpr bool q_in_registers = padded <= 128;
  static constexpr int other_bytes =
      columns * q_column_bytes + (consumers * heads * (row_floats + 2)) * 4 + quads_of_thread * consumer_threads * 24 + 1024;
  static constexpr int most_slots = (232448 - 1024 - other_bytes) / slot_bytes;
  static constexpr int slots = most_slots < 16 ? most_slots : 16;
};

/// A maximum in units of log2, a sum of weights relative to it, and four weighted sums.
struct Part {
  float4 sums{0.0f, 0.0f, 0.0f, 0.0f};
  float maximum = -infinity;
  float weight = 0.0f;
};

template <class C>
struct Shared {
  alignas(1024) char slots[C::slots][C::slot_bytes];
  alignas(1024) char q[C::columns][q_column_bytes];
  float sums[consumers][C::heads][C::row_floats];
  float4 total_sums[C::quads_of_thread][consumer_threads];
  float2 total_states[C::quads_of_thread][consumer_threads];
  float2 states[consumers][C::heads];
  std::uint64_t full[C::slots];
  std::uint64_t free[C::slots];
  bool last;
};

/// The next slot of the ring, and the parity of the phase that fills it.
template <class C>
struct Ring {
  int slot = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++slot == C::slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

__device__ inline int sum_of_lanes(int value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value += __shfl_xor_sync(all_lanes, value, mask);
  }
  return value;
}

/// One sequence's share of the list: `heads` times `pieces` entries of `piece` tiles, the last of a head shorter.
struct Keys {
  int kv_len = 0;
  int tile_begin = 0;
  int tiles = 0;
  int piece = 1;
  int pieces = 1;

  __device__ Keys(const AttentionDecodeArgs& args, int length) {
    kv_len = length;
    tile_begin = args.window > 0 ? max(0, kv_len - args.window) / tile_keys : 0;
    tiles = (kv_len + tile_keys - 1) / tile_keys - tile_begin;
    piece = args.split.piece(tiles);
    pieces = args.split.pieces(tiles);
  }
  __device__ int first_key(const AttentionDecodeArgs& args) const {
    return args.window > 0 ? max(0, kv_len - args.window) : 0;
  }
  /// Tiles of one head; a sequence without keys counts as one, for its zeros are written too.
  __device__ int length() const { return max(tiles, 1); }
};

/// Goes through the entries of one work-group; the same in all lanes of a warp.
struct Walk {
  const AttentionDecodeArgs& args;
  int begin = 0;  ///< of the list's tiles
  int end = 0;
  std::int64_t total = 0;
  int sequence = 0;
  int head = 0;  ///< tile of query heads
  int split = 0;
  int head_start = 0;  ///< the list's tiles before this head
  Keys keys;

  __device__ explicit Walk(const AttentionDecodeArgs& arguments) : args(arguments), keys(arguments, 0) {
    const int first_cost = cost_of(static_cast<int>(threadIdx.x) % 32);
    int mine = first_cost;
#pragma unroll 4
    for (int s = 32 + static_cast<int>(threadIdx.x) % 32; s < args.num_sequences; s += 32) {
      mine += cost_of(s);
    }
    total = sum_of_lanes(mine);
    const std::int64_t groups = gridDim.x;
    begin = static_cast<int>((blockIdx.x * total + groups - 1) / groups);
    end = static_cast<int>(((blockIdx.x + 1) * total + groups - 1) / groups);
    if (begin < end) {
      find_first(first_cost);
    } else {
      head_start = end;  // nothing to do
    }
  }
  [[nodiscard]] __device__ bool valid() const { return start() < end; }
  [[nodiscard]] __device__ int tile_begin() const { return keys.tile_begin + split * keys.piece; }
  [[nodiscard]] __device__ int tile_end() const { return keys.tile_begin + min((split + 1) * keys.piece, keys.tiles); }
  [[nodiscard]] __device__ bool first_of_group() const { return split == 0 || start() - keys.piece < begin; }
  [[nodiscard]] __device__ bool last_of_group() const { return split + 1 == keys.pieces || start() + keys.piece >= end; }
  /// The work-group has all pieces of the head.
  [[nodiscard]] __device__ bool whole() const {
    return head_start >= begin && head_start + (keys.pieces - 1) * keys.piece < end;
  }
  /// The work-group that has the head's first piece: no two heads that are shared have the same.
  [[nodiscard]] __device__ int owner() const { return static_cast<int>(head_start * std::int64_t{gridDim.x} / total); }
  [[nodiscard]] __device__ int kv_head() const { return head / args.head_tiles; }

  __device__ void advance() {
    if (++split < keys.pieces) {
      return;
    }
    split = 0;
    head_start += keys.length();
    if (++head < heads() || head_start >= end) {
      return;
    }
    head = 0;
    do {
      ++sequence;
    } while (cost_of(sequence) == 0);
    keys = Keys(args, args.kv_lengths[sequence]);
  }

 private:
  [[nodiscard]] __device__ int start() const { return head_start + split * keys.piece; }
  [[nodiscard]] __device__ int heads() const { return args.kv_heads * args.head_tiles; }
  [[nodiscard]] __device__ int cost_of(int s) const {
    if (s >= args.num_sequences) {
      return 0;
    }
    const int rows = args.query_offsets[s + 1] - args.query_offsets[s];
    const int kv_len = args.kv_lengths[s];
    return rows == 1 ? heads() * Keys(args, kv_len).length() : 0;
  }
  /// The first entry that starts at or after `begin`.
  __device__ void find_first(int cost) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int before = 0;  // tiles of the sequences before those of this round
    for (int base = 0;; base += 32) {
      cost = base == 0 ? cost : cost_of(base + lane);
      int through = cost;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(all_lanes, through, distance);
        through += lane >= distance ? other : 0;
      }
      const std::uint32_t beyond = __ballot_sync(all_lanes, before + through > begin);
      if (beyond != 0) {
        const int found = __ffs(static_cast<int>(beyond)) - 1;
        sequence = base + found;
        before += __shfl_sync(all_lanes, through - cost, found);
        break;
      }
      before += __shfl_sync(all_lanes, through, 31);
    }
    keys = Keys(args, args.kv_lengths[sequence]);
    head = (begin - before) / keys.length();
    head_start = before + head * keys.length();
    split = (begin - head_start + keys.piece - 1) / keys.piece;
    if (split == keys.pieces) {
      --split;
      advance();
    }
  }
};

// --- copies -----------------------------------------------------------------------------------------------------------

template <class C>
struct Producer {
  const AttentionDecodeArgs& args;
  Shared<C>& shared;
  int lane;
  std::uint64_t policy;
  Ring<C> ring{};

  __device__ void run(Walk& walk) {
    for (; walk.valid(); walk.advance()) {
      if (args.block_tables == nullptr) {
        copy_dense(walk);
      } else {
        copy_pages(walk);
      }
    }
  }

 private:
  [[nodiscard]] __device__ static const TensorMap* map_of(const TensorMapBytes& bytes) {
    return reinterpret_cast<const TensorMap*>(&bytes);
  }
  /// Waits for the slot and announces what comes into it.
  __device__ void open(int bytes) {
    barrier_wait(&shared.free[ring.slot], ring.parity ^ 1);
    barrier_expect(&shared.full[ring.slot], bytes);
  }

  __device__ void copy_dense(const Walk& walk) {
    for (int tile = walk.tile_begin(); tile < walk.tile_end(); ++tile) {
      for (const TensorMapBytes* bytes : {&args.k, &args.v}) {
        if (lane == 0) {
          open(C::slot_bytes);
          for (int column = 0; column < C::columns; ++column) {
            copy_box(shared.slots[ring.slot] + column * column_bytes, map_of(*bytes), &shared.full[ring.slot], column * 64,
                     walk.kv_head(), tile * tile_keys, walk.sequence, policy);
          }
        }
        ring.advance();
      }
    }
  }

  /// Lanes read 32 entries of the block table at once, one for each box of keys.
  __device__ void copy_pages(const Walk& walk) {
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
        copy_tile(blocks, (tile - base) * boxes_of_tile, boxes, tile * tile_keys, walk.kv_head(), box_shift);
        copy_tile(blocks, (tile - base) * boxes_of_tile, boxes, tile * tile_keys, walk.kv_head() + args.kv_heads, box_shift);
      }
    }
  }
  [[nodiscard]] __device__ int block_of(const std::int32_t* table, int box, int box_shift) const {
    return table[box >> (args.block_shift - box_shift)];
  }
  __device__ void copy_tile(int blocks, int first_lane, int boxes, int first_key, int row, int box_shift) {
    const int box_bytes = 128 << box_shift;
    if (lane == 0) {
      open(boxes * box_bytes * C::columns);
    }
    for (int box = 0; box < boxes; ++box) {
      const int block = __shfl_sync(all_lanes, blocks, first_lane + box);
      const int inside = (first_key + (box << box_shift)) & ((1 << args.block_shift) - 1);
      if (lane == 0) {
        for (int column = 0; column < C::columns; ++column) {
          copy_box(shared.slots[ring.slot] + column * column_bytes + box * box_bytes, map_of(args.k),
                   &shared.full[ring.slot], column * 64, inside, row, block, policy);
        }
      }
    }
    ring.advance();
  }
};

// --- products ---------------------------------------------------------------------------------------------------------

/// Two neighbouring elements of q as T.
template <class T>
__device__ inline std::uint32_t load_q(const AttentionDecodeArgs& args, std::int64_t at) {
  if (args.io == IoType::f32) {
    const float* from = static_cast<const float*>(args.q) + at;
    if (args.q_aligned != 0) {
      const float2 pair = *reinterpret_cast<const float2*>(from);
      return pack<T>(pair.x, pair.y);
    }
    return pack<T>(from[0], from[1]);
  }
  const std::uint16_t* from = static_cast<const std::uint16_t*>(args.q) + at;
  if (args.q_aligned != 0) {
    return *reinterpret_cast<const std::uint32_t*>(from);
  }
  return from[0] | std::uint32_t{from[1]} << 16;
}

/// To an absolute error of 2^-22 or so, which is what a soft-cap needs.
__device__ inline float hyperbolic_tangent(float x) { return 1.0f - __fdividef(2.0f, 1.0f + exp2_fast(2.0f * log2e * x)); }

/// Adds a part that comes after those already in `to`. Rounds in a fixed way, wherever it is called.
__device__ inline void add_part(Part& to, const Part& part) {
  const float maximum = fmaxf(to.maximum, part.maximum);
  const float base = maximum == -infinity ? 0.0f : maximum;
  const float keep = exp2_fast(to.maximum - base);
  const float take = exp2_fast(part.maximum - base);
  to.maximum = maximum;
  to.weight = __fmaf_rn(to.weight, keep, __fmul_rn(part.weight, take));
  to.sums.x = __fmaf_rn(to.sums.x, keep, __fmul_rn(part.sums.x, take));
  to.sums.y = __fmaf_rn(to.sums.y, keep, __fmul_rn(part.sums.y, take));
  to.sums.z = __fmaf_rn(to.sums.z, keep, __fmul_rn(part.sums.z, take));
  to.sums.w = __fmaf_rn(to.sums.w, keep, __fmul_rn(part.sums.w, take));
}

template <class C>
struct Consumer {
  using T = typename C::T;
  static constexpr int steps = C::padded / 16;  ///< of a dot product
  static constexpr int out_tiles = C::padded / 8;

  const AttentionDecodeArgs& args;
  Shared<C>& shared;
  int thread;  ///< among the consumers
  Ring<C> ring{};
  std::uint32_t q[C::q_in_registers ? steps : 1][4];
  float out[out_tiles][4];
  float maximum[2];  ///< in units of log2
  float weight[2];   ///< this lane's share

  __device__ void run(Walk& walk) {
    for (; walk.valid(); walk.advance()) {
      if (walk.first_of_group()) {
        load_query(walk);
      }
      begin_piece();
      for (int tile = walk.tile_begin(); tile < walk.tile_end(); ++tile) {
        add_tile(walk.keys, tile);
      }
      finish_piece(walk);
    }
  }

 private:
  [[nodiscard]] __device__ int warp() const { return thread / 32; }
  [[nodiscard]] __device__ int lane() const { return thread % 32; }
  [[nodiscard]] __device__ int heads_of(const Walk& walk) const {
    const int group = args.q_heads / args.kv_heads;
    return min(C::heads, group - walk.head % args.head_tiles * C::heads);
  }
  [[nodiscard]] __device__ int first_head(const Walk& walk) const {
    return walk.kv_head() * (args.q_heads / args.kv_heads) + walk.head % args.head_tiles * C::heads;
  }

  /// q of the head to shared memory, laid out as a tile of 16 keys; zeros beyond the heads and beyond head_dim.
  __device__ void load_query(const Walk& walk) {
    const int heads = heads_of(walk);
    const std::int64_t row = args.query_offsets[walk.sequence] * args.q_stride;
#pragma unroll 4
    for (int i = 0; i < (C::heads * C::padded / 2 + consumer_threads - 1) / consumer_threads; ++i) {
      const int pair = i * consumer_threads + thread;
      const int head = pair / (C::padded / 2);
      const int dim = pair % (C::padded / 2) * 2;
      std::uint32_t value = 0;
      if (head < heads && dim < args.head_dim) {
        value = load_q<T>(args, row + std::int64_t{first_head(walk) + head} * args.head_dim + dim);
      }
      *reinterpret_cast<std::uint32_t*>(shared.q[0] + q_at(head, dim / 8) + dim % 8 * 2) = value;
    }
    named_barrier<1, consumer_threads>();
    if constexpr (C::q_in_registers) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        load_query_step(q[step], step);
      }
    }
  }
  [[nodiscard]] __device__ static int q_at(int row, int chunk) {
    return chunk / 8 * q_column_bytes + row * 128 + ((chunk % 8) ^ (row % 8)) * 16;
  }
  __device__ void load_query_step(std::uint32_t (&words)[4], int step) const {
    const int row = C::halves == 2 ? lane() % 16 : lane() % 8;
    const std::uint32_t first = shared_address(shared.q) + static_cast<std::uint32_t>(q_at(row, lane() / 16));
    load_matrices<false>(words, (first ^ static_cast<std::uint32_t>(step % 4 * 32)) + step / 4 * q_column_bytes);
    if constexpr (C::halves == 1) {
      words[1] = words[3] = 0;
    }
  }

  __device__ void begin_piece() {
#pragma unroll
    for (int i = 0; i < out_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out[i][e] = 0.0f;
      }
    }
    maximum[0] = maximum[1] = -infinity;
    weight[0] = weight[1] = 0.0f;
  }

  /// Waits for the next slot; its address in shared memory.
  __device__ std::uint32_t take_slot() {
    barrier_wait(&shared.full[ring.slot], ring.parity);
    return shared_address(shared.slots[ring.slot]);
  }
  __device__ void free_slot() {
    __syncwarp();
    if (lane() == 0) {
      barrier_arrive(&shared.free[ring.slot]);
    }
    ring.advance();
  }
  /// Where 8 elements of a key lie in a slot.
  [[nodiscard]] __device__ static std::uint32_t chunk_at(int key, int chunk) {
    return static_cast<std::uint32_t>(chunk / 8 * column_bytes + key * 128 + ((chunk % 8) ^ (key % 8)) * 16);
  }
  /// The chunk 2 `pairs` after one of the first two.
  [[nodiscard]] __device__ static std::uint32_t pairs_on(std::uint32_t first, int pairs) {
    return (first ^ static_cast<std::uint32_t>(pairs % 4 * 32)) + static_cast<std::uint32_t>(pairs / 4 * column_bytes);
  }

  __device__ void add_tile(const Keys& keys, int tile) {
    float scores[2][4];  // of keys 0 to 7 and 8 to 15
    multiply_k(scores);
    scale_scores(scores);
    const int first = tile * tile_keys + warp() * keys_per_warp;
    const int begin = keys.first_key(args);
    const bool partial = first + keys_per_warp > keys.kv_len || first < begin;
    if (partial) {
      hide(scores, begin - first, keys.kv_len - first);
    }
    std::uint32_t weights[4];
    soften(scores, weights);
    multiply_v(weights, partial, begin - first, keys.kv_len - first);
  }

  __device__ void multiply_k(float (&scores)[2][4]) {
    float sums[2][2][4] = {};  // even and odd steps apart: shorter chains
    const int key = warp() * keys_per_warp + lane() / 16 * 8 + lane() % 8;
    const std::uint32_t first = take_slot() + chunk_at(key, lane() / 8 % 2);
    constexpr int at_once = C::q_in_registers ? steps : 4;  // more would not leave registers for the sums
#pragma unroll at_once
    for (int step = 0; step < steps; ++step) {
      std::uint32_t k[4];
      load_matrices<false>(k, pairs_on(first, step));
      std::uint32_t(&query)[4] = q[C::q_in_registers ? step : 0];
      if constexpr (!C::q_in_registers) {
        load_query_step(query, step);
      }
      multiply<T>(sums[step % 2][0], query, k[0], k[1]);
      multiply<T>(sums[step % 2][1], query, k[2], k[3]);
    }
    free_slot();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      scores[i / 4][i % 4] = sums[0][i / 4][i % 4] + sums[1][i / 4][i % 4];
    }
  }
  /// To units of log2.
  __device__ void scale_scores(float (&scores)[2][4]) const {
    if (args.soft_cap > 0.0f) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = scores[i / 4][i % 4];
        score = args.soft_cap * log2e * hyperbolic_tangent(score * args.scale / args.soft_cap);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        scores[i / 4][i % 4] *= args.scale * log2e;
      }
    }
  }
  /// Keys of the warp before `begin` and from `end` on do not count.
  __device__ void hide(float (&scores)[2][4], int begin, int end) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int key = i / 4 * 8 + lane() % 4 * 2 + i % 2;
      scores[i / 4][i % 4] = key >= begin && key < end ? scores[i / 4][i % 4] : -infinity;
    }
  }

  __device__ void soften(const float (&scores)[2][4], std::uint32_t (&weights)[4]) {
    float keep[2] = {1.0f, 1.0f};
    weights[1] = weights[3] = 0;
#pragma unroll
    for (int half = 0; half < C::halves; ++half) {
      float most =
          fmaxf(fmaxf(scores[0][half * 2], scores[0][half * 2 + 1]), fmaxf(scores[1][half * 2], scores[1][half * 2 + 1]));
      most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 1));
      most = fmaxf(most, __shfl_xor_sync(all_lanes, most, 2));
      most = fmaxf(most, maximum[half]);
      const float base = most == -infinity ? 0.0f : most;
      keep[half] = exp2_fast(maximum[half] - base);
      maximum[half] = most;
      float exponentials[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        exponentials[i] = exp2_fast(scores[i / 2][half * 2 + i % 2] - base);
      }
      weight[half] = weight[half] * keep[half] + ((exponentials[0] + exponentials[1]) + (exponentials[2] + exponentials[3]));
      weights[half] = pack<T>(exponentials[0], exponentials[1]);
      weights[half + 2] = pack<T>(exponentials[2], exponentials[3]);
    }
    if (__any_sync(all_lanes, keep[0] != 1.0f || keep[1] != 1.0f) != 0) {
#pragma unroll
      for (int i = 0; i < out_tiles; ++i) {
#pragma unroll
        for (int e = 0; e < 2 * C::halves; ++e) {
          out[i][e] *= keep[e / 2];
        }
      }
    }
  }

  __device__ void multiply_v(const std::uint32_t (&weights)[4], bool partial, int begin, int end) {
    const std::uint32_t slot = take_slot();
    if (partial) {
      clear_values(slot, begin, end);
    }
    const std::uint32_t first = slot + chunk_at(warp() * keys_per_warp + lane() % 16, lane() / 16);
#pragma unroll
    for (int i = 0; i < out_tiles; i += 2) {
      std::uint32_t v[4];
      load_matrices<true>(v, pairs_on(first, i / 2));
      multiply<T>(out[i], weights, v[0], v[1]);
      multiply<T>(out[i + 1], weights, v[2], v[3]);
    }
    free_slot();
  }
  /// Rows of V that hold no visible key: whatever memory holds there must not meet a weight of zero, for it may be NaN.
  __device__ void clear_values(std::uint32_t slot, int begin, int end) const {
    constexpr std::uint32_t zeros[4] = {};
    for (int i = lane(); i < keys_per_warp * C::padded / 8; i += 32) {
      const int key = i % keys_per_warp;
      if (key < begin || key >= end) {
        store_shared(slot + chunk_at(warp() * keys_per_warp + key, i / keys_per_warp), zeros);
      }
    }
    async_proxy_fence();
    __syncwarp();
  }

  // --- the end of a piece: every thread goes on with the same groups of four sums

  [[nodiscard]] __device__ int head_of(int i) const { return (i * consumer_threads + thread) / (C::padded / 4); }
  [[nodiscard]] __device__ int dim_of(int i) const { return (i * consumer_threads + thread) % (C::padded / 4) * 4; }

  __device__ void finish_piece(const Walk& walk) {
    const int heads = heads_of(walk);
    share_sums(heads);
    const bool first = walk.first_of_group();
    const bool last = walk.last_of_group();
    const bool whole = walk.whole();
#pragma unroll 1
    for (int i = 0; i < C::quads_of_thread; ++i) {
      if (head_of(i) >= heads) {
        break;
      }
      const Part part = part_of_warps(head_of(i), dim_of(i));
      if (!whole) {
        store_part(walk, i, part);
        continue;
      }
      Part total;
      if (!first) {
        total.sums = shared.total_sums[i][thread];
        total.maximum = shared.total_states[i][thread].x;
        total.weight = shared.total_states[i][thread].y;
      }
      add_part(total, part);
      if (last) {
        store(walk, i, total);
      } else {
        shared.total_sums[i][thread] = total.sums;
        shared.total_states[i][thread] = float2{total.maximum, total.weight};
      }
    }
    if (last && !whole && arrives_last(walk)) {
#pragma unroll 1
      for (int i = 0; i < C::quads_of_thread && head_of(i) < heads; ++i) {
        store(walk, i, part_of_pieces(walk, i));
      }
    }
    named_barrier<1, consumer_threads>();  // shared.sums may be written again
  }

  __device__ void share_sums(int heads) {
#pragma unroll
    for (int half = 0; half < C::halves; ++half) {
      float sum = weight[half];
      sum += __shfl_xor_sync(all_lanes, sum, 1);
      sum += __shfl_xor_sync(all_lanes, sum, 2);
      const int head = lane() / 4 + half * 8;
      if (head >= heads) {
        continue;
      }
      if (lane() % 4 == 0) {
        shared.states[warp()][head] = float2{maximum[half], sum};
      }
#pragma unroll
      for (int i = 0; i < out_tiles; ++i) {
        *reinterpret_cast<float2*>(&shared.sums[warp()][head][i * 8 + lane() % 4 * 2]) =
            float2{out[i][half * 2], out[i][half * 2 + 1]};
      }
    }
    named_barrier<1, consumer_threads>();
  }
  [[nodiscard]] __device__ Part part_of_warps(int head, int dim) const {
    Part total;
#pragma unroll
    for (int w = 0; w < consumers; ++w) {
      const float2 state = shared.states[w][head];
      add_part(total, Part{*reinterpret_cast<const float4*>(&shared.sums[w][head][dim]), state.x, state.y});
    }
    return total;
  }

  /// Row of the parts of the head that `walk` is at, piece 0.
  [[nodiscard]] __device__ std::int64_t first_part(const Walk& walk) const {
    return std::int64_t{walk.owner()} * args.max_pieces * C::heads;
  }
  __device__ void store_part(const Walk& walk, int i, const Part& part) const {
    const std::int64_t at = first_part(walk) + walk.split * C::heads + head_of(i);
    *reinterpret_cast<float4*>(args.partial_sums + at * C::padded + dim_of(i)) = part.sums;
    if (dim_of(i) == 0) {
      *reinterpret_cast<float2*>(args.partial_states + at * 2) = float2{part.maximum, part.weight};
    }
  }
  [[nodiscard]] __device__ Part part_of_pieces(const Walk& walk, int i) const {
    const std::int64_t first = first_part(walk) + head_of(i);
    Part total;
#pragma unroll 4
    for (int piece = 0; piece < walk.keys.pieces; ++piece) {
      const std::int64_t at = first + piece * C::heads;
      const float4 sums = *reinterpret_cast<const float4*>(args.partial_sums + at * C::padded + dim_of(i));
      const float2 state = *reinterpret_cast<const float2*>(args.partial_states + at * 2);
      add_part(total, Part{sums, state.x, state.y});
    }
    return total;
  }

  /// True in the work-group that brings the last pieces of a head; it sees what the others stored. Leaves the counter at
  /// zero.
  __device__ bool arrives_last(const Walk& walk) {
    const int first = max(0, (walk.begin - walk.head_start + walk.keys.piece - 1) / walk.keys.piece);
    const auto count = static_cast<std::uint32_t>(walk.split + 1 - first);
    std::uint32_t* counter = args.counters + walk.owner();
    __threadfence();
    named_barrier<1, consumer_threads>();
    if (thread == 0) {
      shared.last = atomicAdd(counter, count) + count == static_cast<std::uint32_t>(walk.keys.pieces);
      if (shared.last) {
        *counter = 0;
      }
    }
    named_barrier<1, consumer_threads>();
    __threadfence();
    return shared.last;
  }

  __device__ void store(const Walk& walk, int i, const Part& total) const {
    const int dim = dim_of(i);
    if (dim >= args.head_dim) {
      return;
    }
    const int head = first_head(walk) + head_of(i);
    float weights = total.weight;
    if (args.sinks != nullptr && total.maximum != -infinity) {
      weights += exp2_fast(args.sinks[head] * log2e - total.maximum);
    }
    const float factor = weights > 0.0f ? 1.0f / weights : 0.0f;
    const std::int64_t row = args.query_offsets[walk.sequence];
    const std::int64_t at = (row * args.q_heads + head) * args.head_dim + dim;
    if (args.io == IoType::f32) {
      float2* to = reinterpret_cast<float2*>(static_cast<float*>(args.out) + at);
      to[0] = float2{total.sums.x * factor, total.sums.y * factor};
      to[1] = float2{total.sums.z * factor, total.sums.w * factor};
      return;
    }
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(args.out) + at);
    to[0] = pack<T>(total.sums.x * factor, total.sums.y * factor);
    to[1] = pack<T>(total.sums.z * factor, total.sums.w * factor);
  }
};

template <class C>
__device__ void attend(const AttentionDecodeArgs& args) {
  extern __shared__ char memory[];
  auto& shared = *reinterpret_cast<Shared<C>*>((reinterpret_cast<std::uintptr_t>(memory) + 1023) / 1024 * 1024);
  if (threadIdx.x == consumer_threads) {
    prefetch_map(reinterpret_cast<const TensorMap*>(&args.k));
    for (int slot = 0; slot < C::slots; ++slot) {
      barrier_init(&shared.full[slot], 1);
      barrier_init(&shared.free[slot], consumers);
    }
    barrier_init_fence();
  }
  Walk walk(args);
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= consumer_threads) {
    Producer<C>{args, shared, thread - consumer_threads, evict_first_policy()}.run(walk);
  } else {
    Consumer<C>{args, shared, thread}.run(walk);
  }
}

}  // namespace

// attention_decode_TYPE_DIMS_HEADS: head_dim up to DIMS, HEADS query heads of a KV head at once.
#define ROCMFORGE_ATTENTION_DECODE(name, type, dims, heads)                                          \
  extern "C" __global__ void __launch_bounds__(threads, 1)                                           \
      attention_decode_##name##_##dims##_##heads(const __grid_constant__ AttentionDecodeArgs args) { \
    attend<Config<type, dims, heads>>(args);                                                         \
  }
#define ROCMFORGE_ATTENTION_DECODE_DIMS(name, type) \
  ROCMFORGE_ATTENTION_DECODE(name, type, 64, 8)     \
  ROCMFORGE_ATTENTION_DECODE(name, type, 64, 16)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, 128, 8)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, 128, 16)   \
  ROCMFORGE_ATTENTION_DECODE(name, type, 256, 8)    \
  ROCMFORGE_ATTENTION_DECODE(name, type, 256, 16)

ROCMFORGE_ATTENTION_DECODE_DIMS(f16, half)
ROCMFORGE_ATTENTION_DECODE_DIMS(bf16, bfloat16)

}  // namespace rocmforge::hopper
