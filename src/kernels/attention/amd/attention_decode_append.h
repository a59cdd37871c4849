#pragma once

// RopeAppend as part of a decode call, before attention: a work-group normalises and rotates its query heads and, where it
// has the row's last keys, K and V of the row's own cell, a wave for each head. K and V go to the pages, and from shared
// memory to the lanes that would read them from the pages: no work-group waits for what another one writes.
//
// Everything is read before the keys of the pages are waited for.

#include "kernels/attention/amd/attention_decode_keys.h"
#include "kernels/rows/portable/turn_heads.h"

namespace rocmforge::amd {

/// Shared memory of DecodeAppend.
template <class T, class Shape>
struct AppendShared {
  static constexpr int groups = Shape::dims / gpu::quant_group;
  gpu::Turn turns[Shape::dims / 2];
  alignas(16) float heads[Shape::heads + 2][Shape::dims];     ///< queries, then K and V
  alignas(16) std::uint8_t rows[2][Shape::dims * sizeof(T)];  ///< K and V as the pages hold them
  std::uint16_t scales[2][groups];                            ///< of quants: bits of half

  [[nodiscard]] __device__ __forceinline__ T* row(int which) { return reinterpret_cast<T*>(rows[which]); }
};

template <class T, class Shape>
class DecodeAppend {
 public:
  /// `all`: the arguments in the launch's memory. Those of the append are read from there when they are needed, because
  /// registers cannot hold them beside the others.
  __device__ __forceinline__ DecodeAppend(const DecodeArgs& all, const DecodeArgs& args, const DecodePlace& place, int wave,
                                          AppendShared<T, Shape>& shared)
      : all_(all), args_(args), place_(place), wave_(wave), shared_(shared) {
    active_ = args.append.q != nullptr && place.end > 0;  // a row without keys is padding
    appends_ = false;
    block_ = 0;
    position_ = 0;
  }

  /// Whether the queries come from this append.
  [[nodiscard]] __device__ __forceinline__ bool active() const { return active_; }

  /// Loads the inputs of the wave's heads and of the thread's pair. Waves after the last head load the last head too, so
  /// that all waves take the same path.
  __device__ __forceinline__ void begin() {
    gpu::RopeAppendArgs append = read_again(all_).append;
    asm volatile(""  // one wait for all of them
                 : "+s"(append.q), "+s"(append.k), "+s"(append.v), "+s"(append.q_norm), "+s"(append.k_norm),
                   "+s"(append.inverse_frequency), "+s"(append.positions), "+s"(append.stride), "+s"(append.kv_heads),
                   "+s"(append.pairs), "+s"(append.adjacent));
    position_ = read_constant(append.positions, place_.row);
    appends_ = append.kv_heads > 0 && place_.last == place_.end;
    if (appends_) {
      block_ = read_constant(args_.call.kv.block_tables + std::int64_t{place_.sequence} * args_.call.kv.max_blocks,
                             cell() >> args_.call.kv.block_shift);
    }
    if (append.pairs > 0) {
      frequency_ = *((Global<const float>)append.inverse_frequency + min(pair(), append.pairs - 1));
    }
    rules_ = gpu::turn_rules(append);
    rules_.head_dim = args_.call.head_dim;
    load(append, own_[0], min(wave_, heads() - 1));
    factor_ = gpu::query_factor(append, position_);
    pairs_ = append.pairs;
    magnitude_ = append.magnitude;
    // Scalar registers are needed elsewhere until these values are.
    asm volatile(""
                 : "+v"(pairs_), "+v"(magnitude_), "+v"(factor_), "+v"(rules_.adjacent), "+v"(rules_.norm_after_turn),
                   "+v"(rules_.norm_eps));
#pragma unroll
    for (int i = 1; i < most_heads; ++i) {
      load(read_again(all_).append, own_[i], min(wave_ + i * Shape::waves, heads() - 1));
    }
  }

  /// Writes the queries to shared memory, and the row's own K and V to shared memory and the pages.
  __device__ __forceinline__ void finish() {
    float scales[most_heads];
#pragma unroll
    for (int i = 0; i < most_heads; ++i) {
      scales[i] = norm_scale(own_[i]);
    }
    if (pair() < pairs_) {
      shared_.turns[pair()] = gpu::turn_of(static_cast<float>(position_), frequency_, magnitude_);
    }
    sync_shared();
#pragma unroll
    for (int i = 0; i < most_heads; ++i) {
      const int h = wave_ + i * Shape::waves;
      if (h < place_.heads) {
        turn(own_[i], shared_.heads[h], scales[i], factor_);
      } else if (h < heads()) {
        turn(own_[i], shared_.heads[Shape::heads + h - place_.heads], scales[i], 1.0f);
        gpu::sync_wave();
        store_row(h - place_.heads);
      }
    }
    sync_shared();
  }

  [[nodiscard]] __device__ __forceinline__ const float* query(int g) const { return shared_.heads[g]; }

  /// Replaces those elements of K (0) or V (1) that belong to the row's own cell, among the piece's last ones, read from
  /// `base` on: their page may not be written yet.
  template <class Reader>
  __device__ __forceinline__ void replace(const Reader& reader, int base, int which,
                                          LaneEight<T> (&read)[Shape::steps]) const {
    if (!appends_) {
      return;
    }
    LaneEight<T> own;
    if constexpr (sizeof(T) == 1) {
      const auto* const from = reinterpret_cast<const std::uint32_t*>(shared_.row(which) + reader.dim);
      own.quants[0] = from[0];
      own.quants[1] = from[1];
      own.scale_bits = shared_.scales[which][reader.dim / gpu::quant_group];
    } else {
      own.eight.load(shared_.row(which) + reader.dim);
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      if (reader.key(base, s) == cell()) {
        read[s] = own;
      }
    }
  }

 private:
  static constexpr int units = (Shape::dims / 2 + gpu::wave_size - 1) / gpu::wave_size;    ///< of a lane
  static constexpr int most_heads = (Shape::heads + 2 + Shape::waves - 1) / Shape::waves;  ///< of a wave

  /// One of the wave's heads, as loaded. All heads are loaded before K and V of the pages: a loop would wait for those.
  struct OwnHead {
    gpu::Head head;
    int weighted;  ///< the norm has weights
    int normed;
    gpu::UnitValues values[units];
    gpu::UnitValues weights[units];
  };

  [[nodiscard]] __device__ __forceinline__ int cell() const { return place_.end - 1; }
  /// The thread's pair: the last waves compute the turns, as the first ones have heads.
  [[nodiscard]] __device__ __forceinline__ static int pair() {
    static_assert(Shape::threads >= Shape::dims / 2);
    return Shape::threads - 1 - gpu::thread_index();
  }
  /// Heads of the work-group: its queries, then K and V.
  [[nodiscard]] __device__ __forceinline__ int heads() const { return place_.heads + (appends_ ? 2 : 0); }

  __device__ __forceinline__ void load(const gpu::RopeAppendArgs& append, OwnHead& own, int h) {
    gpu::TurnRules rules = gpu::turn_rules(append);
    rules.head_dim = args_.call.head_dim;
    const int of_kv = append.q_heads + (h - place_.heads) * append.kv_heads + place_.kv_head;
    own.head = gpu::head_at(append, place_.row, h < place_.heads ? place_.first_head + h : of_kv);
    const auto from = (Global<const float>)own.head.from;
    own.weighted = own.head.norm != nullptr ? 1 : 0;
    own.normed = own.head.normed ? 1 : 0;
    const auto weights = (Global<const float>)(own.weighted != 0 ? own.head.norm : own.head.from);
#pragma unroll
    for (int i = 0; i < units; ++i) {  // without a branch, behind which the compiler would wait for what is read
      const gpu::Unit unit = gpu::unit_at(rules, own.head, min(unit_of(i), gpu::units_of(rules) - 1));
      own.values[i] = {from[unit.first], from[unit.second]};  // head_dim is even
      own.weights[i] = {weights[unit.first], weights[unit.second]};
    }
    asm volatile("" : "+v"(own.head.pairs), "+v"(own.weighted), "+v"(own.normed));  // as in begin()
    if constexpr (most_heads > 1) {
      schedule_barrier();
    }
  }
  __device__ __forceinline__ static int unit_of(int i) { return gpu::lane_index() + i * gpu::wave_size; }

  [[nodiscard]] __device__ __forceinline__ float norm_scale(const OwnHead& own) const {
    if (own.normed == 0) {
      return 1.0f;
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < units; ++i) {
      sum = unit_of(i) < gpu::units_of(rules_) ? gpu::add_squares(sum, own.values[i]) : sum;
    }
    return gpu::norm_scale(rules_, sum);
  }

  /// `to` [head_dim]: the loaded head, normalised, rotated and multiplied by `factor`.
  __device__ __forceinline__ void turn(OwnHead& own, float* to, float scale, float factor) {
    own.head.normed = own.normed != 0;
#pragma unroll
    for (int i = 0; i < units; ++i) {
      if (unit_of(i) < gpu::units_of(rules_)) {
        const gpu::UnitValues weights = own.weighted != 0 ? own.weights[i] : gpu::UnitValues{1.0f, 1.0f};
        gpu::finish_unit(rules_, own.head, unit_of(i), own.values[i], scale, weights, shared_.turns,
                         [&](int dim, float value) { to[dim] = value * factor; });
      }
    }
  }

  /// Converts K (0) or V (1) from floats to the type of the pages, and stores it there and in shared memory. Of several
  /// work-groups that share a KV head the first one writes the page.
  __device__ __forceinline__ void store_row(int which) {
    const gpu::KvAddress& kv = args_.call.kv;
    const int slot = cell() & ((1 << kv.block_shift) - 1);
    const bool first = place_.first_head == place_.kv_head * args_.group;
    T* const plane = static_cast<T*>(const_cast<void*>(which == 0 ? kv.k : kv.v)) + block_ * kv.block_stride +
                     place_.kv_head * kv.head_stride;
    T* const page = plane + slot * kv.token_stride;
    const float* const from = shared_.heads[Shape::heads + which];
    T* const to = shared_.row(which);
    if constexpr (sizeof(T) == 1) {
      half* const scales = reinterpret_cast<half*>(plane + kv.quant_bytes) + slot * (args_.call.head_dim / gpu::quant_group);
      gpu::quantise_head(from, args_.call.head_dim, [&](int dim, std::int8_t quant, half scale) {
        to[dim].value = quant;
        if (first) {
          store_at(page + dim, gpu::Quant{quant});
        }
        if (dim % gpu::quant_group == 0) {
          shared_.scales[which][dim / gpu::quant_group] = scale.bits;
          if (first) {
            store_at(scales + dim / gpu::quant_group, scale);
          }
        }
      });
    } else {
      for (int dim = gpu::lane_index(); dim < args_.call.head_dim; dim += gpu::wave_size) {
        to[dim] = gpu::from_float<T>(from[dim]);
        if (first) {
          store_at(page + dim, to[dim]);
        }
      }
    }
  }

  const DecodeArgs& all_;
  const DecodeArgs& args_;
  const DecodePlace& place_;
  int wave_;
  AppendShared<T, Shape>& shared_;
  bool active_;
  bool appends_;
  int block_;
  int position_;  ///< that the row turns by
  int pairs_;
  float magnitude_;
  float factor_;  ///< of the queries
  float frequency_;
  gpu::TurnRules rules_;
  OwnHead own_[most_heads];
};

}  // namespace rocmforge::amd
