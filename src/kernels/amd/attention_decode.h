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

#include "kernels/amd/attention_decode_args.h"
#include "kernels/amd/tile.h"
#include "kernels/gpu/matmul_bytes.h"
#include "kernels/gpu/paged.h"

namespace rocmforge::amd {

template <int heads_, int dims_>
struct DecodeShape {
  static constexpr int heads = heads_;
  static constexpr int dims = dims_;
  static constexpr int key_lanes = dims / 8;
  static constexpr int slots = gpu::wave_size / key_lanes;  ///< keys that a wave reads at once
  static constexpr int threads = decode_threads(heads, dims);
  static constexpr int waves = threads / gpu::wave_size;
  static constexpr int step_keys = waves * slots;
  /// Keys of a lane's round whose K and V are on their way together: registers allow for four.
  static constexpr int steps = decode_round_keys / step_keys < 4 ? decode_round_keys / step_keys : 4;
  static constexpr int values = heads * 8;           ///< of a lane's sums
  static constexpr int own_values = values / slots;  ///< of these, once the wave's slots are added up
  static_assert(decode_round_keys % (step_keys * steps) == 0 && values % slots == 0);
};

/// What the host wrote before the kernel started and nobody writes meanwhile: scalar reads.
template <class T>
using Constant = const __attribute__((address_space(4))) T*;
__device__ __forceinline__ int read_constant(const std::int32_t* from, int index) {
  return ((Constant<std::int32_t>)from)[index];
}

/// The arguments, read at once and kept: nothing is read where it is first needed, or again in a loop.
__device__ __forceinline__ DecodeArgs read_arguments(const DecodeArgs& from) {
  DecodeArgs args = from;
  gpu::AttentionArgs& call = args.call;
  gpu::KvAddress& kv = call.kv;
  asm volatile(""
               : "+s"(call.q), "+s"(call.out), "+s"(kv.k), "+s"(kv.v), "+s"(kv.block_tables), "+s"(kv.block_stride),
                 "+s"(kv.token_stride), "+s"(kv.head_stride), "+s"(kv.max_blocks), "+s"(kv.block_shift),
                 "+s"(call.query_offsets), "+s"(call.kv_lengths), "+s"(call.q_stride), "+s"(call.q_heads),
                 "+s"(call.head_dim));
  asm volatile(""
               : "+s"(call.sinks), "+s"(call.mask), "+s"(call.io_dtype), "+s"(call.rows), "+s"(call.causal),
                 "+s"(call.window), "+s"(call.scale_log2), "+s"(call.soft_cap_scale), "+s"(call.soft_cap_log2),
                 "+s"(call.first_item), "+s"(call.group_tiles), "+s"(args.group), "+s"(args.pieces), "+s"(args.tile_factor));
  return args;
}

/// A work-group's part of the call.
struct DecodePlace {
  int sequence;
  int row;  ///< among the tokens
  int kv_head;
  int first_head;  ///< query head
  int heads;
  int begin;  ///< keys that the row sees
  int end;
  int first;  ///< key of the piece, a multiple of decode_round_keys
  int last;   ///< key behind it
  int piece;
  int pieces;
};

/// `pieces` 0: nothing to do.
template <class Shape>
__device__ __forceinline__ DecodePlace decode_place(const DecodeArgs& all) {
  const gpu::AttentionArgs& args = all.call;
  DecodePlace place{};
  const int index = static_cast<int>(blockIdx.z);
  place.sequence = args.first_item + index;
  const int y = static_cast<int>(blockIdx.y);
  place.kv_head = static_cast<int>(static_cast<unsigned>(y) * all.tile_factor >> 16);
  const int tile = y - place.kv_head * args.group_tiles;
  place.first_head = place.kv_head * all.group + tile * Shape::heads;
  place.heads = min(Shape::heads, all.group - tile * Shape::heads);
  place.row = read_constant(args.query_offsets, place.sequence);
  const int q_len = read_constant(args.query_offsets, place.sequence + 1) - place.row;
  const int kv_len = read_constant(args.kv_lengths, place.sequence);
  if (q_len == 0 || (args.rows != 0 && (args.rows == 1) != (q_len == 1))) {
    return place;
  }
  const gpu::KeyRange visible = gpu::visible_keys(args, kv_len - q_len, kv_len);
  place.begin = visible.begin;
  place.end = visible.end;
  const int first_round = visible.begin / decode_round_keys;
  // A row without keys still writes zeros.
  const int rounds = max((visible.end + decode_round_keys - 1) / decode_round_keys - first_round, 1);
  int each = 1;
  place.pieces = rounds;
  if (rounds > all.pieces) {
    each = (rounds + all.pieces - 1) / all.pieces;
    place.pieces = (rounds + each - 1) / each;
  }
  place.piece = static_cast<int>(blockIdx.x);
  place.first = (first_round + place.piece * each) * decode_round_keys;
  place.last = min(place.first + each * decode_round_keys, place.end);
  return place;
}

/// value + that of lane (own ^ mask). The exchange stays an instruction of its own, whose result is not its source: an
/// emulator that takes lane after lane would read what it has just written.
template <int mask>
__device__ __forceinline__ float add_other(float value) {
  float other = exchange<mask>(value);
  asm("" : "+v"(value), "+v"(other));  // nor is the sum made one with a product before it, which would differ between lanes
  return value + other;
}

/// The sum over the lanes of a key, in all of them.
template <int lanes>
__device__ __forceinline__ float sum_over(float value) {
  value = add_other<1>(value);
  value = add_other<2>(value);
  value = add_other<7>(value);
  if constexpr (lanes >= 16) {
    value = add_other<15>(value);
  }
  if constexpr (lanes >= 32) {
    value += gpu::shuffle_xor(value, 16);
  }
  return value;
}

/// A key's eight elements of a lane, of K and of V, untouched.
template <class T>
struct LaneKey {
  gpu::Eight<T> k;
  gpu::Eight<T> v;

  /// Elements of q8_0 have no scale of their own yet.
  __device__ static float element(const gpu::Eight<T>& eight, int j) {
    if constexpr (sizeof(T) == 1) {
      return static_cast<float>(static_cast<std::int8_t>(eight.quants[j / 4] >> (8 * (j % 4))));
    } else {
      return eight[j];
    }
  }
  __device__ static float scale(const gpu::Eight<T>& eight) {
    if constexpr (sizeof(T) == 1) {
      return eight.scale;
    } else {
      return 1.0f;
    }
  }
};

/// Where a round's keys lie; all lanes that share a key, and all keys that a wave reads at once, are in one block.
template <class T, class Shape>
struct KeyReader {
  const gpu::AttentionArgs& args;
  const DecodePlace& place;
  int dim;   ///< of the lane, or 0 behind the last one
  int wave;  ///< the same for all lanes, as the compiler knows

  /// The first key of the wave in step s of the steps from `base` on.
  __device__ __forceinline__ int first_key(int base, int s) const {
    return base + s * Shape::step_keys + wave * Shape::slots;
  }
  /// The lane's, inside of what the row sees.
  __device__ __forceinline__ int key(int base, int s) const {
    return min(max(first_key(base, s) + gpu::lane_index() / Shape::key_lanes, place.begin), place.end - 1);
  }
  /// The block of each step: scalar reads, none of which waits for another.
  __device__ __forceinline__ void find(int base, int (&blocks)[Shape::steps]) const {
    if (args.kv.block_tables == nullptr) {
      return;
    }
    const std::int32_t* table = args.kv.block_tables + std::int64_t{place.sequence} * args.kv.max_blocks;
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {  // the wave's keys lie in one block, so that any one's will do
      const int any = min(max(first_key(base, s) + Shape::slots - 1, place.begin), place.end - 1);
      blocks[s] = read_constant(table, any >> args.kv.block_shift);
    }
  }
  __device__ __forceinline__ void load(int base, const int (&blocks)[Shape::steps], LaneKey<T> (&keys)[Shape::steps]) const {
    const gpu::KvAddress& kv = args.kv;
    const int within = (1 << kv.block_shift) - 1;
    const int row_bytes = static_cast<int>(kv.token_stride * static_cast<int>(sizeof(T)));
    const std::int64_t head = place.kv_head * kv.head_stride * static_cast<int>(sizeof(T));
    std::int64_t at[Shape::steps];
    int token[Shape::steps];
    if (kv.block_tables == nullptr) {
      const std::int64_t sequence = place.sequence * kv.sequence_stride * static_cast<int>(sizeof(T));
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        const int first = max(min(first_key(base, s), place.end - 1) - (Shape::slots - 1), 0);
        at[s] = head + sequence + std::int64_t{first} * row_bytes;
        token[s] = key(base, s) - first;
      }
    } else {
      const auto block_bytes = static_cast<std::uint32_t>(kv.block_stride * static_cast<int>(sizeof(T)));
#pragma unroll
      for (int s = 0; s < Shape::steps; ++s) {
        at[s] = head + static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(blocks[s])} * block_bytes);
        token[s] = key(base, s) & within;
      }
    }
#pragma unroll
    for (int s = 0; s < Shape::steps; ++s) {
      const auto k = uniform(static_cast<const std::uint8_t*>(kv.k) + at[s]);
      const auto v = uniform(static_cast<const std::uint8_t*>(kv.v) + at[s]);
      const auto lane = static_cast<unsigned>(token[s] * row_bytes + dim * static_cast<int>(sizeof(T)));
      load_eight_of(k, lane, keys[s].k);
      load_eight_of(v, lane, keys[s].v);
      if constexpr (sizeof(T) == 1) {
        const auto groups = static_cast<unsigned>(kv.token_stride) / 32;
        const unsigned scale = (static_cast<unsigned>(token[s]) * groups + static_cast<unsigned>(dim) / 32) * 2;
        keys[s].k.scale = gpu::half_of_word(load_at<std::uint16_t>(k + kv.quant_bytes, scale, 0), 0);
        keys[s].v.scale = gpu::half_of_word(load_at<std::uint16_t>(v + kv.quant_bytes, scale, 0), 0);
      }
    }
  }

 private:
  __device__ static __forceinline__ void load_eight_of(GlobalBytes address, unsigned lane, gpu::Eight<T>& eight) {
    if constexpr (sizeof(T) == 1) {
      const auto words = load_at<uint2>(address, lane, 0);
      eight.quants[0] = words.x;
      eight.quants[1] = words.y;
    } else {
      eight.parts[0] = load_at<gpu::Bytes16>(address, lane, 0);
    }
  }
};

/// A lane's queries, sums and softmax of all heads of the work-group.
template <class Shape>
struct DecodeLane {
  float q[Shape::heads][8];
  float out[Shape::heads][8];
  float maximum[Shape::heads];
  float sum[Shape::heads];

  __device__ __forceinline__ void begin(const gpu::AttentionArgs& args, const DecodePlace& place, int dim) {
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

  /// In place of what `begin` read: nothing. For lanes behind the last dimension; once the first keys are on their way, as
  /// it waits.
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
  const DecodeArgs read = read_arguments(all);
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
  lane.begin(args, place, dim);
  const KeyReader<T, Shape> reader{args, place, dim, wave};
  if (place.first < place.last) {
    constexpr int stride = Shape::step_keys * Shape::steps;
    int blocks[Shape::steps];
    LaneKey<T> keys[Shape::steps];
    reader.find(place.first, blocks);
    reader.load(place.first, blocks, keys);
    lane.clear_unless(used);
    for (int base = place.first;;) {
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
