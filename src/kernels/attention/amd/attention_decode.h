#pragma once

// Decode attention over paged or dense K and V (kernels/attention/portable/attention_args.h): one query row of each
// sequence. A work-group takes the query heads of one KV head, up to `heads` of them, and a piece of the row's keys.
//
// A lane reads 16 bytes (of q8_0 8) of a key, so that 8, 16 or 32 lanes share a key. A wave reads neighbouring keys, which
// lie in one block, so that scalar reads suffice to find it. A lane has up to four keys in flight: K of the next keys while
// their predecessors' V is added up, and V of the next keys during their dot products. Dot products are summed by exchanges
// between neighbouring lanes; every lane then has the scores of all heads, so that each keeps the softmax of all of them
// over the keys that its lanes read. The waves' sums are added up in shared memory. Where a row has several pieces, the last
// work-group to arrive adds them up (attention_decode_pieces.h).
//
// Pieces begin at multiples of decode_round_keys and their number depends on a row's keys and on the device alone: a row's
// result has the same bits in any batch.

#include "kernels/attention/amd/attention_decode_append.h"
#include "kernels/attention/amd/attention_decode_pieces.h"

namespace rocmforge::amd {

/// A lane's queries, sums and softmax of all heads of the work-group.
template <class Shape>
struct DecodeLane {
  Pair q[Shape::heads][4];
  Pair out[Shape::heads][4];
  float maximum[Shape::heads];
  float sum[Shape::heads];

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
#pragma unroll
      for (Pair& pair : out[g]) {
        pair = 0.0f;
      }
      maximum[g] = -gpu::infinity;
      sum[g] = 0.0f;
    }
  }

  /// Reads the queries of the call.
  __device__ __forceinline__ void read_queries(const gpu::AttentionArgs& args, const DecodePlace& place, int dim) {
    const auto load = [&](auto zero) __attribute__((always_inline)) {
      using T = decltype(zero);
#pragma unroll
      for (int g = 0; g < Shape::heads; ++g) {  // those behind the last head take the last one's
        const std::int64_t head = place.first_head + min(g, place.heads - 1);
        const auto* from =
            (Global<const T>)(static_cast<const T*>(args.q) + place.row * args.q_stride + head * args.head_dim);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          q[g][j / 2][j % 2] = gpu::to_float(*(const T*)(from + dim + j));
        }
      }
    };
    switch (args.io_dtype) {
      case DType::f16:
        load(half{});
        break;
      case DType::bf16:
        load(bfloat16{});
        break;
      default:
        load(float{});
        break;
    }
  }

  /// Takes the queries that the work-group has rotated.
  template <class Append>
  __device__ __forceinline__ void take_queries(const Append& append, const DecodePlace& place, int dim) {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
      gpu::Eight<float> eight;
      eight.load(append.query(min(g, place.heads - 1)) + dim);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        q[g][j / 2][j % 2] = eight[j];
      }
    }
  }

  /// Zeros in place of the queries, for lanes after the last dimension. To be called once the first keys are in flight,
  /// because it waits for the queries.
  __device__ __forceinline__ void clear_unless(bool used) {
#pragma unroll
    for (auto& of_head : q) {
#pragma unroll
      for (Pair& pair : of_head) {
        pair = used ? pair : Pair(0.0f);
      }
    }
  }

  using Scores = float[Shape::steps][Shape::heads];

  template <class T>
  __device__ __forceinline__ void score(const gpu::AttentionArgs& args, const DecodePlace& place, int first,
                                        const LaneEight<T> (&keys)[Shape::steps], Scores& scores) const {
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      Pair dots[Shape::heads] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Pair k = keys[s].pair(i);
#pragma unroll
        for (int g = 0; g < Shape::heads; ++g) {
          dots[g] = __builtin_elementwise_fma(q[g][i], k, dots[g]);
        }
      }
#pragma unroll
      for (int g = 0; g < Shape::heads; ++g) {
        scores[s][g] = sum_over<Shape::key_lanes>((dots[g].x + dots[g].y) * keys[s].scale());
      }
    }
    finish_scores(args, place, first, scores);
  }

  template <class T>
  __device__ __forceinline__ void add_values(Scores& scores, const LaneEight<T> (&values)[Shape::steps]) {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
      float now = maximum[g];
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        now = fmaxf(now, scores[s][g]);
      }
      const float subtract = gpu::finite_maximum(now);
      rescale(g, gpu::exp2_fast(maximum[g] - subtract));
      maximum[g] = now;
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        scores[s][g] = gpu::exp2_fast(scores[s][g] - subtract);
        sum[g] += scores[s][g];
        scores[s][g] *= values[s].scale();
      }
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Pair v = values[s].pair(i);
#pragma unroll
        for (int g = 0; g < Shape::heads; ++g) {
          out[g][i] = __builtin_elementwise_fma(Pair(scores[s][g]), v, out[g][i]);
        }
      }
    }
  }

  /// Dot products as scores in units of log2, -infinity for keys that the row does not see.
  __device__ __forceinline__ static void finish_scores(const gpu::AttentionArgs& args, const DecodePlace& place, int first,
                                                       Scores& scores) {
    if (args.soft_cap_scale > 0.0f) {
#pragma unroll
      for (auto& of_key : scores) {
#pragma unroll
        for (float& score : of_key) {
          score = args.soft_cap_log2 * gpu::tanh_fast(score * args.soft_cap_scale);
        }
      }
    } else {
#pragma unroll
      for (auto& of_key : scores) {
#pragma unroll
        for (float& score : of_key) {
          score *= args.scale_log2;
        }
      }
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const int key = first + s * Shape::step_keys;
      const bool seen = key >= place.begin && key < place.last;
      if (args.mask != nullptr) {
        const float added = log2_e * args.mask[place.row * args.mask_stride + (seen ? key : place.begin)];
#pragma unroll
        for (float& score : scores[s]) {
          score += added;
        }
      }
#pragma unroll
      for (float& score : scores[s]) {
        score = seen ? score : -gpu::infinity;
      }
    }
  }

  /// Adds up the wave's slots: slot s keeps the s-th part of the lane's values, in the first elements of `own`.
  __device__ __forceinline__ void merge_slots(float (&own)[Shape::values]) {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
      float now = maximum[g];
#pragma unroll
      for (int mask = Shape::key_lanes; mask < gpu::wave_size; mask *= 2) {
        now = fmaxf(now, gpu::shuffle_xor(now, mask));
      }
      rescale(g, gpu::exp2_fast(maximum[g] - gpu::finite_maximum(now)));
      maximum[g] = now;
#pragma unroll
      for (int mask = Shape::key_lanes; mask < gpu::wave_size; mask *= 2) {
        sum[g] += gpu::shuffle_xor(sum[g], mask);
      }
    }
#pragma unroll
    for (int i = 0; i < Shape::values; ++i) {
      own[i] = out[i / 8][i % 8 / 2][i % 2];
    }
    halve<Shape::values / 2, gpu::wave_size / 2>(own);
  }

 private:
  /// Of 2 * have values, lanes whose number has the bit `mask` keep the upper half, the others the lower half.
  template <int have, int mask>
  __device__ __forceinline__ static void halve(float (&own)[Shape::values]) {
    if constexpr (mask >= Shape::key_lanes) {
      const bool upper = (gpu::lane_index() & mask) != 0;
#pragma unroll
      for (int i = 0; i < have; ++i) {
        float low = own[i];
        float high = own[have + i];
        asm("" : "+v"(low), "+v"(high));  // else the compiler indexes by `upper`, with a search through all values
        own[i] = (upper ? high : low) + gpu::shuffle_xor(upper ? low : high, mask);
      }
      halve<have / 2, mask / 2>(own);
    }
  }

  __device__ __forceinline__ void rescale(int g, float factor) {
    sum[g] *= factor;
#pragma unroll
    for (Pair& pair : out[g]) {
      pair *= factor;
    }
  }
};

template <class Shape>
__device__ __forceinline__ void finish(const gpu::AttentionArgs& args, const DecodePlace& place, int head, int dim,
                                       float sum, float maximum, float weight) {
  gpu::PagedPlace row{};
  row.row = place.row;
  row.first_head = place.first_head;
  gpu::finish_row(args, row, head, dim, sum, maximum, weight);
}

template <class T, class Shape>
__device__ __forceinline__ void attention_decode(const DecodeArgs& all) {
  const DecodeArgs read = read_arguments<T, Shape>(all);
  const gpu::AttentionArgs& args = read.call;
  __shared__ float shared_sums[Shape::waves * Shape::heads * Shape::dims];
  __shared__ float shared_maxima[Shape::heads][Shape::waves];
  __shared__ float shared_weights[Shape::heads][Shape::waves];
  const DecodePlace place = decode_place<Shape>(read);
  if (place.piece * place.each >= place.rounds) {
    return;
  }
  const int lane_dim = gpu::lane_index() % Shape::key_lanes * 8;
  const bool used = lane_dim < args.head_dim;
  const int dim = used ? lane_dim : 0;
  const int wave = uniform(gpu::wave_index());
  const int slot = gpu::lane_index() / Shape::key_lanes;
  DecodeLane<Shape> lane;
  lane.begin();
  __shared__ AppendShared<T, Shape> appended;
  DecodeAppend<T, Shape> append{all, read, place, wave, appended};
  const KeyReader<T, Shape> reader{args, place, dim, wave};
  if (place.first < place.last) {
    constexpr int stride = Shape::step_keys * Shape::steps;
    int blocks[Shape::steps];
    LaneEight<T> keys[Shape::steps];
    LaneEight<T> values[Shape::steps];
    reader.find(place.first, blocks);
    if (append.active()) {
      append.begin();
    } else {
      lane.read_queries(args, place, dim);
    }
    KeyPlaces<Shape> places = reader.locate(place.first, blocks);
    reader.load(args.kv.k, places, keys);
    reader.load(args.kv.v, places, values);
    if (append.active()) {
      append.finish();
      lane.take_queries(append, place, dim);
    }
    lane.clear_unless(used);
    int base = place.first;
    typename DecodeLane<Shape>::Scores scores;
    const auto score = [&]() __attribute__((always_inline)) {
      lane.score(args, place, base + wave * Shape::slots + slot, keys, scores);
    };
    if (base + stride < place.last) {
      reader.find(base + stride, blocks);
      do {
        score();
        base += stride;
        // The next K goes to the registers that are free now: it is on its way while V is added up, and V while dot products
        // are made.
        compute_here(scores);
        places = reader.locate(base, blocks);
        reader.load(args.kv.k, places, keys);
        schedule_barrier();
        lane.add_values(scores, values);
        compute_here(lane.out);
        reader.load(args.kv.v, places, values);
        reader.find(base + stride, blocks);  // behind the last one it finds the last block again
        schedule_barrier();
      } while (base + stride < place.last);
    }
    append.replace(reader, base, 0, keys);
    score();
    append.replace(reader, base, 1, values);
    lane.add_values(scores, values);
  }

  float own[Shape::values];
  lane.merge_slots(own);
#pragma unroll
  for (int i = 0; i < Shape::own_values; ++i) {
    const int value = slot * Shape::own_values + i;
    shared_sums[(wave * Shape::heads + value / 8) * Shape::dims + lane_dim + value % 8] = own[i];
  }
#pragma unroll
  for (int g = 0; g < Shape::heads; ++g) {
    if (gpu::lane_index() == g) {
      shared_maxima[g][wave] = lane.maximum[g];
      shared_weights[g][wave] = lane.sum[g];
    }
  }
  sync_shared();

  const auto sum_of_waves = [&](int i, float& maximum, float& weight) __attribute__((always_inline)) {
    const int g = i / Shape::dims;
    return add_up<Shape::waves>(
        {shared_maxima[g], shared_weights[g], shared_sums + i, Shape::waves, Shape::heads * Shape::dims}, maximum, weight);
  };
  const auto each_output = [&](const auto& take) __attribute__((always_inline)) {
    for (int i = gpu::thread_index(); i < Shape::heads * Shape::dims; i += Shape::threads) {
      const int g = i / Shape::dims;
      const int d = i % Shape::dims;
      if (g < place.heads && d < args.head_dim) {
        float maximum;
        float weight;
        const float sum = sum_of_waves(i, maximum, weight);
        take(g, d, sum, maximum, weight);
      }
    }
  };
  const auto finish_output = [&](int g, int d, float sum, float maximum, float weight) __attribute__((always_inline)) {
    finish<Shape>(args, place, g, d, sum, maximum, weight);
  };
  if (place.each >= place.rounds) {
    each_output(finish_output);
    return;
  }
  const int item = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  const PieceSums pieces = piece_sums<Shape>(all.call, item);
  each_output([&](int g, int d, float sum, float maximum, float weight) __attribute__((always_inline)) {
    pieces.sums[(place.piece * Shape::heads + g) * args.head_dim + d] = sum;
    if (d == 0) {
      pieces.maxima[g * pieces.most + place.piece] = maximum;
      pieces.weights[g * pieces.most + place.piece] = weight;
    }
  });
  const int count = place.pieces();
  if (!gpu::last_to_arrive(all.call.counters + item, count)) {
    return;
  }
  __shared__ PieceShared<Shape> of_pieces;
  PieceAdder<Shape>(pieces, count, place.heads, args.head_dim, of_pieces, shared_sums).run(finish_output);
}

}  // namespace rocmforge::amd
