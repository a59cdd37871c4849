// Attention over a latent plane on matrix cores: latent_matrix_TYPE, then latent_merge.
//
// A work-group takes one query row, 16 query heads as the rows of its tiles and one piece of the row's keys, 32 keys at a
// time, which all heads share. Its four waves compute scores (two tiles of 16 keys, each in two halves of the dimensions,
// added up through shared memory), then a quarter of the values' dimensions each. Rows with one piece are finished here;
// other rows leave sums for latent_merge, where every head has work-groups of its own.

#include "kernels/attention/portable/flash_tile.h"
#include "kernels/attention/portable/latent_args.h"
#include "kernels/attention/portable/latent_finish.h"
#include "kernels/attention/portable/paged.h"

namespace rocmforge::gpu {
namespace {

template <class T>
struct MatrixShape {
  using Tile = MatrixTile<T>;
  static constexpr int heads = latent_matrix_heads;
  static constexpr int keys = latent_matrix_keys;
  static constexpr int waves = 4;
  static constexpr int threads = waves * wave_size;
  static constexpr int stages = latent_matrix_stages(!ROCMFORGE_DEVICE_AMD);
  static constexpr int stride = latent_matrix_stride;
  static constexpr int wave_dims = latent_values / waves;
  static constexpr int dim_tiles = wave_dims / 16;
  static constexpr int weight_stride = latent_matrix_weight_stride;
  static constexpr int lanes = 8;  ///< that share a head's softmax
  static constexpr int lane_keys = keys / lanes;
};

/// The parts of a work-group's shared memory.
template <class T>
struct MatrixMemory {
  using Shape = MatrixShape<T>;
  T* queries;
  T* keys;
  float* scores;
  T* weights;
  float* factors;
  float* maxima;
  float* sums;

  __device__ explicit MatrixMemory(Bytes16* memory) {
    static_assert(sizeof(T) == 2);
    constexpr LatentMatrixShared at = latent_matrix_shared(Shape::stages);
    char* const bytes = reinterpret_cast<char*>(memory);
    queries = reinterpret_cast<T*>(bytes);
    keys = reinterpret_cast<T*>(bytes + at.keys);
    scores = reinterpret_cast<float*>(bytes + at.scores);
    weights = reinterpret_cast<T*>(bytes + at.weights);
    factors = reinterpret_cast<float*>(bytes + at.factors);
    maxima = reinterpret_cast<float*>(bytes + at.maxima);
    sums = reinterpret_cast<float*>(bytes + at.sums);
  }
  __device__ T* stage(int tile) const { return keys + tile % Shape::stages * Shape::keys * Shape::stride; }
};

/// The place of the work-group, with pieces of latent_piece_keys() keys.
__device__ inline PagedPlace latent_place(const AttentionArgs& args) {
  PagedPlace place = paged_place<latent_matrix_heads>(args);
  if (place.splits > 0) {
    const int keys = max(place.visible.end - place.visible.begin, 1);
    const int piece = latent_piece_keys(keys);
    place.splits = (keys + piece - 1) / piece;
    place.split_begin = place.visible.begin + place.split * piece;
    place.split_end = min(place.split_begin + piece, place.visible.end);
  }
  return place;
}

/// Queries of 16 heads, zeros for those that are missing and from head_dim on.
template <class T>
__device__ void stage_queries(const AttentionArgs& args, const PagedPlace& place, T* to) {
  using Shape = MatrixShape<T>;
  constexpr int pairs = latent_dims / 2;
  for (int i = thread_index(); i < Shape::heads * pairs; i += Shape::threads) {
    const int head = i / pairs;
    const int dim = i % pairs * 2;
    std::uint32_t word = 0;
    if (head < place.heads && dim < args.head_dim) {
      const std::int64_t from = place.row * args.q_stride + std::int64_t{place.first_head + head} * args.head_dim + dim;
      word = pack_pair<T>(load_io(args.q, args.io_dtype, from), load_io(args.q, args.io_dtype, from + 1));
    }
    *reinterpret_cast<std::uint32_t*>(to + head * Shape::stride + dim) = word;
  }
}

/// Keys [first, first + keys) of the piece, zeros past its end and, up to the next 16, past head_dim.
template <class T>
__device__ void stage_keys(const AttentionArgs& args, const PagedPlace& place, int first, T* to) {
  using Shape = MatrixShape<T>;
  const T* plane = static_cast<const T*>(args.kv.k) + place.kv_head * args.kv.head_stride;
  const int chunks = (args.head_dim + 15) / 16 * 2;
#pragma unroll 2
  for (int i = thread_index(); i < Shape::keys * chunks; i += Shape::threads) {
    const int key = i / chunks;
    const int dim = i % chunks * 8;
    const bool present = first + key < place.split_end && dim < args.head_dim;
    copy_async(to + key * Shape::stride + dim, present ? plane + kv_row(args.kv, place.sequence, first + key) + dim : plane,
               present);
  }
  commit_copies();
}

/// A wave's quarter of the scores: one tile of keys, half of the dimensions.
template <class T>
__device__ void multiply_keys(const AttentionArgs& args, const MatrixMemory<T>& memory, const T* keys) {
  using Shape = MatrixShape<T>;
  using Tile = typename Shape::Tile;
  const int tile = wave_index() & 1;
  const int half = wave_index() >> 1;
  const int steps = (args.head_dim + 15) / 16;
  const int middle = (steps + 1) / 2;
  typename Tile::C scores = Tile::zero();
  for (int step = half == 0 ? 0 : middle; step < (half == 0 ? middle : steps); ++step) {
    Tile::multiply(scores, Tile::load_a_shared(memory.queries + 16 * step, Shape::stride),
                   Tile::load_b_shared(keys + 16 * tile * Shape::stride + 16 * step, Shape::stride));
  }
  float* to = memory.scores + half * Shape::heads * Shape::keys + 16 * tile;
#pragma unroll
  for (int i = 0; i < Tile::c_elems; ++i) {
    to[Tile::c_row(i) * Shape::keys + Tile::c_col(i)] = scores[i];
  }
}

/// The softmax of one head, which eight lanes share.
struct LatentSoftmax {
  float maximum = -infinity;
  float sum = 0.0f;

  template <class T>
  __device__ void fold(const AttentionArgs& args, const PagedPlace& place, const MatrixMemory<T>& memory, int first) {
    using Shape = MatrixShape<T>;
    const int head = thread_index() / Shape::lanes;
    const int lane_key = thread_index() % Shape::lanes * Shape::lane_keys;
    const float* dots = memory.scores + head * Shape::keys + lane_key;
    float scores[Shape::lane_keys];
    float now = maximum;
#pragma unroll
    for (int j = 0; j < Shape::lane_keys; ++j) {
      const int key = first + lane_key + j;
      scores[j] = score_log2(args, dots[j] + dots[Shape::heads * Shape::keys + j]);
      if (args.mask != nullptr) {
        scores[j] += log2_e * args.mask[place.row * args.mask_stride + max(min(key, place.split_end - 1), 0)];
      }
      scores[j] = key < place.split_end ? scores[j] : -infinity;
      now = fmaxf(now, scores[j]);
    }
    now = wave_reduce<Max, Shape::lanes>(now);
    const float subtract = finite_maximum(now);
    const float factor = exp2_fast(maximum - subtract);
    maximum = now;
    float added = 0.0f;
#pragma unroll
    for (int j = 0; j < Shape::lane_keys; ++j) {
      const float weight = exp2_fast(scores[j] - subtract);
      added += weight;
      memory.weights[head * Shape::weight_stride + lane_key + j] = from_float<T>(weight);
    }
    sum = sum * factor + wave_reduce<Sum, Shape::lanes>(added);
    if (lane_key == 0) {
      memory.factors[head] = factor;
    }
  }
};

/// A wave's quarter of the values' dimensions.
template <class T>
struct LatentValues {
  using Shape = MatrixShape<T>;
  using Tile = typename Shape::Tile;
  typename Tile::C out[Shape::dim_tiles];

  __device__ LatentValues() {
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; ++t) {
      out[t] = Tile::zero();
    }
  }
  __device__ static int first_dim() { return wave_index() * Shape::wave_dims; }

  __device__ void add(const AttentionArgs& args, const MatrixMemory<T>& memory, const T* keys) {
    float factors[Tile::c_elems];
#pragma unroll
    for (int i = 0; i < Tile::c_elems; ++i) {
      factors[i] = memory.factors[Tile::c_row(i)];
    }
    typename Tile::A weights[Shape::keys / 16];
#pragma unroll
    for (int k = 0; k < Shape::keys / 16; ++k) {
      weights[k] = Tile::load_a_shared(memory.weights + 16 * k, Shape::weight_stride);
    }
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; ++t) {
      if (first_dim() + 16 * t < args.value_dim) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          out[t][i] *= factors[i];
        }
#pragma unroll
        for (int k = 0; k < Shape::keys / 16; ++k) {
          Tile::multiply(out[t], weights[k],
                         Tile::load_b_k_shared(keys + 16 * k * Shape::stride + first_dim() + 16 * t, Shape::stride));
        }
      }
    }
  }

  /// Stores to the output, or to the sums of the piece.
  __device__ void store(const AttentionArgs& args, const PagedPlace& place, const MatrixMemory<T>& memory,
                        float* sums) const {
#pragma unroll
    for (int t = 0; t < Shape::dim_tiles; ++t) {
#pragma unroll
      for (int i = 0; i < Tile::c_elems; ++i) {
        const int head = Tile::c_row(i);
        const int dim = first_dim() + 16 * t + Tile::c_col(i);
        if (head < place.heads && dim < args.value_dim && place.splits == 1) {
          finish_latent(args, place, head, dim, out[t][i], memory.maxima[head], memory.sums[head]);
        } else if (head < place.heads && dim < args.value_dim) {
          sums[head * args.value_dim + dim] = out[t][i];
        }
      }
    }
  }
};

/// Grid: (rows or sequences, planes x tiles of their query heads, pieces of the longest row).
template <class T>
__device__ __forceinline__ void latent_matrix(const AttentionArgs& args, Bytes16* shared) {
  using Shape = MatrixShape<T>;
  begin_dependent();
  const PagedPlace place = latent_place(args);
  if (place.split >= place.splits) {
    return;
  }
  const MatrixMemory<T> memory(shared);
  stage_keys(args, place, place.split_begin, memory.stage(0));
  stage_queries(args, place, memory.queries);
  LatentSoftmax softmax;
  LatentValues<T> values;
  const bool folds = thread_index() < Shape::heads * Shape::lanes;
  int tile = 0;
  for (int first = place.split_begin; first < place.split_end; first += Shape::keys, ++tile) {
    if constexpr (Shape::stages > 1) {
      stage_keys(args, place, first + Shape::keys, memory.stage(tile + 1));
      wait_copies<1>();
    } else if (tile > 0) {
      stage_keys(args, place, first, memory.stage(0));
    }
    __syncthreads();
    multiply_keys(args, memory, memory.stage(tile));
    __syncthreads();
    if (folds) {
      softmax.fold(args, place, memory, first);
    }
    __syncthreads();
    values.add(args, memory, memory.stage(tile));
    __syncthreads();
  }
  wait_copies<0>();
  if (folds && thread_index() % Shape::lanes == 0) {
    memory.maxima[thread_index() / Shape::lanes] = softmax.maximum;
    memory.sums[thread_index() / Shape::lanes] = softmax.sum;
  }
  __syncthreads();
  const std::int64_t part = (place.item * gridDim.z + place.split) * Shape::heads;
  values.store(args, place, memory, args.partial_sums + part * args.value_dim);
  if (place.splits > 1 && thread_index() < Shape::heads) {
    args.partial_states[(part + thread_index()) * 2] = memory.maxima[thread_index()];
    args.partial_states[(part + thread_index()) * 2 + 1] = memory.sums[thread_index()];
  }
}

extern __shared__ Bytes16 latent_matrix_memory[];

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(4 * wave_size) latent_matrix_f16(AttentionArgs args) {
  latent_matrix<half>(args, latent_matrix_memory);
}
ROCMFORGE_KERNEL __launch_bounds__(4 * wave_size) latent_matrix_bf16(AttentionArgs args) {
  latent_matrix<bfloat16>(args, latent_matrix_memory);
}

/// Adds up the pieces of each row in their order. Grid: as latent_matrix, but with heads of a tile x tiles of dimensions in
/// place of pieces.
ROCMFORGE_KERNEL __launch_bounds__(latent_merge_threads) latent_merge(LatentMergeArgs args) {
  begin_dependent();
  const AttentionArgs& attention = args.attention;
  const PagedPlace place = latent_place(attention);
  const int tiles = (attention.value_dim + latent_merge_threads - 1) / latent_merge_threads;
  const int g = static_cast<int>(blockIdx.z) / tiles;
  const int dim = static_cast<int>(blockIdx.z) % tiles * latent_merge_threads + thread_index();
  if (place.splits <= 1 || g >= place.heads || dim >= attention.value_dim) {
    return;
  }
  const std::int64_t part = place.item * args.pieces * latent_matrix_heads;
  const PagedParts parts{attention.partial_sums + part * attention.value_dim, attention.partial_states + part * 2,
                         place.splits, latent_matrix_heads, attention.value_dim};
  float maximum;
  float weight;
  const float sum = merge_parts(parts, g, dim, maximum, weight);
  finish_latent(attention, place, g, dim, sum, maximum, weight);
}

}  // namespace rocmforge::gpu
