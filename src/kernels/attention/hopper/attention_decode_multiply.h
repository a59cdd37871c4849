#pragma once

// The warps of a decode work-group that multiply.

#include "kernels/attention/hopper/attention_decode_copy.h"
#include "kernels/attention/hopper/attention_decode_parts.h"
#include "kernels/tile/hopper/barrier.h"
#include "kernels/tile/hopper/copy.h"
#include "kernels/tile/hopper/mma.h"
#include "kernels/tile/hopper/pairs.h"
#include "kernels/tile/hopper/ring.h"
#include "kernels/tile/hopper/shared.h"

namespace rocmforge::hopper {

/// Two neighbouring elements of q as T.
template <class T>
__device__ inline std::uint32_t load_q(const AttentionDecodeArgs& args, std::int64_t at) {
  if (args.io == IoType::f32) {
    const float* from = static_cast<const float*>(args.q) + at;
    if (args.q_aligned != 0) {
      const float2 pair = *reinterpret_cast<const float2*>(from);
      return pack_pair<T>(pair.x, pair.y);
    }
    return pack_pair<T>(from[0], from[1]);
  }
  const std::uint16_t* from = static_cast<const std::uint16_t*>(args.q) + at;
  if (args.q_aligned != 0) {
    return *reinterpret_cast<const std::uint32_t*>(from);
  }
  return from[0] | std::uint32_t{from[1]} << 16;
}

/// The absolute error is about 2^-22, which suffices for a soft-cap.
__device__ inline float hyperbolic_tangent(float x) { return 1.0f - __fdividef(2.0f, 1.0f + exp2_fast(2.0f * log2_e * x)); }

template <class C>
struct Consumer {
  using T = typename C::T;
  static constexpr int steps = C::padded / 16;  ///< of a dot product
  static constexpr int out_tiles = C::padded / 8;
  static constexpr int quant_groups = C::padded / 32;  ///< that have a scale each
  static constexpr int scaled_at_once = quant_groups == 4 ? 4 : 2;
  /// The greatest weight is at most 2^this. Scales of V are a 127th of values: the products of both then stay in range.
  static constexpr float greatest_weight = C::quants ? 7.0f : 0.0f;

  const AttentionDecodeArgs& args;
  Shared<C>& shared;
  int thread;     ///< among the consumers
  int turn = 0;   ///< the group that takes the next tile; a slot belongs to the same group throughout
  int row = 0;    ///< of the sequence's query
  int heads = 0;  ///< query heads of the current entry, from first_head on
  int first_head = 0;
  std::int64_t first_part = 0;  ///< of a shared head
  Ring<C::slots> ring{};
  std::uint32_t q[C::q_in_registers ? steps : 1][4];
  float out[out_tiles][4];
  float maximum[2];  ///< integers in units of log2
  float weight[2];   ///< this lane's share

  __device__ void run(DecodeWalk& walk) {
    gpu::wait_for_predecessor();
    for (; walk.valid(); walk.advance()) {
      if (walk.first_of_group()) {
        begin_head(walk);
      }
      begin_piece();
      const int first = turn;
      for (int tile = walk.tile_begin(); tile < walk.tile_end(); ++tile) {
        if (turn == group()) {
          add_tile(walk.keys, tile);
        } else {
          ring.advance();
          ring.advance();
        }
        turn = turn + 1 == C::groups ? 0 : turn + 1;
      }
      finish_piece(walk, first);
    }
  }

 private:
  [[nodiscard]] __device__ int warp() const { return thread / 32 % warps_of_tile; }
  [[nodiscard]] __device__ int group() const { return thread / (32 * warps_of_tile); }
  [[nodiscard]] __device__ int lane() const { return thread % 32; }

  __device__ void begin_head(const DecodeWalk& walk) {
    row = args.query_offsets[walk.sequence];
    heads = min(C::heads, args.group - walk.head_tile * C::heads);
    first_head = walk.kv_head * args.group + walk.head_tile * C::heads;
    if (!walk.whole()) {
      first_part = std::int64_t{walk.owner()} * args.max_pieces * args.part_heads;
    }
    const bool has_sink = args.sinks != nullptr && thread < heads;
    const float sink = has_sink ? args.sinks[first_head + thread] : 0.0f;  // on its way together with q
    load_query();
    if (has_sink) {
      shared.sinks[thread] = sink;  // share_sums() follows
    }
  }

  /// q of the head to shared memory, laid out as a tile of 16 keys; zeros beyond the heads and beyond head_dim.
  __device__ void load_query() {
    constexpr int at_once = C::quants && !C::q_in_registers ? 1 : 4;  // registers are short
#pragma unroll at_once
    for (int i = 0; i < (C::heads * C::padded / 2 + C::consumer_threads - 1) / C::consumer_threads; ++i) {
      const int pair = i * C::consumer_threads + thread;
      const int head = pair / (C::padded / 2);
      const int dim = pair % (C::padded / 2) * 2;
      std::uint32_t value = 0;
      if (head < heads && dim < args.head_dim) {
        value = load_q<T>(args, row * args.q_stride + std::int64_t{first_head + head} * args.head_dim + dim);
        if (C::quants && args.io == IoType::bf16) {
          value = pack_pair<T>(__uint_as_float(value << 16), __uint_as_float(value & 0xffff0000u));
        }
      }
      const int place = C::quants ? quant_place(dim) : dim;
      *reinterpret_cast<std::uint32_t*>(shared.q[0] + q_at(head, place / 8) + place % 8 * 2) = value;
    }
    named_barrier<1, C::consumer_threads>();
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
  /// Where 16 bytes of a key lie in a slot.
  [[nodiscard]] __device__ static std::uint32_t chunk_at(int key, int chunk) {
    return static_cast<std::uint32_t>(chunk / 8 * column_bytes + key * 128 + ((chunk % 8) ^ (key % 8)) * 16);
  }
  /// The chunk 2 `pairs` after one of the first two.
  [[nodiscard]] __device__ static std::uint32_t pairs_on(std::uint32_t first, int pairs) {
    return (first ^ static_cast<std::uint32_t>(pairs % 4 * 32)) + static_cast<std::uint32_t>(pairs / 4 * column_bytes);
  }

  __device__ void add_tile(const DecodeKeys& keys, int tile) {
    float scores[2][4];  // of keys 0 to 7 and 8 to 15
    if constexpr (C::quants) {
      multiply_k_quants(scores);
    } else {
      multiply_k(scores);
    }
    scale_scores(scores);
    const int first = tile * tile_keys + warp() * keys_per_warp;
    const int begin = keys.first_key(args);
    const bool partial = first + keys_per_warp > keys.kv_len || first < begin;
    if (partial) {
      hide(scores, begin - first, keys.kv_len - first);
    }
    std::uint32_t weights[4];
    soften(scores, weights);
    if constexpr (C::quants) {
      multiply_v_quants(weights, partial, begin - first, keys.kv_len - first);
    } else {
      multiply_v(weights, partial, begin - first, keys.kv_len - first);
    }
  }

  __device__ void multiply_k(float (&scores)[2][4]) {
    float sums[2][2][4] = {};  // even and odd steps apart: shorter chains
    const int key = warp() * keys_per_warp + lane() / 16 * 8 + lane() % 8;
    const std::uint32_t first = take_slot() + chunk_at(key, lane() / 8 % 2);
    constexpr int at_once = C::q_in_registers ? steps : 4;  // more would take the registers of the sums
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
  /// Converts scores to units of log2.
  __device__ void scale_scores(float (&scores)[2][4]) const {
    if (args.soft_cap > 0.0f) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = scores[i / 4][i % 4];
        score = args.soft_cap * log2_e * hyperbolic_tangent(score * args.scale / args.soft_cap);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        scores[i / 4][i % 4] *= args.scale * log2_e;
      }
    }
  }
  /// Keys of the warp before `begin` and from `end` on are masked.
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
      most = fmaxf(ceilf(most) - greatest_weight, maximum[half]);
      const float base = most == -infinity ? 0.0f : most;
      keep[half] = power_of_two(maximum[half] - base);
      maximum[half] = most;
      float exponentials[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        exponentials[i] = exp2_fast(scores[i / 2][half * 2 + i % 2] - base);
      }
      weight[half] = weight[half] * keep[half] + ((exponentials[0] + exponentials[1]) + (exponentials[2] + exponentials[3]));
      weights[half] = pack_pair<T>(exponentials[0], exponentials[1]);
      weights[half + 2] = pack_pair<T>(exponentials[2], exponentials[3]);
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
  /// Rows of V without a visible key become zeros: memory may hold NaN there, and a weight of zero times NaN is NaN.
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

  // --- quants

  /// Scales of the slot's keys of a lane's scores, in pairs of neighbouring keys: keys 2 (lane % 4) + 0, 1 of the warp, and
  /// the keys 8 further on; of scaled_at_once groups from `group` on.
  __device__ void load_scales(std::uint32_t (&pairs)[2][scaled_at_once], int group) const {
    const int row_bytes = args.head_dim / 16;
    const std::uint32_t scales = shared_address(shared.scales + ring.slot * C::scale_bytes) + group * 2;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::uint32_t from = scales + (warp() * keys_per_warp + n * 8 + lane() % 4 * 2) * row_bytes;
      if (args.head_dim == C::padded) {
        load_scale_pairs(pairs[n], from, C::padded / 16);
      } else {
#pragma unroll
        for (int g = 0; g < scaled_at_once; ++g) {
          pairs[n][g] = 0;
          if ((group + g) * 2 < row_bytes) {
            pairs[n][g] = load_shared_16(from + g * 2) | load_shared_16(from + row_bytes + g * 2) << 16;
          }
        }
      }
    }
  }

  __device__ void multiply_k_quants(float (&scores)[2][4]) {
    const int key = warp() * keys_per_warp + lane() / 16 * 8 + lane() % 8;
    const std::uint32_t first = take_slot() + chunk_at(key, lane() / 8 % 2);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      scores[i / 4][i % 4] = 0.0f;
    }
#pragma unroll 1
    for (int group = 0; group < quant_groups; group += scaled_at_once) {
      std::uint32_t scales[2][scaled_at_once];
      load_scales(scales, group);
#pragma unroll
      for (int g = 0; g < scaled_at_once; ++g) {
        add_group_of_k(scores, first, scales, g, group);
      }
    }
    free_slot();
  }
  /// Multiplies 32 dimensions: group `g` of those from `group` on.
  __device__ void add_group_of_k(float (&scores)[2][4], std::uint32_t first,
                                 const std::uint32_t (&scales)[2][scaled_at_once], int g, int group) {
    std::uint32_t quants[4];
    load_matrices<false>(quants, pairs_on(first, group + g));
    float sums[2][4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t(&query)[4] = q[C::q_in_registers ? g * 2 + half : 0];
      if constexpr (!C::q_in_registers) {
        load_query_step(query, (group + g) * 2 + half);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        std::uint32_t k[2];
        numbers_of_quants<true>(k, quants[n * 2 + half]);
        multiply<T>(sums[n], query, k[0], k[1]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float2 scale = floats_of_pair(scales[n][g]);
#pragma unroll
      for (int half = 0; half < C::halves; ++half) {
        scores[n][half * 2] = __fmaf_rn(scale.x, sums[n][half * 2], scores[n][half * 2]);
        scores[n][half * 2 + 1] = __fmaf_rn(scale.y, sums[n][half * 2 + 1], scores[n][half * 2 + 1]);
      }
    }
  }

  /// Even dimensions of 16 go to one tile of `out`, odd ones to the next: see share_sums.
  __device__ void multiply_v_quants(const std::uint32_t (&weights)[4], bool partial, int begin, int end) {
    const std::uint32_t first = take_slot() + chunk_at(warp() * keys_per_warp + lane() % 16, lane() / 16);
#pragma unroll
    for (int group = 0; group < quant_groups; group += scaled_at_once) {
      std::uint32_t scales[2][scaled_at_once];
      load_scales(scales, group);
      if (partial) {  // memory may hold NaN for hidden keys, and a weight of zero times NaN is NaN
        hide_scales(scales, begin, end);
      }
#pragma unroll
      for (int g = 0; g < scaled_at_once; ++g) {
        std::uint32_t quants[4];
        load_matrices<true>(quants, pairs_on(first, group + g));
        std::uint32_t scaled[4] = {};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int half = 0; half < C::halves; ++half) {
            scaled[n * 2 + half] = multiply_pair(weights[n * 2 + half], scales[n][g]);
          }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          std::uint32_t low[2];
          std::uint32_t high[2];
          numbers_of_quants<false>(low, quants[i * 2]);
          numbers_of_quants<false>(high, quants[i * 2 + 1]);
          multiply<T>(out[(group + g) * 4 + i * 2], scaled, low[0], high[0]);
          multiply<T>(out[(group + g) * 4 + i * 2 + 1], scaled, low[1], high[1]);
        }
      }
    }
    free_slot();
  }
  /// Sets the scales of the warp's keys before `begin` and from `end` on to zero.
  __device__ void hide_scales(std::uint32_t (&scales)[2][scaled_at_once], int begin, int end) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int key = n * 8 + lane() % 4 * 2;
      const std::uint32_t mask =
          (key >= begin && key < end ? 0xffffu : 0u) | (key + 1 >= begin && key + 1 < end ? 0xffff0000u : 0u);
#pragma unroll
      for (int g = 0; g < scaled_at_once; ++g) {
        scales[n][g] &= mask;
      }
    }
  }

  // --- the end of a piece: every thread keeps the same groups of four sums

  [[nodiscard]] __device__ int head_of(int i) const { return (i * C::consumer_threads + thread) / (C::padded / 4); }
  [[nodiscard]] __device__ int dim_of(int i) const { return (i * C::consumer_threads + thread) % (C::padded / 4) * 4; }

  /// `first` is the group that took the piece's first tile.
  __device__ void finish_piece(const DecodeWalk& walk, int first) {
    share_sums(first);
    const bool begins = walk.split == 0;
    const bool last = walk.last_of_group();
    const bool whole = walk.whole();
    const int tiles = walk.tile_end() - walk.tile_begin();
#pragma unroll 1
    for (int i = 0; i < C::quads_of_thread && head_of(i) < heads; ++i) {
      Part total;
      if (whole && !begins) {
        total.sums = shared.total_sums[i][thread];
        total.maximum = shared.total_states[i][thread].x;
        total.weight = shared.total_states[i][thread].y;
      }
      const Part part = part_of_warps(tiles, head_of(i), dim_of(i));
      if (!whole) {
        store_part(walk.split, i, part);
        continue;
      }
      add_parts<1>(total, [&](int) { return part; });
      if (last) {
        store(i, total);
      } else {
        shared.total_sums[i][thread] = total.sums;
        shared.total_states[i][thread] = float2{total.maximum, total.weight};
      }
    }
    if (last && !whole && arrives_last(walk)) {
#pragma unroll 1
      for (int i = 0; i < C::quads_of_thread && head_of(i) < heads; ++i) {
        store(i, part_of_pieces(walk.keys.pieces, i));
      }
    }
    named_barrier<1, C::consumer_threads>();  // shared.sums may be written again
  }

  /// Stores the warps' sums in the order of their tiles and keys, wherever in the ring the piece began.
  __device__ void share_sums(int first) {
    const int place = ((group() - first + C::groups) % C::groups) * warps_of_tile + warp();
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
        shared.states[place][head] = float2{maximum[half], sum};
      }
#pragma unroll
      for (int i = 0; i < out_tiles; i += 2) {
        float* const sums = &shared.sums[place][head][i * 8];
        const float2 first_pair{out[i][half * 2], out[i][half * 2 + 1]};
        const float2 second_pair{out[i + 1][half * 2], out[i + 1][half * 2 + 1]};
        if constexpr (C::quants) {  // even dimensions, odd ones
          *reinterpret_cast<float4*>(sums + lane() % 4 * 4) =
              float4{first_pair.x, second_pair.x, first_pair.y, second_pair.y};
        } else {
          *reinterpret_cast<float2*>(sums + lane() % 4 * 2) = first_pair;
          *reinterpret_cast<float2*>(sums + 8 + lane() % 4 * 2) = second_pair;
        }
      }
    }
    named_barrier<1, C::consumer_threads>();
  }
  [[nodiscard]] __device__ Part part_of_warps(int tiles, int head, int dim) const {
    Part total;
#pragma unroll
    for (int group = 0; group < C::groups; ++group) {
      if (group == 0 || group < tiles) {
        add_parts<warps_of_tile>(total, [&](int w) {
          const float2 state = shared.states[group * warps_of_tile + w][head];
          return Part{*reinterpret_cast<const float4*>(&shared.sums[group * warps_of_tile + w][head][dim]), state.x,
                      state.y};
        });
      }
    }
    return total;
  }

  __device__ void store_part(int piece, int i, const Part& part) const {
    const std::int64_t at = first_part + piece * args.part_heads + head_of(i);
    *reinterpret_cast<float4*>(args.partial_sums + at * C::padded + dim_of(i)) = part.sums;
    if (dim_of(i) == 0) {
      *reinterpret_cast<float2*>(args.partial_states + at * 2) = float2{part.maximum, part.weight};
    }
  }
  [[nodiscard]] __device__ Part load_part(int piece, int i) const {
    const std::int64_t at = first_part + piece * args.part_heads + head_of(i);
    const float4 sums = *reinterpret_cast<const float4*>(args.partial_sums + at * C::padded + dim_of(i));
    const float2 state = *reinterpret_cast<const float2*>(args.partial_states + at * 2);
    return Part{sums, state.x, state.y};
  }
  [[nodiscard]] __device__ Part part_of_pieces(int pieces, int i) const {
    constexpr int at_once = 8;
    Part total;
    for (int piece = 0; piece < pieces; piece += at_once) {
      add_parts<at_once>(total, [&](int next) { return piece + next < pieces ? load_part(piece + next, i) : Part{}; });
    }
    return total;
  }

  /// True in the last work-group to store its pieces of a head; it sees the pieces of the others. Sets the counter back to
  /// zero.
  __device__ bool arrives_last(const DecodeWalk& walk) {
    const auto count = static_cast<std::uint32_t>(walk.split + 1 - walk.first_piece(walk.head_start, walk.keys.piece));
    std::uint32_t* counter = args.counters + walk.owner();
    __threadfence();
    named_barrier<1, C::consumer_threads>();
    if (thread == 0) {
      shared.last = atomicAdd(counter, count) + count == static_cast<std::uint32_t>(walk.keys.pieces);
      if (shared.last) {
        *counter = 0;
      }
    }
    named_barrier<1, C::consumer_threads>();
    __threadfence();
    return shared.last;
  }

  __device__ void store(int i, const Part& total) const {
    const int dim = dim_of(i);
    if (dim >= args.head_dim) {
      return;
    }
    const int head = first_head + head_of(i);
    float weights = total.weight;
    if (args.sinks != nullptr && total.maximum != -infinity) {
      weights += exp2_fast(shared.sinks[head_of(i)] * log2_e - total.maximum);
    }
    const float factor = weights > 0.0f ? 1.0f / weights : 0.0f;
    const std::int64_t at = (std::int64_t{row} * args.q_heads + head) * args.head_dim + dim;
    if (args.io == IoType::f32) {
      float2* to = reinterpret_cast<float2*>(static_cast<float*>(args.out) + at);
      to[0] = float2{total.sums.x * factor, total.sums.y * factor};
      to[1] = float2{total.sums.z * factor, total.sums.w * factor};
      return;
    }
    std::uint32_t* to = reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(args.out) + at);
    if (C::quants && args.io == IoType::bf16) {
      to[0] = pack_pair<bfloat16>(total.sums.x * factor, total.sums.y * factor);
      to[1] = pack_pair<bfloat16>(total.sums.z * factor, total.sums.w * factor);
      return;
    }
    to[0] = pack_pair<T>(total.sums.x * factor, total.sums.y * factor);
    to[1] = pack_pair<T>(total.sums.z * factor, total.sums.w * factor);
  }
};

}  // namespace rocmforge::hopper
