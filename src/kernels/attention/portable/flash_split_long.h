#pragma once

// The loop of flash_split.h at head_dim 256. Shared memory has room for one work-group on a CU, registers for one wave on a
// SIMD, which must overlap all work itself: beside the products of each 32 dimensions it issues an eighth of the loads, of
// the softmax and of the stores to shared memory, and reads the operands of the next 32.
//
// head_dim 192 is the same without the products of the last 64 dimensions.

#include "kernels/attention/portable/flash_split.h"
#include "kernels/attention/portable/flash_split_rows.h"

namespace rocmforge::gpu {

template <class T, int head_dim>
struct FlashLongWave : FlashSplitWave<T, head_dim, 256> {
  using Base = FlashSplitWave<T, head_dim, 256>;
  using Shape = typename Base::Shape;
  using Matrix = typename Base::Matrix;
  using Pair = typename Base::Pair;
  using Two = typename Base::Two;
  using Scores = typename Base::Scores;
  using Operand = typename Base::Operand;
  using Weights = Operand[Shape::row_tiles][2];
  static constexpr int eighths = 8;                ///< of the work beside the products
  static constexpr int steps = head_dim / 32;      ///< of the products, each with an eighth of the rest or two
  static constexpr int doubled = eighths - steps;  ///< of the first steps
  static constexpr int first_eighth(int step) { return step + min_int(step, doubled); }
  static constexpr int min_int(int a, int b) { return a < b ? a : b; }

  /// Operands of 32 keys and 32 dimensions.
  __device__ __forceinline__ static void read_keys(const T* keys, int d, Two (&operands)[2]) {
    const int lane_row = Shape::lane_row();
    const int key = 32 * Shape::half() + 8 * (lane_row >> 2) + (lane_row & 3);
    const int first = Shape::key_place(key, Shape::lane_part());
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      operands[t] = Base::read(keys + (first ^ 32 * (d & 1)) + 64 * (d >> 1) + 4 * t * Shape::row_dims);
    }
  }
  __device__ __forceinline__ void multiply_keys(const Two (&operands)[2], int d, Scores& scores) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          Matrix::multiply(scores[r][t], operands[t].operands[i], this->queries[r][d].operands[i]);
        }
      }
    }
  }
  /// Operands of 32 keys and 32 dimensions.
  __device__ __forceinline__ static void read_values(const T* values, int d, Two (&operands)[2]) {
    const int first = Shape::value_place(Shape::lane_row(), 4 * Shape::half() + Shape::lane_part());
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      operands[i] = Base::read(values + (first ^ 8 * (2 * (2 * d + i) & 7)) + 16 * (2 * d + i) * Shape::keys);
    }
  }
  __device__ __forceinline__ void multiply_values(const Two (&operands)[2], int d, const Weights& weights) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          Matrix::multiply(this->out[r][2 * d + i], operands[i].operands[t], weights[r][t]);
        }
      }
    }
  }
  /// An eighth of weigh(); `weight` is what an eighth leaves to the next one.
  __device__ __forceinline__ void weigh_part(const Scores& scores, float factor, int part, typename Base::C& weight,
                                             Weights& weights) {
    const int r = part / 4;
    const int t = part / 2 % 2;
    const int i = part % 2 * 2;
    const float subtract = finite_maximum(this->maximum[r]);
    const Pair both{scores[r][t][i], scores[r][t][i + 1]};
    const Pair power = __builtin_elementwise_fma(both, Pair{factor, factor}, Pair{-subtract, -subtract});
    const Pair found{exp2_fast(power.x), exp2_fast(power.y)};
    this->sum[r] += found;
    weight[i] = found.x;
    weight[i + 1] = found.y;
    if (i == 2) {
      weights[r][t] = FlashTile<T>::weights(weight);
    }
  }
};

/// As flash_split.
template <class T, int head_dim, class Place>
__device__ __forceinline__ void flash_split_long(const AttentionArgs& args, const Place& place, KeyRange first,
                                                 KeyRange last, int begin, const T* k, const T* v, T* shared) {
  using Wave = FlashLongWave<T, head_dim>;
  using Shape = typename Wave::Shape;
  constexpr int eighths = Wave::eighths;
  const int end = last.end;
  T* keys = shared;
  T* values = shared + Shape::key_elems;
  Wave wave;
  wave.begin();
  if (begin >= end) {
    wave.finish(place, shared);
    return;
  }
  const bool changed = args.mask != nullptr || is_positive(args.soft_cap_scale);
  const float factor = changed ? 1.0f : args.scale_log2;
  const FlashRowTable table{args.kv, place.sequence, end};
  FlashRowKeys<Shape, T> key_loads;
  FlashRowValues<Shape, T> value_loads;
  typename Wave::Scores scores;
  typename Wave::Rows largest;
  typename Wave::Weights weights;
  const auto limit = [&](int at, typename Wave::Scores& of) __attribute__((always_inline)) {
    if (changed) {
      Wave::adjust(place, at, of);
    }
    if (at < last.begin || at + Shape::keys > first.end) {
      Wave::hide(place, at, of);
    }
  };

  FlashRowTable::Rows rows = table.rows(table.look_up(begin));     // of the tile whose K was read last
  FlashRowTable::Found next = table.look_up(begin + Shape::keys);  // whose K is read next
#pragma unroll
  for (int i = 0; i < eighths; ++i) {
    key_loads.load(args, k, rows, i);
    value_loads.load(args, v, rows, i);
  }
  load_split_queries<Shape>(args, place, values);
#pragma unroll
  for (int i = 0; i < eighths; ++i) {
    key_loads.store(keys, i);
  }
  sync_shared();
  wave.take_queries(values);
  rows = table.rows(next);
  next = table.look_up(begin + 2 * Shape::keys);
#pragma unroll
  for (int i = 0; i < eighths; ++i) {
    key_loads.load(args, k, rows, i);
  }
  wave.multiply_scores(keys, scores);
  limit(begin, scores);
  largest = Wave::find_largest(scores);
  sync_shared();
#pragma unroll
  for (int i = 0; i < eighths; ++i) {
    key_loads.store(keys, i);
  }
  wave.keep_maximum(largest, factor);
  sync_shared();
#pragma unroll 1
  for (int at = begin; at + Shape::keys < end;) {
    const FlashRowTable::Rows rows_before = rows;
    typename Wave::Two operands[2][2];
    Wave::read_keys(keys, 0, operands[0]);
    rows = table.rows(next);
    typename Wave::Scores following;
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        following[r][t] = Wave::Matrix::zero();
      }
    }
    typename Wave::C weight;
    end_of_order();
#pragma unroll
    for (int step = 0; step < Wave::steps; ++step) {
      if (step + 1 < Wave::steps) {
        Wave::read_keys(keys, step + 1, operands[(step + 1) % 2]);
      }
#pragma unroll
      for (int i = Wave::first_eighth(step); i < Wave::first_eighth(step + 1); ++i) {
        key_loads.load(args, k, rows, i);
        wave.weigh_part(scores, factor, i, weight, weights);
        value_loads.store(values, i);
      }
      wave.multiply_keys(operands[step % 2], step, following);
      issue<Issue::shared_read, 2>();
      issue_beside_matrix<2, 2, 1, 0, 0>();
      issue_beside_matrix<2, 2, 0, 0, 0>();
      issue<Issue::memory_read, 1>();
      issue_beside_matrix<2, 2, 0, 0, 1>();
      issue_beside_matrix<2, 2, 0, 0, 0>();
      end_of_order();
    }
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int t = 0; t < Shape::key_tiles; ++t) {
        settle(following[r][t]);
      }
    }
    sync_shared();
    at += Shape::keys;
    next = table.look_up(at + 2 * Shape::keys);
    Wave::read_values(values, 0, operands[0]);
    limit(at, following);
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
      largest[r] = -infinity;
    }
    end_of_order();
#pragma unroll
    for (int step = 0; step < Wave::steps; ++step) {
      if (step + 1 < Wave::steps) {
        Wave::read_values(values, step + 1, operands[(step + 1) % 2]);
      }
#pragma unroll
      for (int i = Wave::first_eighth(step); i < Wave::first_eighth(step + 1); ++i) {
        value_loads.load(args, v, rows_before, i);
        const auto& of = following[i / 4][i / 2 % 2];
        largest[i / 4] = fmaxf(fmaxf(largest[i / 4], of[i % 2 * 2]), of[i % 2 * 2 + 1]);
        key_loads.store(keys, i);
      }
      wave.multiply_values(operands[step % 2], step, weights);
      issue<Issue::shared_read, 2>();
      issue_beside_matrix<4, 2, 0, 0, 0>();
      issue<Issue::memory_read, 1>();
      issue_beside_matrix<1, 1, 0, 0, 1>();
      issue_beside_matrix<3, 1, 0, 0, 0>();
      end_of_order();
    }
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
#pragma unroll
  for (int i = 0; i < eighths; ++i) {
    value_loads.store(values, i);
  }
  sync_shared();
  wave.add_values(values, weights);
  wave.finish(place, shared);
}

}  // namespace rocmforge::gpu
