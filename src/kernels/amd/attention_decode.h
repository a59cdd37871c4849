#pragma once

// Decode attention over paged or dense K and V (kernels/gpu/attention_args.h): one query row of each sequence. A work-group
// takes the query heads of one KV head, up to `heads` of them, and a piece of the row's keys.
//
// A lane reads 16 bytes (of q8_0 8) of a key, so that 8, 16 or 32 lanes share one and a wave reads neighbouring keys, which
// lie in one block: its place is found with scalar reads alone. The loads of a round, all of its K and V, are on their way
// together. Dot products are summed by exchanges between neighbouring lanes; every lane then has the scores of all heads, so
// that each keeps the softmax of all of them over the keys that its lanes read. The waves' sums meet in shared memory. Where
// a row has several pieces, the last work-group to arrive adds them up in their order.
//
// Pieces begin at multiples of decode_round_keys and their number depends on a row's keys and on the device alone: a row's
// result has the same bits in any batch.

#include "kernels/amd/attention_decode_append.h"

namespace rocmforge::amd {

/// A lane's queries, sums and softmax of all heads of the work-group.
template <class Shape>
struct DecodeLane {
  float q[Shape::heads][8];
  float out[Shape::heads][8];
  float maximum[Shape::heads];
  float sum[Shape::heads];

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        out[g][j] = 0.0f;
      }
      maximum[g] = -gpu::infinity;
      sum[g] = 0.0f;
    }
  }

  /// The queries as the call was given them.
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
          q[g][j] = gpu::to_float(*(const T*)(from + dim + j));
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

  /// The queries that the work-group has turned.
  template <class Append>
  __device__ __forceinline__ void take_queries(const Append& append, const DecodePlace& place, int dim) {
#pragma unroll
    for (int g = 0; g < Shape::heads; ++g) {
      gpu::Eight<float> eight;
      eight.load(append.query(min(g, place.heads - 1)) + dim);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        q[g][j] = eight[j];
      }
    }
  }

  /// In place of the queries: nothing. For lanes behind the last dimension; once the first keys are on their way, as it
  /// waits.
  __device__ __forceinline__ void clear_unless(bool used) {
#pragma unroll
    for (auto& of_head : q) {
#pragma unroll
      for (float& value : of_head) {
        value = used ? value : 0.0f;
      }
    }
  }

  template <class T>
  __device__ __forceinline__ void fold(const gpu::AttentionArgs& args, const DecodePlace& place, int first,
                                       const LaneKey<T> (&keys)[Shape::steps]) {
    float scores[Shape::steps][Shape::heads];
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      float dots[Shape::heads] = {};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float k = LaneKey<T>::element(keys[s].k, j);
#pragma unroll
        for (int g = 0; g < Shape::heads; ++g) {
          dots[g] = __builtin_fmaf(q[g][j], k, dots[g]);
        }
      }
#pragma unroll
      for (int g = 0; g < Shape::heads; ++g) {
        scores[s][g] = sum_over<Shape::key_lanes>(dots[g] * LaneKey<T>::scale(keys[s].k));
      }
    }
    finish_scores(args, place, first, scores);
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
        scores[s][g] *= LaneKey<T>::scale(keys[s].v);
      }
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float v = LaneKey<T>::element(keys[s].v, j);
#pragma unroll
        for (int g = 0; g < Shape::heads; ++g) {
          out[g][j] = __builtin_fmaf(scores[s][g], v, out[g][j]);
        }
      }
    }
  }

  /// Dot products as scores in units of log2, -infinity for keys that the row does not see.
  __device__ __forceinline__ static void finish_scores(const gpu::AttentionArgs& args, const DecodePlace& place, int first,
                                                       float (&scores)[Shape::steps][Shape::heads]) {
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

  /// Adds up the wave's slots: of the lane's values the slot-th part remains, in the first of `own`.
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
      own[i] = out[i / 8][i % 8];
    }
    halve<Shape::values / 2, gpu::wave_size / 2>(own);
  }

 private:
  /// Of 2 * have values, the lanes whose number has the bit `mask` go on with the upper half, the others with the lower one.
  template <int have, int mask>
  __device__ __forceinline__ static void halve(float (&own)[Shape::values]) {
    if constexpr (mask >= Shape::key_lanes) {
      const bool upper = (gpu::lane_index() & mask) != 0;
#pragma unroll
      for (int i = 0; i < have; ++i) {
        float low = own[i];
        float high = own[have + i];
        asm("" : "+v"(low), "+v"(high));  // the compiler would make an index of `upper`, and look through all values for it
        own[i] = (upper ? high : low) + gpu::shuffle_xor(upper ? low : high, mask);
      }
      halve<have / 2, mask / 2>(own);
    }
  }

  __device__ __forceinline__ void rescale(int g, float factor) {
    sum[g] *= factor;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      out[g][j] *= factor;
    }
  }
};

/// Parts of a row's softmax side by side, added up in their order: `count` maxima and sums of weights of a head, one after
/// another, and sums of one output `apart` floats from each other.
struct SoftmaxParts {
  const float* maxima;
  const float* weights;
  const float* sums;
  int count;
  int apart;
};
template <int unrolled>
__device__ __forceinline__ float add_up(const SoftmaxParts& parts, float& maximum, float& weight) {
  maximum = -gpu::infinity;
#pragma unroll unrolled
  for (int p = 0; p < parts.count; ++p) {
    maximum = fmaxf(maximum, parts.maxima[p]);
  }
  const float subtract = gpu::finite_maximum(maximum);
  weight = 0.0f;
  float sum = 0.0f;
#pragma unroll unrolled
  for (int p = 0; p < parts.count; ++p) {
    const float factor = gpu::exp2_fast(parts.maxima[p] - subtract);
    weight = __builtin_fmaf(parts.weights[p], factor, weight);
    sum = __builtin_fmaf(parts.sums[p * parts.apart], factor, sum);
  }
  return sum;
}

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
  if (place.piece >= place.pieces) {
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
    LaneKey<T> keys[Shape::steps];
    reader.find(place.first, blocks);
    if (append.active()) {
      append.begin();
    } else {
      lane.read_queries(args, place, dim);
    }
    reader.load(place.first, blocks, keys);
    if (append.active()) {
      append.finish();
      lane.take_queries(append, place, dim);
    }
    lane.clear_unless(used);
    for (int base = place.first;;) {
      append.replace(reader, base, keys);
      reader.find(base + stride, blocks);  // of the last step's keys it finds the last block again
      lane.fold(args, place, base + wave * Shape::slots + slot, keys);
      base += stride;
      if (base >= place.last) {
        break;
      }
      reader.load(base, blocks, keys);
    }
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
  if (place.pieces == 1) {
    for (int i = gpu::thread_index(); i < Shape::heads * Shape::dims; i += Shape::threads) {
      const int g = i / Shape::dims;
      const int d = i % Shape::dims;
      if (g < place.heads && d < args.head_dim) {
        float maximum;
        float weight;
        const float sum = sum_of_waves(i, maximum, weight);
        finish<Shape>(args, place, g, d, sum, maximum, weight);
      }
    }
    return;
  }
  const int item = static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y);
  const std::int64_t first_part = std::int64_t{item} * gridDim.x * Shape::heads;
  float* sums = all.call.partial_sums + first_part * args.head_dim;
  float* maxima = all.call.partial_states + first_part * 2;  // [head][pieces], and then as many sums of weights
  float* weights = maxima + Shape::heads * place.pieces;
  for (int i = gpu::thread_index(); i < Shape::heads * Shape::dims; i += Shape::threads) {
    const int g = i / Shape::dims;
    const int d = i % Shape::dims;
    if (g < place.heads && d < args.head_dim) {
      float maximum;
      float weight;
      sums[(place.piece * Shape::heads + g) * args.head_dim + d] = sum_of_waves(i, maximum, weight);
      if (d == 0) {
        maxima[g * place.pieces + place.piece] = maximum;
        weights[g * place.pieces + place.piece] = weight;
      }
    }
  }
  if (!gpu::last_to_arrive(all.call.counters + item, place.pieces)) {
    return;
  }
  for (int i = gpu::thread_index(); i < Shape::heads * Shape::dims; i += Shape::threads) {
    const int g = i / Shape::dims;
    const int d = i % Shape::dims;
    if (g < place.heads && d < args.head_dim) {
      float maximum;
      float weight;
      const float sum = add_up<4>({maxima + g * place.pieces, weights + g * place.pieces, sums + g * args.head_dim + d,
                                   place.pieces, Shape::heads * args.head_dim},
                                  maximum, weight);
      finish<Shape>(args, place, g, d, sum, maximum, weight);
    }
  }
}

}  // namespace rocmforge::amd
