// Attention over a latent plane: latent_TYPE. The append of its rows: latent_append_TYPE.
//
// A work-group takes one query row, up to 32 query heads and one piece of the row's keys, as paged.h does. Eight keys at a
// time come into shared memory as floats, once for all heads; a wave takes four heads, its lanes every 32nd or 64th
// dimension of q and of the sums. A key's row is read twice: as K for the scores, its first part as V.

#include "kernels/attention/portable/latent_args.h"
#include "kernels/attention/portable/latent_finish.h"
#include "kernels/attention/portable/paged.h"
#include "kernels/tile/turn.h"

namespace rocmforge::gpu {
namespace {

struct LatentShape {
  static constexpr int key_lanes = wave_size;
  static constexpr int group = latent_wave_heads;
  static constexpr int keys = 8;  ///< of a tile
  /// Keys whose scores a lane has before it adds up their values: as many as registers hold.
  static constexpr int steps = ROCMFORGE_DEVICE_AMD ? 4 : 2;
  static constexpr int dims = latent_dims / wave_size;
  static constexpr int values = latent_values / wave_size;
  static constexpr int threads = latent_group / group * wave_size;
};

using LatentTile = float[LatentShape::keys][latent_dims];

/// Keys [first, first + keys) as floats, zeros past `end` and past head_dim.
template <class T>
__device__ void stage_latents(const AttentionArgs& args, const PagedPlace& place, int first, LatentTile& tile) {
  constexpr int units = latent_dims / 8;
  const T* plane = static_cast<const T*>(args.kv.k) + place.kv_head * args.kv.head_stride;
  for (int i = thread_index(); i < LatentShape::keys * units; i += static_cast<int>(blockDim.x)) {
    const int key = first + i / units;
    const int dim = i % units * 8;
    Eight<T> eight;
    eight.clear();
    if (key < place.split_end && dim < args.head_dim) {
      eight.load(plane + kv_row(args.kv, place.sequence, key) + dim);
      if constexpr (sizeof(T) == 1) {
        eight.scale = kv_scale(args.kv, args.kv.k, place.sequence, key, place.kv_head, dim);
      }
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      tile[i / units][dim + j] = eight[j];
    }
  }
}

/// A lane's part of four heads, and the softmax of one of them.
struct LatentLane {
  float q[LatentShape::group][LatentShape::dims];
  float out[LatentShape::group][LatentShape::values];
  float maximum;
  float sum;

  __device__ __forceinline__ void begin(const AttentionArgs& args, const PagedPlace& place, int first_head, int heads) {
#pragma unroll
    for (int g = 0; g < LatentShape::group; ++g) {
      const std::int64_t from = place.row * args.q_stride + std::int64_t{place.first_head + first_head + g} * args.head_dim;
#pragma unroll
      for (int i = 0; i < LatentShape::dims; ++i) {
        const int dim = lane_index() + i * wave_size;
        q[g][i] = g < heads && dim < args.head_dim ? load_io(args.q, args.io_dtype, from + dim) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < LatentShape::values; ++i) {
        out[g][i] = 0.0f;
      }
    }
    maximum = -infinity;
    sum = 0.0f;
  }

  __device__ __forceinline__ float score(const AttentionArgs& args, const PagedPlace& place, const float* row,
                                         int key) const {
    float dots[LatentShape::group] = {};
#pragma unroll
    for (int i = 0; i < LatentShape::dims; ++i) {
      const float k = row[lane_index() + i * wave_size];
#pragma unroll
      for (int g = 0; g < LatentShape::group; ++g) {
        dots[g] = __builtin_fmaf(q[g][i], k, dots[g]);
      }
    }
    float score = score_log2(args, scatter_sums<LatentShape>(dots));
    if (args.mask != nullptr) {
      score += log2_e * args.mask[place.row * args.mask_stride + min(key, place.split_end - 1)];
    }
    return key < place.split_end ? score : -infinity;
  }

  /// Folds `steps` keys, the first at `key` with its row at `rows`.
  __device__ __forceinline__ void fold(const AttentionArgs& args, const PagedPlace& place, const float* rows, int key) {
    float scores[LatentShape::steps];
    float now = maximum;
#pragma unroll
    for (int j = 0; j < LatentShape::steps; ++j) {
      scores[j] = score(args, place, rows + j * latent_dims, key + j);
      now = fmaxf(now, scores[j]);
    }
    const float subtract = finite_maximum(now);
    rescale(exp2_fast(maximum - subtract));
    maximum = now;
#pragma unroll
    for (int j = 0; j < LatentShape::steps; ++j) {
      const float weight = exp2_fast(scores[j] - subtract);
      sum += weight;
      float weights[LatentShape::group];
      gather<LatentShape>(weight, weights);
#pragma unroll
      for (int i = 0; i < LatentShape::values; ++i) {
        const float v = rows[j * latent_dims + lane_index() + i * wave_size];
#pragma unroll
        for (int g = 0; g < LatentShape::group; ++g) {
          out[g][i] = __builtin_fmaf(weights[g], v, out[g][i]);
        }
      }
    }
  }

 private:
  /// `factor` is that of the lane's own head.
  __device__ __forceinline__ void rescale(float factor) {
    float factors[LatentShape::group];
    gather<LatentShape>(factor, factors);
    sum *= factor;
#pragma unroll
    for (int g = 0; g < LatentShape::group; ++g) {
#pragma unroll
      for (int i = 0; i < LatentShape::values; ++i) {
        out[g][i] *= factors[g];
      }
    }
  }
};

/// A wave's heads, `first` being its first in the work-group: to the output, or to the piece's part.
__device__ __forceinline__ void store_heads(const AttentionArgs& args, const PagedPlace& place, const LatentLane& lane,
                                            int first, int heads, float* sums, float* states) {
  float maxima[LatentShape::group];
  float weights[LatentShape::group];
  gather<LatentShape>(lane.maximum, maxima);
  gather<LatentShape>(lane.sum, weights);
#pragma unroll
  for (int g = 0; g < LatentShape::group; ++g) {
    if (g >= heads) {
      continue;
    }
    const int at = place.split * latent_group + first + g;
#pragma unroll
    for (int i = 0; i < LatentShape::values; ++i) {
      const int dim = lane_index() + i * wave_size;
      if (dim < args.value_dim && place.splits == 1) {
        finish_latent(args, place, first + g, dim, lane.out[g][i], maxima[g], weights[g]);
      } else if (dim < args.value_dim) {
        sums[at * args.value_dim + dim] = lane.out[g][i];
      }
    }
    if (place.splits > 1 && lane_index() == 0) {
      states[at * 2] = maxima[g];
      states[at * 2 + 1] = weights[g];
    }
  }
}

/// Grid: (rows or sequences, planes x tiles of their query heads, pieces of the longest row).
template <class T>
__device__ __forceinline__ void latent_attention(const AttentionArgs& args) {
  __shared__ LatentTile tile;
  const PagedPlace place = paged_place<latent_group>(args);
  if (place.split >= place.splits) {
    return;
  }
  const int first = wave_index() * LatentShape::group;
  const int heads = min(max(place.heads - first, 0), LatentShape::group);
  LatentLane lane;
  lane.begin(args, place, first, heads);
  for (int key = place.split_begin; key < place.split_end; key += LatentShape::keys) {
    __syncthreads();
    stage_latents<T>(args, place, key, tile);
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < LatentShape::keys; j += LatentShape::steps) {
      lane.fold(args, place, tile[j], key + j);
    }
  }
  const std::int64_t item_parts = place.item * gridDim.z;
  float* sums = args.partial_sums + item_parts * latent_group * args.value_dim;
  float* states = args.partial_states + item_parts * latent_group * 2;
  store_heads(args, place, lane, first, heads, sums, states);
  if (place.splits == 1 || !last_to_arrive(args.counters + place.item, place.splits)) {
    return;
  }
  const PagedParts pieces{sums, states, place.splits, latent_group, args.value_dim};
  for (int i = thread_index(); i < place.heads * args.value_dim; i += static_cast<int>(blockDim.x)) {
    const int g = i / args.value_dim;
    const int d = i % args.value_dim;
    float maximum;
    float weight;
    const float sum = merge_parts(pieces, g, d, maximum, weight);
    finish_latent(args, place, g, d, sum, maximum, weight);
  }
}

/// Elements `first` and `second`, which turn together.
struct TurnedPair {
  int first;
  int second;
};
__device__ TurnedPair turned_pair(const LatentAppendArgs& args, int p) {
  return args.adjacent != 0 ? TurnedPair{2 * p, 2 * p + 1} : TurnedPair{p, p + args.pairs};
}

/// `row` [head_dim], shared memory, to position `slot` of a block.
template <class T>
__device__ void store_row(const LatentAppendArgs& args, const float* row, T* block, int slot) {
  for (int dim = thread_index(); dim < args.head_dim; dim += latent_append_threads) {
    block[slot * args.head_dim + dim] = from_float<T>(row[dim]);
  }
}
template <>
__device__ void store_row<Quant>(const LatentAppendArgs& args, const float* row, Quant* block, int slot) {
  constexpr int group = kv_quant_dims;
  half* const scales = reinterpret_cast<half*>(block + (std::int64_t{args.head_dim} << args.block_shift));
  for (int first = 0; first < args.head_dim; first += latent_append_threads) {
    const int dim = first + thread_index();
    const bool inside = dim < args.head_dim;
    const float value = inside ? row[dim] : 0.0f;
    const half scale = from_float<half>(wave_reduce<Max, group>(fabsf(value)) * (1.0f / 127.0f));
    const float unit = to_float(scale);
    const float quant = unit > 0.0f ? fminf(fmaxf(rintf(value / unit), -127.0f), 127.0f) : 0.0f;
    if (inside) {
      block[slot * args.head_dim + dim].value = static_cast<std::int8_t>(quant);
    }
    if (inside && dim % group == 0) {
      scales[slot * (args.head_dim / group) + dim / group] = scale;
    }
  }
}

/// Turns the last elements of every query head of a token.
__device__ void turn_queries(const LatentAppendArgs& args, std::int64_t token, const Turn* turns) {
  float* q = args.q + token * args.q_stride + args.q_dim - 2 * args.pairs;
#pragma unroll 4
  for (int i = thread_index(); i < args.q_heads * args.pairs; i += latent_append_threads) {
    const TurnedPair pair = turned_pair(args, i % args.pairs);
    const Turn turn = turns[i % args.pairs];
    float* head = q + i / args.pairs * args.q_dim;
    const float first = head[pair.first];
    const float second = head[pair.second];
    head[pair.first] = first * turn.cosine - second * turn.sine;
    head[pair.second] = first * turn.sine + second * turn.cosine;
  }
}

/// Applies the temperature to all query heads of a token.
__device__ void scale_queries(const LatentAppendArgs& args, std::int64_t token, std::int32_t position) {
  const float factor = 1.0f + args.temperature_scale * logf(static_cast<float>(1 + position / args.temperature_length));
  float* q = args.q + token * args.q_stride;
  for (int i = thread_index(); i < args.q_heads * args.q_dim; i += latent_append_threads) {
    q[i] *= factor;
  }
}

/// Writes the latent row of a token to `row` in shared memory, which holds the weights of the norm before.
__device__ void make_row(const LatentAppendArgs& args, std::int64_t token, const Turn* turns, float* row, float* scratch) {
  const float* kv = args.kv + token * args.kv_stride;
  float squares = 0.0f;
  for (int dim = thread_index(); dim < args.rank; dim += latent_append_threads) {
    squares += kv[dim] * kv[dim];
  }
  squares = block_reduce<Sum>(squares, scratch, 0.0f);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(args.rank) + args.norm_eps);
  for (int dim = thread_index(); dim < args.rank; dim += latent_append_threads) {
    row[dim] *= kv[dim] * scale;
  }
  for (int dim = args.rank + 2 * args.pairs + thread_index(); dim < args.head_dim; dim += latent_append_threads) {
    row[dim] = kv[dim];
  }
  for (int p = thread_index(); p < args.pairs; p += latent_append_threads) {
    const TurnedPair pair = turned_pair(args, p);
    const float first = kv[args.rank + pair.first];
    const float second = kv[args.rank + pair.second];
    row[args.rank + pair.first] = first * turns[p].cosine - second * turns[p].sine;
    row[args.rank + pair.second] = first * turns[p].sine + second * turns[p].cosine;
  }
}

template <class T>
__device__ void latent_append(const LatentAppendArgs& args, Turn* turns) {
  __shared__ float scratch[latent_append_threads / 32];
  release_successor();
  const std::int64_t token = blockIdx.x;
  const std::int32_t sequence = args.sequence_of[token];
  const std::int32_t position = args.positions[token];
  const std::int32_t kv_len = args.kv_lengths[sequence];
  const bool is_padding = kv_len == 0;  // the whole work-group sees the same
  const std::int32_t cell = kv_len - args.query_offsets[sequence + 1] + static_cast<std::int32_t>(token);
  const std::int64_t entry = std::int64_t{sequence} * args.max_blocks + (cell >> args.block_shift);
  const std::int64_t block = is_padding ? 0 : args.block_tables[entry];
  float* row = floats_behind(turns, args.pairs);
  for (int p = thread_index(); p < args.pairs; p += latent_append_threads) {
    turns[p] = turn_of(static_cast<float>(position), args.inverse_frequency[p], args.magnitude);
  }
  for (int dim = thread_index(); dim < args.rank; dim += latent_append_threads) {
    row[dim] = args.norm[dim];
  }
  wait_for_predecessor();
  if (is_padding) {
    return;
  }
  if (args.temperature_scale != 0.0f) {
    scale_queries(args, token, position);
  }
  __syncthreads();
  turn_queries(args, token, turns);
  make_row(args, token, turns, row, scratch);
  __syncthreads();
  store_row(args, row, static_cast<T*>(args.cache) + block * args.block_elems, cell & ((1 << args.block_shift) - 1));
}

extern __shared__ Turn latent_turns[];  // turn_shared_bytes(pairs, head_dim)

}  // namespace

// By the type of the cache.
#define ROCMFORGE_LATENT(name, type)                                                                      \
  ROCMFORGE_KERNEL __launch_bounds__(LatentShape::threads) latent_##name(AttentionArgs args) {            \
    latent_attention<type>(args);                                                                         \
  }                                                                                                       \
  ROCMFORGE_KERNEL __launch_bounds__(latent_append_threads) latent_append_##name(LatentAppendArgs args) { \
    latent_append<type>(args, latent_turns);                                                              \
  }

ROCMFORGE_LATENT(f16, half)
ROCMFORGE_LATENT(bf16, bfloat16)
ROCMFORGE_LATENT(f32, float)
ROCMFORGE_LATENT(q8_0, Quant)

}  // namespace rocmforge::gpu
