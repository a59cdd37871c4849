#pragma once

// Decode attention with split KV. One work-group takes one query row, up to `group` query heads of one KV head (which share
// every key that is read) and one piece of the row's keys. A group of `key_lanes` lanes reads one key, once or twice eight
// dimensions in each lane. Each lane group has a softmax of its own over every 2nd, 4th, ... key, so that lanes exchange
// nothing but the sums of dot products. The last work-group of a row to arrive adds up the row's pieces in their order.

#include "kernels/attention/portable/attention.h"
#include "kernels/tile/arrival.h"

namespace rocmforge::gpu {

/// Eight neighbouring elements as floats.
template <class T>
struct Eight {
  static constexpr int words = 8 * sizeof(T) / 16;
  Bytes16 parts[words];

  __device__ void load(const T* from) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      parts[i] = reinterpret_cast<const Bytes16*>(from)[i];
    }
  }
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      parts[i] = Bytes16{};
    }
  }
  __device__ float operator[](int i) const {
    if constexpr (sizeof(T) == 4) {
      return __builtin_bit_cast(float, std::uint32_t{parts[i / 4].words[i % 4]});
    } else {
      const std::uint32_t word = parts[0].words[i / 2];
      T value;
      value.bits = static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16);
      return to_float(value);
    }
  }
};

/// Eight quants of one scale.
template <>
struct Eight<Quant> {
  std::uint32_t quants[2];
  float scale;

  __device__ void load(const Quant* from) {
    quants[0] = reinterpret_cast<const std::uint32_t*>(from)[0];
    quants[1] = reinterpret_cast<const std::uint32_t*>(from)[1];
  }
  __device__ void clear() {
    quants[0] = 0;
    quants[1] = 0;
    scale = 0.0f;
  }
  __device__ float operator[](int i) const {
    return static_cast<float>(static_cast<std::int8_t>(quants[i / 4] >> (8 * (i % 4)))) * scale;
  }
};

/// One work-group's place in the call.
struct PagedPlace {
  int sequence;
  int row;  ///< among the tokens
  KeyRange visible;
  int kv_head;
  int first_head;  ///< query head
  int heads;       ///< of this work-group
  int split;
  int split_begin;
  int split_end;
  int splits;  ///< of the row
  std::int64_t item;
};

/// The place of this work-group; `splits` is 0 when it has nothing to do.
template <int group, class Ends = OwnEnds>
__device__ inline PagedPlace paged_place(const AttentionArgs& args, Ends ends = {}) {
  PagedPlace place{};
  const int index = args.first_item + static_cast<int>(blockIdx.x);
  place.sequence = args.by_sequence ? index : args.sequence_of[index];
  const SequenceRange range = sequence_range(args, place.sequence);
  place.row = args.by_sequence ? range.first_row : index;
  if (range.q_len == 0) {
    return place;
  }
  const int position = range.kv_len - range.q_len + (place.row - range.first_row);
  place.visible = visible_keys(args, ends, place.row, position, range.kv_len);
  const int group_size = args.q_heads / args.kv_heads;
  place.kv_head = static_cast<int>(blockIdx.y) / args.group_tiles;
  const int first_of_group = static_cast<int>(blockIdx.y) % args.group_tiles * group;
  place.first_head = place.kv_head * group_size + first_of_group;
  place.heads = min(group, group_size - first_of_group);
  const int keys = max(place.visible.end - place.visible.begin, 1);  // a row without keys still writes zeros
  const int piece = keys_of_a_split(keys);
  place.split = static_cast<int>(blockIdx.z);
  place.splits = (keys + piece - 1) / piece;
  place.split_begin = place.visible.begin + place.split * piece;
  place.split_end = min(place.split_begin + piece, place.visible.end);
  place.item = std::int64_t{blockIdx.x} * gridDim.y + blockIdx.y;
  return place;
}

template <int key_lanes_, int group_, int eights_ = 1>
struct PagedShape {
  static constexpr int key_lanes = key_lanes_;
  static constexpr int group = group_;
  static constexpr int eights = eights_;  ///< of a lane
  static constexpr int lane_dims = 8 * eights;
  static constexpr int apart = 8 * key_lanes;  ///< dimensions from one eight of a lane to its next
  static constexpr int waves = 4;
  static constexpr int threads = waves * wave_size;
  static constexpr int slots = wave_size / key_lanes;        ///< keys a wave reads at once
  static constexpr int steps = group == 8 ? 2 : 4 / eights;  ///< keys a lane reads before it computes with them
  static constexpr int stride = waves * slots * steps;       ///< keys a work-group reads in one round
  static constexpr int dims = key_lanes * lane_dims;
};

/// Sums of `group` values over the lanes of a key, one value to each lane: lane l gets the sum of value
/// l * group / key_lanes, in group - 1 + log2(key_lanes / group) exchanges.
template <class Shape>
__device__ inline float scatter_sums(float (&values)[Shape::group]) {
  int mask = Shape::key_lanes / 2;
#pragma unroll
  for (int half = Shape::group / 2; half > 0; half /= 2) {
    const bool upper = (lane_index() & mask) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float mine = upper ? values[half + i] : values[i];
      const float other = upper ? values[i] : values[half + i];
      values[i] = mine + shuffle_xor(other, mask);
    }
    mask /= 2;
  }
  return wave_reduce<Sum, Shape::key_lanes / Shape::group>(values[0]);
}

/// The reverse: every lane gets all lanes' values.
template <class Shape>
__device__ inline void gather(float mine, float (&values)[Shape::group]) {
  values[0] = mine;
  int mask = Shape::key_lanes / Shape::group;
#pragma unroll
  for (int have = 1; have < Shape::group; have *= 2) {
    const bool upper = (lane_index() & mask) != 0;
#pragma unroll
    for (int i = 0; i < have; ++i) {
      const float other = shuffle_xor(values[i], mask);
      values[have + i] = upper ? values[i] : other;
      values[i] = upper ? other : values[i];
    }
    mask *= 2;
  }
}

/// What a lane reads before it computes.
template <class T, class Shape>
using Eights = Eight<T>[Shape::steps][Shape::eights];

/// One lane's part: some dimensions of every query head, and the softmax of one of them over the keys its lanes read.
template <class Shape>
struct PagedLane {
  float q[Shape::group][Shape::lane_dims];
  float out[Shape::group][Shape::lane_dims];
  float maximum;
  float sum;

  /// The query head whose softmax the lane keeps.
  __device__ static int own_head() { return lane_index() % Shape::key_lanes / (Shape::key_lanes / Shape::group); }

  /// The dimension of the lane's element j, counted from the lane's first.
  __device__ static constexpr int dim_of(int j) { return j / 8 * Shape::apart + j % 8; }

  __device__ void begin(const AttentionArgs& args, const PagedPlace& place, int dim) {
#pragma unroll
    for (int g = 0; g < Shape::group; ++g) {
      const std::int64_t from = place.row * args.q_stride + std::int64_t{place.first_head + g} * args.head_dim + dim;
#pragma unroll
      for (int j = 0; j < Shape::lane_dims; ++j) {
        const int at = dim_of(j);
        q[g][j] = g < place.heads && dim + at < args.head_dim ? load_io(args.q, args.io_dtype, from + at) : 0.0f;
        out[g][j] = 0.0f;
      }
    }
    maximum = -infinity;
    sum = 0.0f;
  }

  /// Folds `steps` keys, the first at `key`, the next `apart` further on; keys at or after the end are masked.
  template <class T>
  __device__ void fold(const AttentionArgs& args, const PagedPlace& place, int key, int apart, const Eights<T, Shape>& keys,
                       const Eights<T, Shape>& values) {
    float scores[Shape::steps];
    float now = maximum;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      float dots[Shape::group] = {};
#pragma unroll
      for (int j = 0; j < Shape::lane_dims; ++j) {
        const float k = keys[s][j / 8][j % 8];
#pragma unroll
        for (int g = 0; g < Shape::group; ++g) {
          dots[g] = __builtin_fmaf(q[g][j], k, dots[g]);
        }
      }
      const int at = key + s * apart;
      scores[s] = score_log2(args, scatter_sums<Shape>(dots));
      if (args.mask != nullptr) {
        scores[s] += log2_e * args.mask[place.row * args.mask_stride + min(at, place.split_end - 1)];
      }
      scores[s] = at < place.split_end ? scores[s] : -infinity;
      now = fmaxf(now, scores[s]);
    }
    const float subtract = finite_maximum(now);
    rescale(exp2_fast(maximum - subtract));
    maximum = now;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const float weight = exp2_fast(scores[s] - subtract);
      sum += weight;
      float weights[Shape::group];
      gather<Shape>(weight, weights);
#pragma unroll
      for (int j = 0; j < Shape::lane_dims; ++j) {
        const float v = values[s][j / 8][j % 8];
#pragma unroll
        for (int g = 0; g < Shape::group; ++g) {
          out[g][j] = __builtin_fmaf(weights[g], v, out[g][j]);
        }
      }
    }
  }

  /// Adds up the lane groups of the wave; the result is in all of them.
  __device__ void merge_slots() {
#pragma unroll
    for (int mask = Shape::key_lanes; mask < wave_size; mask *= 2) {
      const float now = fmaxf(maximum, shuffle_xor(maximum, mask));
      rescale(exp2_fast(maximum - finite_maximum(now)));
      maximum = now;
      sum += shuffle_xor(sum, mask);
#pragma unroll
      for (int g = 0; g < Shape::group; ++g) {
#pragma unroll
        for (int j = 0; j < Shape::lane_dims; ++j) {
          out[g][j] += shuffle_xor(out[g][j], mask);
        }
      }
    }
  }

 private:
  /// `factor` is that of the lane's own head.
  __device__ void rescale(float factor) {
    float factors[Shape::group];
    gather<Shape>(factor, factors);
    sum *= factor;
#pragma unroll
    for (int g = 0; g < Shape::group; ++g) {
#pragma unroll
      for (int j = 0; j < Shape::lane_dims; ++j) {
        out[g][j] *= factors[g];
      }
    }
  }
};

/// Softmax parts side by side: `count` of [group, dims] sums and [group, 2] maxima and sums of weights.
struct PagedParts {
  const float* sums;
  const float* states;
  int count;
  int group;
  int dims;
};

/// The parts of head g and one dimension added up in order: its sum, with the maximum and the sum of weights.
__device__ inline float merge_parts(const PagedParts& parts, int g, int dim, float& maximum, float& weight) {
  maximum = -infinity;
  for (int p = 0; p < parts.count; ++p) {
    maximum = fmaxf(maximum, parts.states[(p * parts.group + g) * 2]);
  }
  const float subtract = finite_maximum(maximum);
  weight = 0.0f;
  float sum = 0.0f;
  for (int p = 0; p < parts.count; ++p) {
    const float* state = parts.states + (p * parts.group + g) * 2;
    const float factor = exp2_fast(state[0] - subtract);
    weight += state[1] * factor;
    sum += parts.sums[(p * parts.group + g) * parts.dims + dim] * factor;
  }
  return sum;
}

__device__ inline void finish_row(const AttentionArgs& args, const PagedPlace& place, int g, int dim, float sum,
                                  float maximum, float weight) {
  const int head = place.first_head + g;
  float largest = finite_maximum(maximum);
  if (args.sinks != nullptr) {
    const float sink = args.sinks[head] * log2_e;
    const float now = fmaxf(largest, sink);
    const float factor = exp2_fast(largest - now);
    sum *= factor;
    weight = weight * factor + exp2_fast(sink - now);
  }
  store_io(args.out, args.io_dtype, (std::int64_t{place.row} * args.q_heads + head) * args.head_dim + dim,
           weight > 0.0f ? sum / weight : 0.0f);
}

/// Reads K and V of elements of T.
template <class T, class Shape>
struct TypedPages {
  const AttentionArgs& args;
  const PagedPlace& place;
  int dim;  ///< the lane's first

  __device__ void fold(PagedLane<Shape>& lane, int key, int apart) const {
    const std::int64_t start = place.kv_head * args.kv.head_stride + dim;
    const T* const k = static_cast<const T*>(args.kv.k) + start;
    const T* const v = static_cast<const T*>(args.kv.v) + start;
    Eights<T, Shape> keys;
    Eights<T, Shape> values;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const int at = key + s * apart;
#pragma unroll
      for (int e = 0; e < Shape::eights; ++e) {
        const int own = dim + e * Shape::apart;
        keys[s][e].clear();
        values[s][e].clear();
        if (at < place.split_end && own < args.head_dim) {
          const std::int64_t row = kv_row(args.kv, place.sequence, at) + e * Shape::apart;
          keys[s][e].load(k + row);
          values[s][e].load(v + row);
          if constexpr (sizeof(T) == 1) {
            keys[s][e].scale = kv_scale(args.kv, args.kv.k, place.sequence, at, place.kv_head, own);
            values[s][e].scale = kv_scale(args.kv, args.kv.v, place.sequence, at, place.kv_head, own);
          }
        }
      }
    }
    lane.fold(args, place, key, apart, keys, values);
  }
};

/// Grid: (rows or sequences, KV heads x tiles of their query heads, pieces of the longest row). `pages(place, dim)` makes
/// the reader of K and V.
template <class Shape, class Ends, class Pages>
__device__ inline void paged_attention_of(const AttentionArgs& args, Ends ends, Pages pages) {
  __shared__ float shared_sums[Shape::waves * Shape::group * Shape::dims];
  __shared__ float shared_states[Shape::waves * Shape::group * 2];
  const PagedPlace place = paged_place<Shape::group>(args, ends);
  if (place.split >= place.splits) {
    return;
  }
  const int slot = lane_index() / Shape::key_lanes;
  const int dim = lane_index() % Shape::key_lanes * 8;
  const auto reader = pages(place, dim);

  PagedLane<Shape> lane;
  lane.begin(args, place, dim);
  constexpr int apart = Shape::waves * Shape::slots;
  for (int base = place.split_begin; base < place.split_end; base += Shape::stride) {
    const int key = base + wave_index() * Shape::slots + slot;
    reader.fold(lane, key, apart);
  }

  lane.merge_slots();
#pragma unroll
  for (int g = 0; g < Shape::group; ++g) {
    const int at = wave_index() * Shape::group + g;
    if (slot == 0) {
#pragma unroll
      for (int j = 0; j < Shape::lane_dims; ++j) {
        shared_sums[at * Shape::dims + dim + lane.dim_of(j)] = lane.out[g][j];
      }
      if (lane.own_head() == g) {  // several lanes write the same values
        shared_states[at * 2] = lane.maximum;
        shared_states[at * 2 + 1] = lane.sum;
      }
    }
  }
  __syncthreads();

  const bool alone = place.splits == 1;
  const std::int64_t item_parts = place.item * gridDim.z;
  float* sums = args.partial_sums + item_parts * Shape::group * args.head_dim;
  float* states = args.partial_states + item_parts * Shape::group * 2;
  const PagedParts waves{shared_sums, shared_states, Shape::waves, Shape::group, Shape::dims};
  for (int i = thread_index(); i < place.heads * args.head_dim; i += Shape::threads) {
    const int g = i / args.head_dim;
    const int d = i % args.head_dim;
    float maximum;
    float weight;
    const float sum = merge_parts(waves, g, d, maximum, weight);
    if (alone) {
      finish_row(args, place, g, d, sum, maximum, weight);
    } else {
      const int at = place.split * Shape::group + g;
      sums[at * args.head_dim + d] = sum;
      if (d == 0) {
        states[at * 2] = maximum;
        states[at * 2 + 1] = weight;
      }
    }
  }
  if (alone || !last_to_arrive(args.counters + place.item, place.splits)) {
    return;
  }
  const PagedParts pieces{sums, states, place.splits, Shape::group, args.head_dim};
  for (int i = thread_index(); i < place.heads * args.head_dim; i += Shape::threads) {
    const int g = i / args.head_dim;
    const int d = i % args.head_dim;
    float maximum;
    float weight;
    const float sum = merge_parts(pieces, g, d, maximum, weight);
    finish_row(args, place, g, d, sum, maximum, weight);
  }
}

/// The same over K and V of elements of T.
template <class T, class Shape, class Ends = OwnEnds>
__device__ inline void paged_attention(const AttentionArgs& args, Ends ends = {}) {
  paged_attention_of<Shape>(args, ends, [&](const PagedPlace& place, int dim) {
    return TypedPages<T, Shape>{args, place, dim};
  });
}

}  // namespace rocmforge::gpu
