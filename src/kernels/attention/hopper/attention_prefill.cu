// Fused attention for Hopper. A work-group stays on its multiprocessor and takes tiles of query rows one after another. Its
// first warpgroup loads: one thread copies tiles of K and V with the bulk copy engine, the other warps convert the next tile
// of q. Two or three consumer warpgroups have 64 query rows each, at head_dim 512 the same rows: while one computes weights
// from scores, another one's products run.

#include "base/math.h"
#include "kernels/attention/hopper/attention_prefill_load.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/registers.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/hopper/shared.h"
#include "kernels/tile/hopper/wgmma.h"

namespace rocmforge::hopper {
namespace prefill {
namespace {

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
  static constexpr int first_clearing = 1;  ///< id of the first consumer's named barrier

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
    forget(q);  // else the compiler keeps its advanced copies, in memory where registers are short
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
    if (value_rows < C::keys) {  // each consumer clears its own, and waits for no other one
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
  __device__ const Work& work() const { return shared().works[stage_of<C::work_slots>(works)]; }
  __device__ const Work& done() const { return shared().works[stage_of<C::work_slots>(works - 1)]; }

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
        weights[step][word] = pack_pair<T>(scores[at], scores[at + 1]);
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
    wgmma_fence();
    multiply_k();
    wgmma_commit();
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
    wgmma_fence();
    multiply_k();
    wgmma_commit();
    wait_v(first ? done() : work(), first ? done().tile_end - 1 : tile - 1);
    wgmma_fence();
    multiply_v();
    wgmma_commit();
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
      words[j] = args.io == IoType::f16 ? pack_pair<rocmforge::half>(low, high) : pack_pair<bfloat16>(low, high);
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
      barrier_init(&shared.k_full[stage], C::variant.kv_full_arrivals);
      barrier_init(&shared.v_full[stage], C::variant.kv_full_arrivals);
      barrier_init(&shared.k_free[stage], C::variant.kv_free_arrivals());
      barrier_init(&shared.v_free[stage], C::variant.kv_free_arrivals());
    }
    for (int stage = 0; stage < C::q_stages; ++stage) {
      barrier_init(&shared.q_full[stage], C::variant.q_full_arrivals);
      barrier_init(&shared.q_free[stage], C::variant.q_free_arrivals());
    }
    for (int slot = 0; slot < C::work_slots; ++slot) {
      barrier_init(&shared.work_full[slot], C::variant.work_full_arrivals);
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
    consumer.template run<special>();
  }
}

template <class T>
using HeadDim64 = Config<T, variants[0]>;
template <class T>
using HeadDim128 = Config<T, variants[1]>;
template <class T>
using HeadDim256 = Config<T, variants[2]>;
template <class T>
using HeadDim512 = Config<T, variants[3]>;

}  // namespace
}  // namespace prefill

#define ROCMFORGE_ATTENTION_PREFILL(name, config, special)                  \
  extern "C" __global__ void __launch_bounds__(prefill::config::threads, 1) \
      name(const __grid_constant__ AttentionPrefillArgs args) {             \
    prefill::attend<prefill::config, special>(args);                        \
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