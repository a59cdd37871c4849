// The steps of attention through scores in memory, in f32: copies of K and V for each query head, products of any head_dim
// through tiles in shared memory, scale and soft-cap, mask, softmax. ScoreShape gives the rows and keys.

#include "kernels/attention/portable/attention_steps_args.h"
#include "kernels/attention/portable/coded.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

constexpr int tile = 64;      // rows and columns of results of a work-group
constexpr int depth = 16;     // of the sum, in shared memory at a time
constexpr int threads = 256;  // 16 x 16, each with 4 x 4 results
constexpr int own = 4;

/// Operands of a tile, [depth][tile]; the padding keeps fours aligned and spreads the banks.
struct Tiles {
  float a[depth][tile + 4];
  float b[depth][tile + 4];
};

/// results[i][j] = sum over n < count of a(row, n) * b(n, col), rows 4 * (thread / 16) + i, columns 4 * (thread % 16) + j.
/// The order of the sum depends on count alone: partial sums of `depth` terms. `b_along_depth`: neighbouring threads read b
/// along n, else along the columns.
template <bool b_along_depth, class ReadA, class ReadB>
__device__ void multiply_tile(Tiles& tiles, std::int64_t count, ReadA a, ReadB b, float (&results)[own][own]) {
  const int row = own * (thread_index() / 16);
  const int col = own * (thread_index() % 16);
#pragma unroll
  for (int i = 0; i < own; ++i) {
#pragma unroll
    for (int j = 0; j < own; ++j) {
      results[i][j] = 0.0f;
    }
  }
  for (std::int64_t start = 0; start < count; start += depth) {
    __syncthreads();
#pragma unroll
    for (int part = 0; part < depth * tile / threads; ++part) {
      const int at = part * threads + thread_index();
      const int n_a = at % depth;
      tiles.a[n_a][at / depth] = start + n_a < count ? a(at / depth, start + n_a) : 0.0f;
      const int n_b = b_along_depth ? at % depth : at / tile;
      const int col_b = b_along_depth ? at / depth : at % tile;
      tiles.b[n_b][col_b] = start + n_b < count ? b(start + n_b, col_b) : 0.0f;
    }
    __syncthreads();
    float partial[own][own] = {};
#pragma unroll
    for (int n = 0; n < depth; ++n) {
      const Floats<own> left = load<own>(&tiles.a[n][row], 0);
      const Floats<own> right = load<own>(&tiles.b[n][col], 0);
#pragma unroll
      for (int i = 0; i < own; ++i) {
#pragma unroll
        for (int j = 0; j < own; ++j) {
          partial[i][j] += left.values[i] * right.values[j];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < own; ++i) {
#pragma unroll
      for (int j = 0; j < own; ++j) {
        results[i][j] += partial[i][j];
      }
    }
  }
}

/// Tile number `index` of [batch * heads, tiles of rows, tiles of columns].
struct TilePlace {
  std::int64_t matrix;  ///< batch * heads + head
  std::int64_t batch;
  std::int32_t head;
  std::int32_t row;
  std::int32_t col;
};

__device__ TilePlace tile_place(std::int64_t index, const ScoreShape& shape, std::int64_t row_tiles,
                                std::int64_t col_tiles) {
  const std::int64_t matrix = index / (row_tiles * col_tiles);
  const auto in_matrix = index % (row_tiles * col_tiles);
  return {matrix, matrix / shape.heads, static_cast<std::int32_t>(matrix % shape.heads),
          static_cast<std::int32_t>(in_matrix / col_tiles) * tile, static_cast<std::int32_t>(in_matrix % col_tiles) * tile};
}

__device__ std::int64_t tiles_for(std::int64_t count) { return (count + tile - 1) / tile; }

/// Calls put(row, col, result) for this thread's results of a tile that lie within `rows` and `cols`, counted from its
/// corner.
template <class Put>
__device__ void put_tile(const float (&results)[own][own], int rows, int cols, Put put) {
#pragma unroll
  for (int i = 0; i < own; ++i) {
#pragma unroll
    for (int j = 0; j < own; ++j) {
      const int row = own * (thread_index() / 16) + i;
      const int col = own * (thread_index() % 16) + j;
      if (row < rows && col < cols) {
        put(row, col, results[i][j]);
      }
    }
  }
}

struct Coded {};
template <class T>
inline constexpr bool is_coded = false;
template <>
inline constexpr bool is_coded<Coded> = true;

/// Elements of T.
template <class T>
__device__ float kv_value(const KvAddress& kv, const void* data, std::int64_t row, int s, int key, int kv_head, int dim) {
  const std::int64_t index = row + kv_head * kv.head_stride + dim;
  if constexpr (sizeof(T) == 1) {
    return static_cast<float>(static_cast<const T*>(data)[index].value) * kv_scale(kv, data, s, key, kv_head, dim);
  } else {
    return to_float(static_cast<const T*>(data)[index]);
  }
}

/// K's and V's elements of T, or, with Coded, of pages of any type.
template <class T>
__device__ void replicate(const ReplicateKvArgs& args) {
  const ScoreShape& shape = args.shape;
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  const std::int64_t all = std::int64_t{shape.batch} * shape.kv_len * shape.heads;
  for (std::int64_t item = std::int64_t{blockIdx.x} * waves + wave_index(); item < all;
       item += std::int64_t{gridDim.x} * waves) {
    const auto head = static_cast<int>(item % shape.heads);
    const std::int64_t token = item / shape.heads;
    const auto key = static_cast<int>(token % shape.kv_len);
    const auto s = static_cast<int>(token / shape.kv_len);
    const SequenceExtent extent = shape.sequence(s);
    if (extent.rows == 0 || key >= extent.keys) {
      continue;
    }
    const int kv_head = (args.first_head + head) / args.group;
    float* const k = args.k_out + item * args.head_dim;
    float* const v = args.v_out + item * args.head_dim;
    for (int dim = lane_index(); dim < args.head_dim; dim += wave_size) {
      if constexpr (is_coded<T>) {
        k[dim] = coded_element(args.pages, args.pages.k, s, key, kv_head, dim);
        v[dim] = coded_element(args.pages, args.pages.v, s, key, kv_head, dim);
      } else {
        const std::int64_t row = kv_row(args.kv, s, key);
        k[dim] = kv_value<T>(args.kv, args.kv.k, row, s, key, kv_head, dim);
        v[dim] = kv_value<T>(args.kv, args.kv.v, row, s, key, kv_head, dim);
      }
    }
  }
}

/// Maximum and sum of e^(x - maximum) of the scores of a thread; (-inf, 0) when all are -inf.
struct RunningSum {
  float maximum = -infinity;
  float sum = 0.0f;

  __device__ void add(float x) {
    if (x > maximum) {
      sum = sum * expf(maximum - x) + 1.0f;
      maximum = x;
    } else if (x > -infinity) {
      sum += expf(x - maximum);
    }
  }
};

/// Scores 4 * item to 4 * item + 3 of a row of `keys`, -infinity after its end.
__device__ Floats<4> load_scores(const float* row, int item, int keys, bool fours) {
  if (fours && 4 * item + 4 <= keys) {
    return load<4>(row, item);
  }
  Floats<4> scores;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scores.values[i] = 4 * item + i < keys ? row[4 * item + i] : -infinity;
  }
  return scores;
}

__device__ void store_scores(float* row, int item, int keys, bool fours, const Floats<4>& scores) {
  if (fours && 4 * item + 4 <= keys) {
    store(row, item, scores);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (4 * item + i < keys) {
      row[4 * item + i] = scores.values[i];
    }
  }
}

/// Which thread sums which scores depends on their place alone: a row's result is the same in any batch.
__device__ void softmax_row(float* row, int keys, float sink, bool fours, float* scratch) {
  RunningSum seen;
  const int items = (keys + 3) / 4;
  for (int item = thread_index(); item < items; item += threads) {
    const Floats<4> scores = load_scores(row, item, keys, fours);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      seen.add(scores.values[i]);
    }
  }
  const float maximum = fmaxf(block_reduce<Max>(seen.maximum, scratch, -infinity), sink);
  const bool masked = maximum == -infinity;
  const float share = seen.sum > 0.0f ? seen.sum * expf(seen.maximum - maximum) : 0.0f;
  const float sum = block_reduce<Sum>(share, scratch, 0.0f) + (masked ? 0.0f : expf(sink - maximum));
  for (int item = thread_index(); item < items; item += threads) {
    Floats<4> scores = load_scores(row, item, keys, fours);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores.values[i] = masked ? 0.0f : expf(scores.values[i] - maximum) / sum;
    }
    store_scores(row, item, keys, fours, scores);
  }
}

}  // namespace

ROCMFORGE_KERNEL replicate_kv_f32(ReplicateKvArgs args) { replicate<float>(args); }
ROCMFORGE_KERNEL replicate_kv_f16(ReplicateKvArgs args) { replicate<half>(args); }
ROCMFORGE_KERNEL replicate_kv_bf16(ReplicateKvArgs args) { replicate<bfloat16>(args); }
ROCMFORGE_KERNEL replicate_kv_q8_0(ReplicateKvArgs args) { replicate<Quant>(args); }
ROCMFORGE_KERNEL replicate_kv_coded(ReplicateKvArgs args) { replicate<Coded>(args); }

ROCMFORGE_KERNEL __launch_bounds__(threads) query_key(QueryKeyArgs args) {
  __shared__ Tiles tiles;
  const ScoreShape& shape = args.shape;
  const std::int64_t row_tiles = tiles_for(shape.q_len);
  const std::int64_t col_tiles = tiles_for(shape.kv_len);
  const std::int64_t all = std::int64_t{shape.batch} * shape.heads * row_tiles * col_tiles;
  const std::int64_t k_stride = std::int64_t{shape.heads} * args.head_dim;
  for (std::int64_t index = blockIdx.x; index < all; index += gridDim.x) {
    const TilePlace at = tile_place(index, shape, row_tiles, col_tiles);
    const SequenceExtent extent = shape.sequence(at.batch);
    const int rows = extent.rows - at.row;
    const int cols = extent.keys - at.col;
    if (rows <= 0 || cols <= 0) {
      continue;
    }
    const std::int64_t q = (extent.first_token + at.row) * args.q_stride + std::int64_t{at.head} * args.head_dim;
    const float* k = args.k + ((at.batch * shape.kv_len + at.col) * shape.heads + at.head) * args.head_dim;
    float results[own][own];
    multiply_tile<true>(
        tiles, args.head_dim,
        [&](int row, std::int64_t d) {
          return row < rows ? load_io(args.q, args.q_dtype, q + row * args.q_stride + d) : 0.0f;
        },
        [&](std::int64_t d, int col) { return col < cols ? k[col * k_stride + d] : 0.0f; }, results);
    float* scores = args.scores + (at.matrix * shape.q_len + at.row) * shape.kv_len + at.col;
    put_tile(results, rows, cols,
             [&](int row, int col, float result) { scores[row * std::int64_t{shape.kv_len} + col] = args.scale * result; });
  }
}

ROCMFORGE_KERNEL scale(ScaleArgs args) {
  const bool capped = args.soft_cap > 0.0f;
  const float factor = capped ? args.factor / args.soft_cap : args.factor;
  for (std::int64_t i = grid_index(); i < args.count; i += grid_threads()) {
    const std::int64_t column = args.width > 0 ? i % args.width : 0;
    float x = factor * args.x[i];
    x = capped ? args.soft_cap * tanh_fast(x) : x;
    x = args.weights != nullptr ? x * args.weights[column] : x;
    args.x[i] = args.least != nullptr ? fminf(fmaxf(x, args.least[column]), args.most[column]) : x;
  }
}

ROCMFORGE_KERNEL causal_mask(CausalMaskArgs args) {
  const ScoreShape& shape = args.shape;
  for (std::int64_t row = blockIdx.y; row < shape.rows(); row += gridDim.y) {
    const SequenceExtent extent = shape.sequence(row / shape.q_len / shape.heads);
    const auto of_sequence = static_cast<int>(row % shape.q_len);
    if (of_sequence >= extent.rows) {
      continue;
    }
    const std::int64_t position = std::int64_t{extent.position} + of_sequence;
    const float* mask = args.mask == nullptr ? nullptr : args.mask + (extent.first_token + of_sequence) * args.mask_stride;
    float* scores = args.scores + row * shape.kv_len;
    for (std::int64_t j = grid_index(); j < extent.keys; j += grid_threads()) {
      const std::int64_t ahead = args.causal != 0 ? 1 : args.window;  // 0: all keys
      if ((ahead > 0 && j >= position + ahead) || (args.window > 0 && j <= position - args.window)) {
        scores[j] = -infinity;
      } else if (mask != nullptr) {
        scores[j] += mask[j];
      }
    }
  }
}

ROCMFORGE_KERNEL __launch_bounds__(threads) row_softmax(RowSoftmaxArgs args) {
  __shared__ float scratch[threads / 32];
  const ScoreShape& shape = args.shape;
  const bool fours = takes_fours(args.scores, shape.kv_len);
  for (std::int64_t row = blockIdx.x; row < shape.rows(); row += gridDim.x) {
    const std::int64_t matrix = row / shape.q_len;
    const SequenceExtent extent = shape.sequence(matrix / shape.heads);
    if (row % shape.q_len < extent.rows) {
      const float sink = args.sinks == nullptr ? -infinity : args.sinks[matrix % shape.heads];
      softmax_row(args.scores + row * shape.kv_len, extent.keys, sink, fours, scratch);
    }
  }
}

ROCMFORGE_KERNEL __launch_bounds__(threads) weights_value(WeightsValueArgs args) {
  __shared__ Tiles tiles;
  const ScoreShape& shape = args.shape;
  const std::int64_t row_tiles = tiles_for(shape.q_len);
  const std::int64_t col_tiles = tiles_for(args.head_dim);
  const std::int64_t all = std::int64_t{shape.batch} * shape.heads * row_tiles * col_tiles;
  const std::int64_t v_stride = std::int64_t{shape.heads} * args.head_dim;
  for (std::int64_t index = blockIdx.x; index < all; index += gridDim.x) {
    const TilePlace at = tile_place(index, shape, row_tiles, col_tiles);
    const SequenceExtent extent = shape.sequence(at.batch);
    const int rows = extent.rows - at.row;
    const int cols = args.head_dim - at.col;
    if (rows <= 0) {
      continue;
    }
    const float* weights = args.weights + (at.matrix * shape.q_len + at.row) * shape.kv_len;
    const float* v = args.v + (at.batch * shape.kv_len * shape.heads + at.head) * args.head_dim + at.col;
    float results[own][own];
    multiply_tile<false>(
        tiles, extent.keys,
        [&](int row, std::int64_t n) { return row < rows ? weights[row * std::int64_t{shape.kv_len} + n] : 0.0f; },
        [&](std::int64_t n, int col) { return col < cols ? v[n * v_stride + col] : 0.0f; }, results);
    const std::int64_t out =
        (extent.first_token + at.row) * args.out_stride + std::int64_t{at.head} * args.head_dim + at.col;
    put_tile(results, rows, cols, [&](int row, int col, float result) {
      store_io(args.out, args.out_dtype, out + row * args.out_stride + col, result);
    });
  }
}

}  // namespace rocmforge::gpu
