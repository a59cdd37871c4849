#pragma once

// Fused attention of 64 query rows on CDNA, where four waves share rows and keys: each takes 32 of the rows and 32 of each
// 64 keys, so that half as much is read from shared memory as with 16 rows a wave. At the end the two waves of a row add up
// what they have.
//
// Scores of the next tile of keys are multiplied beside the softmax of this one: matrix instructions run beside all others
// on CDNA, and one wave issues both.

#include "kernels/attention/portable/flash_split_loads.h"

namespace rocmforge::gpu {

/// Fixes the order of the instructions in a piece of code without branches: the next `count` are of one kind. The compiler
/// loses its knowledge of memory at these marks: end_of_order() must stand between them and a barrier.
enum class Issue {
  vector = 0x2,
  matrix = 0x8,
  memory_read = 0x20,
  shared_read = 0x100,
  shared_write = 0x200,
  transcendental = 0x400
};
template <Issue kind, int count>
__device__ __forceinline__ void issue() {
  __builtin_amdgcn_sched_group_barrier(static_cast<int>(kind), count, 0);
}
/// `times` matrix instructions, each followed by so many others.
template <int times, int vector, int transcendental, int shared_reads, int shared_writes>
__device__ __forceinline__ void issue_beside_matrix() {
  if constexpr (times > 0) {
    issue<Issue::matrix, 1>();
    if constexpr (shared_reads > 0) {
      issue<Issue::shared_read, shared_reads>();
    }
    if constexpr (vector > 0) {
      issue<Issue::vector, vector>();
    }
    if constexpr (transcendental > 0) {
      issue<Issue::transcendental, transcendental>();
    }
    if constexpr (shared_writes > 0) {
      issue<Issue::shared_write, shared_writes>();
    }
    issue_beside_matrix<times - 1, vector, transcendental, shared_reads, shared_writes>();
  }
}

__device__ __forceinline__ void end_of_order() { __builtin_amdgcn_sched_barrier(0); }

/// The state of a wave: its 32 rows and its half of the keys.
template <class T, int head_dim, int row_dims = head_dim>
struct FlashSplitWave {
  using Shape = FlashSplitShape<T, head_dim, row_dims>;
  using Matrix = MatrixTile<T>;
  using C = typename Matrix::C;
  using Operand = typename Matrix::A;
  using Scores = C[Shape::row_tiles][Shape::key_tiles];
  using Pair = float __attribute__((ext_vector_type(2)));
  using Rows = float __attribute__((ext_vector_type(Shape::row_tiles)));  ///< a number for each of a lane's rows
  struct Two {
    Operand operands[2];
  };

  Two queries[Shape::row_tiles][Shape::dim_tiles / 2];
  C out[Shape::row_tiles][Shape::dim_tiles];
  Rows maximum;                ///< in units of log2
  Pair sum[Shape::row_tiles];  ///< of this lane's keys alone

  /// As settle. With more than 256 registers the sums of a wave are in those that only matrix instructions can use.
  __device__ static void settle_sums(C& c) {
    if constexpr (Shape::simd_waves == 1) {
      asm volatile("" : "+a"(c));
    } else {
      settle(c);
    }
  }

  __device__ static Two read(const T* from) { return __builtin_bit_cast(Two, *reinterpret_cast<const Bytes16*>(from)); }

  __device__ void begin() {
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) {
        out[r][d] = Matrix::zero();
      }
      maximum[r] = -infinity;
      sum[r] = Pair{};
    }
  }

  __device__ void take_queries(const T* from) {
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles / 2; ++d) {
        queries[r][d] = read(from + Shape::key_place(Shape::row(r), 4 * d + Shape::lane_part()));
      }
    }
  }

  __device__ __forceinline__ void multiply_scores(const T* keys, Scores& scores) const {
    const int lane_row = Shape::lane_row();
    const int key = 32 * Shape::half() + 8 * (lane_row >> 2) + (lane_row & 3);
    const int first = Shape::key_place(key, Shape::lane_part());
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        scores[r][t] = Matrix::zero();
      }
    }
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles / 2; ++d) {
      Two of_keys[Shape::key_tiles];
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        of_keys[t] = read(keys + (first ^ 32 * (d & 1)) + 64 * (d >> 1) + 4 * t * row_dims);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
          for (int t = 0; t < Shape::key_tiles; ++t) {
            Matrix::multiply(scores[r][t], of_keys[t].operands[i], queries[r][d].operands[i]);
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        settle(scores[r][t]);
      }
    }
  }

  /// Soft-cap and additive mask; scores are in log2 units afterwards.
  template <class Place>
  __device__ static void adjust(const Place& place, int at, Scores& scores) {
    const AttentionArgs& args = arguments_again();
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      const std::int64_t token = place.range.first_row + min(place.tile_row + Shape::row(r), place.range.q_len - 1);
      const float* mask = args.mask != nullptr ? args.mask + token * args.mask_stride : nullptr;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Matrix::c_elems; ++i) {
          scores[r][t][i] = score_log2(args, scores[r][t][i]);
          if (mask != nullptr) {
            scores[r][t][i] += log2_e * mask[min(at + Shape::first_key() + Shape::step(t, i), place.range.kv_len - 1)];
          }
        }
      }
    }
  }

  template <class Place>
  __device__ static void hide(const Place& place, int at, Scores& scores) {
    const AttentionArgs& args = arguments_again();
    const int position = place.first_position + place.tile_row + forgotten(Shape::row(0));
    const int lane_key = at + Shape::first_key();
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      const KeyRange visible = visible_keys(args, position + 16 * r, place.range.kv_len);
      const int begin = visible.begin - lane_key;
      const int end = visible.end - lane_key;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Matrix::c_elems; ++i) {
          const int step = Shape::step(t, i);
          scores[r][t][i] = step >= begin && step < end ? scores[r][t][i] : -infinity;
        }
      }
    }
  }

  /// The largest of a lane's scores of each row.
  __device__ static Rows find_largest(const Scores& scores) {
    Rows largest;
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      float found = -infinity;
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int i = 0; i < Matrix::c_elems; ++i) {
          found = fmaxf(found, scores[r][t][i]);
        }
      }
      largest[r] = found;
    }
    return largest;
  }

  /// The maximum stays until a score exceeds it by `slack`, as in FlashWave::fold_keeping.
  __device__ __forceinline__ void keep_maximum(Rows largest, float factor) {
    constexpr float slack = 8.0f;
    bool above = false;
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      above |= largest[r] * factor > maximum[r] + slack;
    }
    if (__builtin_expect_with_probability(any_of_wave(above), 0, 0.999)) {
#pragma unroll
      for (int r = 0; r < Shape::row_tiles; ++r) {
        const float now = FlashTile<T>::template reduce<Max>(largest[r]) * factor;
        const float kept = now > maximum[r] + slack ? now : maximum[r];
        const float scale = exp2_fast(maximum[r] - finite_maximum(kept));
        maximum[r] = kept;
        sum[r] *= scale;
#pragma unroll
        for (int d = 0; d < Shape::dim_tiles; ++d) {
          out[r][d] *= scale;
        }
      }
    }
  }

  /// Scores to weights, as operands.
  __device__ __forceinline__ void weigh(const Scores& scores, float factor, Operand (&weights)[Shape::row_tiles][2]) {
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      const float subtract = finite_maximum(maximum[r]);
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        C weight;
#pragma unroll
        for (int i = 0; i < Matrix::c_elems; i += 2) {
          const Pair both{scores[r][t][i], scores[r][t][i + 1]};
          const Pair power = __builtin_elementwise_fma(both, Pair{factor, factor}, Pair{-subtract, -subtract});
          const Pair found{exp2_fast(power.x), exp2_fast(power.y)};
          sum[r] += found;
          weight[i] = found.x;
          weight[i + 1] = found.y;
        }
        weights[r][t] = FlashTile<T>::weights(weight);
        settle(weights[r][t]);
      }
    }
  }

  __device__ __forceinline__ void add_values(const T* values, const Operand (&weights)[Shape::row_tiles][2]) {
    const int first = Shape::value_place(Shape::lane_row(), 4 * Shape::half() + Shape::lane_part());
#pragma unroll
    for (int d = 0; d < Shape::dim_tiles; ++d) {
      const Two of_values = read(values + (first ^ 8 * (2 * d & 7)) + 16 * d * Shape::keys);
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
#pragma unroll
        for (int r = 0; r < Shape::row_tiles; ++r) {
          Matrix::multiply(out[r][d], of_values.operands[t], weights[r][t]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int d = 0; d < Shape::dim_tiles; ++d) {
        settle_sums(out[r][d]);
      }
    }
  }

  /// Adds up the halves of the keys and writes the rows; `shared` is all of the group's shared memory. Each of the two
  /// waves of a row ends with half of its dimensions.
  template <class Place>
  __device__ void finish(const Place& place, T* shared) {
    const AttentionArgs& args = arguments_again();
    constexpr int own_tiles = Shape::dim_tiles / 2;
    auto* states = reinterpret_cast<Pair*>(shared);
    __syncthreads();
    float total[Shape::row_tiles];
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      total[r] = FlashTile<T>::template reduce<Sum>(sum[r].x + sum[r].y);
      states[64 * Shape::half() + Shape::row(r)] = Pair{maximum[r], total[r]};
    }
    __syncthreads();
    float factor[Shape::row_tiles];
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      const Pair first = states[Shape::row(r)];
      const Pair second = states[64 + Shape::row(r)];
      float largest = finite_maximum(fmaxf(first.x, second.x));
      if (args.sinks != nullptr) {
        largest = fmaxf(largest, args.sinks[place.head] * log2_e);
      }
      total[r] = first.y * exp2_fast(first.x - largest) + second.y * exp2_fast(second.x - largest);
      if (args.sinks != nullptr) {
        total[r] += exp2_fast(args.sinks[place.head] * log2_e - largest);
      }
      factor[r] = total[r] > 0.0f ? exp2_fast(maximum[r] - largest) / total[r] : 0.0f;
    }
    __syncthreads();
    const bool second = Shape::half() != 0;
    auto* parts = reinterpret_cast<C*>(shared) + lane_index();
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int d = 0; d < own_tiles; ++d) {
        const C given = (second ? out[r][d] : out[r][own_tiles + d]) * factor[r];
        parts[wave_size * ((wave_index() * Shape::row_tiles + r) * own_tiles + d)] = given;
      }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int d = 0; d < own_tiles; ++d) {
        const C kept = second ? out[r][own_tiles + d] : out[r][d];
        out[r][d] = kept * factor[r] + parts[wave_size * (((wave_index() ^ 2) * Shape::row_tiles + r) * own_tiles + d)];
      }
    }
    switch (args.io_dtype) {
      case DType::f16:
        write(args, place, static_cast<half*>(args.out));
        break;
      case DType::bf16:
        write(args, place, static_cast<bfloat16*>(args.out));
        break;
      default:
        write(args, place, static_cast<float*>(args.out));
        break;
    }
  }

 private:
  template <class Out, class Place>
  __device__ void write(const AttentionArgs& args, const Place& place, Out* to) const {
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      const int of_row = place.tile_row + Shape::row(r);
      if (of_row < place.range.q_len) {
        Out* row_out = to + (std::int64_t{place.range.first_row + of_row} * args.q_heads + place.head) * head_dim +
                       head_dim / 2 * Shape::half() + 4 * Shape::lane_part();
#pragma unroll
        for (int d = 0; d < Shape::dim_tiles / 2; ++d) {
#pragma unroll
          for (int i = 0; i < Matrix::c_elems; ++i) {
            row_out[16 * d + i] = from_float<Out>(out[r][d][i]);
          }
        }
      }
    }
  }
};

/// Query rows to shared memory, at the places of keys.
template <class Shape, class T, class Place>
__device__ inline void load_split_queries(const AttentionArgs& args, const Place& place, T* to) {
  for (int i = thread_index(); i < Shape::rows * Shape::chunks; i += Shape::threads) {
    const int row = i / Shape::chunks;
    const int chunk = i % Shape::chunks;
    const std::int64_t from = (place.range.first_row + place.tile_row + row) * args.q_stride +
                              std::int64_t{place.head} * Shape::head_dim + 8 * chunk;
    Bytes16 values{};
    const bool has_dims = Shape::row_dims == Shape::head_dim || 8 * chunk < Shape::head_dim;
    if (place.tile_row + row < place.range.q_len && has_dims) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values.words[j] =
            pack_pair<T>(load_io(args.q, args.io_dtype, from + 2 * j), load_io(args.q, args.io_dtype, from + 2 * j + 1));
      }
    }
    *reinterpret_cast<Bytes16*>(to + Shape::key_place(row, chunk)) = values;
  }
}

/// Attention of one work-group's rows. `first` and `last`: the keys that its first and its last row see; `begin`: a multiple
/// of 64.
template <class T, int head_dim, class Place>
__device__ __forceinline__ void flash_split(const AttentionArgs& args, const Place& place, KeyRange first, KeyRange last,
                                            int begin, const T* k, const T* v, T* shared) {
  using Wave = FlashSplitWave<T, head_dim>;
  using Shape = typename Wave::Shape;
  static_assert(head_dim == 128);  // the order of instructions is counted for it
  const int end = last.end;
  T* keys = shared;
  T* values = shared + Shape::key_elems;
  Wave wave;
  wave.begin();
  if (begin >= end) {
    wave.finish(place, shared);
    return;
  }
  const int sequence = place.sequence;
  const bool together = FlashTilePlace<Shape>::together(args);
  const bool changed = args.mask != nullptr || is_positive(args.soft_cap_scale);
  const float factor = changed ? 1.0f : args.scale_log2;
  const FlashSplitTable table{args.kv, sequence, end};
  FlashSplitKeys<Shape, T> key_loads;
  FlashSplitValues<Shape, T> value_loads;
  typename Wave::Scores scores;
  typename Wave::Rows largest;
  typename Wave::Operand weights[Shape::row_tiles][2];
  const auto limit = [&](int at, typename Wave::Scores& of) __attribute__((always_inline)) {
    if (changed) {
      Wave::adjust(place, at, of);
    }
    if (at < last.begin || at + Shape::keys > first.end) {
      Wave::hide(place, at, of);
    }
  };

  std::int64_t row = table.row(table.look_up(begin));                // of the tile whose K was loaded last
  FlashSplitTable::Found next = table.look_up(begin + Shape::keys);  // the tile whose K is loaded next
  key_loads.load(args, sequence, k, row, begin, end, together);
  value_loads.load(args, sequence, v, row, begin, end, together);
  load_split_queries<Shape>(args, place, values);
  key_loads.store(keys);
  sync_shared();
  wave.take_queries(values);
  row = table.row(next);
  next = table.look_up(begin + 2 * Shape::keys);
  key_loads.load(args, sequence, k, row, begin + Shape::keys, end, together);
  wave.multiply_scores(keys, scores);
  limit(begin, scores);
  largest = Wave::find_largest(scores);
  sync_shared();
  key_loads.store(keys);
  wave.keep_maximum(largest, factor);
  sync_shared();
#pragma unroll 1
  for (int at = begin; at + Shape::keys < end;) {
    const std::int64_t row_before = row;
    row = table.row(next);
    key_loads.load(args, sequence, k, row, at + 2 * Shape::keys, end, together);
    typename Wave::Scores following;
    wave.multiply_scores(keys, following);
    wave.weigh(scores, factor, weights);
    value_loads.store(values);
    // 32 matrix instructions, 8 reads, 8 writes, 16 exponentials and about 60 other vector instructions.
    issue<Issue::shared_read, 4>();
    issue_beside_matrix<4, 2, 0, 1, 0>();
    issue_beside_matrix<20, 2, 1, 0, 0>();
    issue_beside_matrix<8, 2, 0, 0, 1>();
    end_of_order();
    sync_shared();
    at += Shape::keys;
    value_loads.load(args, sequence, v, row_before, at, end, together);
    next = table.look_up(at + 2 * Shape::keys);
    limit(at, following);
    wave.add_values(values, weights);
    largest = Wave::find_largest(following);
    key_loads.store(keys);
    // 32 matrix instructions, 8 reads, 4 writes, 16 other vector instructions, half of them before the first read arrives.
    issue<Issue::shared_read, 3>();
    issue<Issue::vector, 8>();
    issue_beside_matrix<5, 1, 0, 1, 0>();
    issue_beside_matrix<23, 1, 0, 0, 0>();
    issue_beside_matrix<4, 0, 0, 0, 1>();
    end_of_order();
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        scores[r][t] = following[r][t];
      }
    }
    wave.keep_maximum(largest, factor);
    sync_shared();
  }
  wave.weigh(scores, factor, weights);
  value_loads.store(values);
  sync_shared();
  wave.add_values(values, weights);
  wave.finish(place, shared);
}

}  // namespace rocmforge::gpu
