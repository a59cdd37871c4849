#pragma once

// Attention as separate steps through global memory, in f32, for any head_dim: gather K and V (one copy for each query
// head), scores, mask, softmax, values. A pass takes some sequences, query heads and rows at once.

#include "kernels/gpu/attention.h"

namespace rocmforge::gpu {

inline constexpr int composed_threads = 256;
inline constexpr int composed_tile = 64;  ///< rows and columns of a product's tile; each thread computes 4 x 4 of it
inline constexpr int composed_depth = 16;

/// What a work-group's place in the grid means: index (sequence, head) of the pass.
struct ComposedPlace {
  SequenceRange range;
  int sequence;
  int head;  ///< among all query heads
  std::int64_t matrix;
};

__device__ inline ComposedPlace composed_place(const ComposedArgs& args, int index) {
  const int sequence = args.first_sequence + index / args.heads;
  return {sequence_range(args.attention, sequence), sequence, args.first_head + index % args.heads, index};
}

/// Rows of the pass that exist in the sequence.
__device__ inline int composed_rows(const ComposedArgs& args, const ComposedPlace& place) {
  return min(place.range.q_len - args.first_row, args.row_capacity);
}

template <class T>
__device__ inline float kv_value(const KvAddress& kv, const void* data, int s, int key, int kv_head, int dim) {
  const std::int64_t index = kv_row(kv, s, key) + kv_head * kv.head_stride + dim;
  if constexpr (sizeof(T) == 1) {
    return static_cast<float>(static_cast<const T*>(data)[index].value) * kv_scale(kv, data, s, key, kv_head, dim);
  } else {
    return to_float(static_cast<const T*>(data)[index]);
  }
}

/// K and V of the pass as f32, head by query head. Grid: (pieces of keys x head_dim, sequences x heads).
template <class T>
__device__ inline void composed_gather(const ComposedArgs& args) {
  const AttentionArgs& attention = args.attention;
  const ComposedPlace place = composed_place(args, static_cast<int>(blockIdx.y));
  const int head_dim = attention.head_dim;
  const std::int64_t count = place.range.q_len > args.first_row ? std::int64_t{place.range.kv_len} * head_dim : 0;
  const int kv_head = place.head / (attention.q_heads / attention.kv_heads);
  const std::int64_t to = place.matrix * args.kv_capacity * head_dim;
  for (std::int64_t i = std::int64_t{blockIdx.x} * composed_threads + thread_index(); i < count;
       i += std::int64_t{gridDim.x} * composed_threads) {
    const auto key = static_cast<int>(i / head_dim);
    const auto dim = static_cast<int>(i % head_dim);
    args.k[to + i] = kv_value<T>(attention.kv, attention.kv.k, place.sequence, key, kv_head, dim);
    args.v[to + i] = kv_value<T>(attention.kv, attention.kv.v, place.sequence, key, kv_head, dim);
  }
}

/// The 4 x 4 sums of one thread of a 64 x 64 tile: sums[i][j] = sum over depth of a(row, d) * b(d, col), d ascending.
struct ComposedSums {
  float values[4][4] = {};

  /// `a(row, d)` and `b(col, d)` give zero outside the matrices.
  template <class A, class B>
  __device__ void add(int depth, const A& a, const B& b) {
    __shared__ float tile_a[composed_depth][composed_tile + 1];
    __shared__ float tile_b[composed_depth][composed_tile + 1];
    for (int first = 0; first < depth; first += composed_depth) {
      for (int i = thread_index(); i < composed_depth * composed_tile; i += composed_threads) {
        tile_a[i % composed_depth][i / composed_depth] = a(i / composed_depth, first + i % composed_depth);
      }
      b(first, tile_b);
      __syncthreads();
#pragma unroll
      for (int d = 0; d < composed_depth; ++d) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            values[i][j] = __builtin_fmaf(tile_a[d][row(i)], tile_b[d][col(j)], values[i][j]);
          }
        }
      }
      __syncthreads();
    }
  }

  __device__ static int row(int i) { return thread_index() / 16 + 16 * i; }
  __device__ static int col(int j) { return thread_index() % 16 + 16 * j; }
};

/// scores = scale * q k^T in units of log2, capped. Grid: (tiles of keys, tiles of rows, sequences x heads).
__device__ inline void composed_scores(const ComposedArgs& args) {
  const AttentionArgs& attention = args.attention;
  const ComposedPlace place = composed_place(args, static_cast<int>(blockIdx.z));
  const int rows = composed_rows(args, place);
  const int keys = place.range.kv_len;
  const int first_row = static_cast<int>(blockIdx.y) * composed_tile;
  const int first_key = static_cast<int>(blockIdx.x) * composed_tile;
  if (first_row >= rows || first_key >= keys) {
    return;
  }
  const int head_dim = attention.head_dim;
  const std::int64_t first_token = place.range.first_row + args.first_row;
  const float* k = args.k + place.matrix * args.kv_capacity * head_dim;
  ComposedSums sums;
  sums.add(
      head_dim,
      [&](int row, int d) {
        const std::int64_t at =
            (first_token + first_row + row) * attention.q_stride + std::int64_t{place.head} * head_dim + d;
        return first_row + row < rows && d < head_dim ? load_io(attention.q, attention.io_dtype, at) : 0.0f;
      },
      [&](int first, float(&tile)[composed_depth][composed_tile + 1]) {
        for (int i = thread_index(); i < composed_depth * composed_tile; i += composed_threads) {
          const int d = first + i % composed_depth;
          const int key = first_key + i / composed_depth;
          tile[i % composed_depth][i / composed_depth] =
              key < keys && d < head_dim ? k[std::int64_t{key} * head_dim + d] : 0.0f;
        }
      });
  float* scores = args.scores + place.matrix * args.row_capacity * args.kv_capacity;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + ComposedSums::row(i);
      const int key = first_key + ComposedSums::col(j);
      if (row < rows && key < keys) {
        scores[std::int64_t{row} * args.kv_capacity + key] = score_log2(attention, sums.values[i][j]);
      }
    }
  }
}

/// -infinity where a row does not see a key; the additive mask. Grid: (rows, sequences x heads).
__device__ inline void composed_mask(const ComposedArgs& args) {
  const AttentionArgs& attention = args.attention;
  const ComposedPlace place = composed_place(args, static_cast<int>(blockIdx.y));
  const auto row = static_cast<int>(blockIdx.x);
  if (row >= composed_rows(args, place)) {
    return;
  }
  const int of_sequence = args.first_row + row;
  const KeyRange visible = visible_keys(attention, place.range.kv_len - place.range.q_len + of_sequence, place.range.kv_len);
  const float* mask =
      attention.mask != nullptr ? attention.mask + (place.range.first_row + of_sequence) * attention.mask_stride : nullptr;
  float* scores = args.scores + (place.matrix * args.row_capacity + row) * args.kv_capacity;
  for (int key = thread_index(); key < place.range.kv_len; key += composed_threads) {
    if (key < visible.begin || key >= visible.end) {
      scores[key] = -infinity;
    } else if (mask != nullptr) {
      scores[key] += log2_e * mask[key];
    }
  }
}

/// Scores become weights; those of a row without a visible key zeros. Grid: (rows, sequences x heads).
__device__ inline void composed_softmax(const ComposedArgs& args) {
  __shared__ float scratch[composed_threads / 32];
  const ComposedPlace place = composed_place(args, static_cast<int>(blockIdx.y));
  const auto row = static_cast<int>(blockIdx.x);
  if (row >= composed_rows(args, place)) {
    return;
  }
  float* scores = args.scores + (place.matrix * args.row_capacity + row) * args.kv_capacity;
  float largest = -infinity;
  for (int key = thread_index(); key < place.range.kv_len; key += composed_threads) {
    largest = fmaxf(largest, scores[key]);
  }
  largest = block_reduce<Max>(largest, scratch, -infinity);
  const float* sinks = args.attention.sinks;
  const float sink = sinks != nullptr ? sinks[place.head] * log2_e : -infinity;
  const float subtract = finite_maximum(fmaxf(largest, sink));
  float total = 0.0f;
  for (int key = thread_index(); key < place.range.kv_len; key += composed_threads) {
    const float weight = exp2_fast(scores[key] - subtract);
    scores[key] = weight;
    total += weight;
  }
  total = block_reduce<Sum>(total, scratch, 0.0f) + exp2_fast(sink - subtract);
  const float factor = total > 0.0f ? 1.0f / total : 0.0f;
  for (int key = thread_index(); key < place.range.kv_len; key += composed_threads) {
    scores[key] *= factor;
  }
}

/// out = weights v. Grid: (tiles of head_dim, tiles of rows, sequences x heads).
__device__ inline void composed_values(const ComposedArgs& args) {
  const AttentionArgs& attention = args.attention;
  const ComposedPlace place = composed_place(args, static_cast<int>(blockIdx.z));
  const int rows = composed_rows(args, place);
  const int keys = place.range.kv_len;
  const int head_dim = attention.head_dim;
  const int first_row = static_cast<int>(blockIdx.y) * composed_tile;
  const int first_dim = static_cast<int>(blockIdx.x) * composed_tile;
  if (first_row >= rows) {
    return;
  }
  const float* weights = args.scores + place.matrix * args.row_capacity * args.kv_capacity;
  const float* v = args.v + place.matrix * args.kv_capacity * head_dim;
  ComposedSums sums;
  sums.add(
      keys,
      [&](int row, int key) {
        return first_row + row < rows && key < keys ? weights[std::int64_t{first_row + row} * args.kv_capacity + key] : 0.0f;
      },
      [&](int first, float(&tile)[composed_depth][composed_tile + 1]) {
        for (int i = thread_index(); i < composed_depth * composed_tile; i += composed_threads) {
          const int key = first + i / composed_tile;
          const int dim = first_dim + i % composed_tile;
          tile[i / composed_tile][i % composed_tile] =
              key < keys && dim < head_dim ? v[std::int64_t{key} * head_dim + dim] : 0.0f;
        }
      });
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + ComposedSums::row(i);
      const int dim = first_dim + ComposedSums::col(j);
      if (row < rows && dim < head_dim) {
        const std::int64_t token = place.range.first_row + args.first_row + row;
        store_io(attention.out, attention.io_dtype, (token * attention.q_heads + place.head) * head_dim + dim,
                 sums.values[i][j]);
      }
    }
  }
}

}  // namespace rocmforge::gpu
