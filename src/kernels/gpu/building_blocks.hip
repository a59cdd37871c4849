// The steps of the composed attention: products of any head_dim through tiles in shared memory, the causal mask, and the
// copies of KV heads. Plain f32 arithmetic.

#include "kernels/gpu/building_blocks_args.h"
#include "kernels/gpu/elementwise.h"

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
/// The sum's order depends on count alone: partial sums of `depth` terms. `by_depth` says how threads read b: neighbours
/// along n, or along the columns.
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
  std::int64_t batch;
  std::int64_t head;
  std::int64_t row;
  std::int64_t col;
};

__device__ TilePlace tile_place(std::int64_t index, std::int32_t heads, std::int64_t row_tiles, std::int64_t col_tiles) {
  const std::int64_t matrix = index / (row_tiles * col_tiles);
  const std::int64_t in_matrix = index % (row_tiles * col_tiles);
  return {matrix / heads, matrix % heads, in_matrix / col_tiles * tile, in_matrix % col_tiles * tile};
}

__device__ std::int64_t tiles_for(std::int64_t count) { return (count + tile - 1) / tile; }

}  // namespace

ROCMFORGE_KERNEL causal_mask(CausalMaskArgs args) {
  for (std::int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const std::int64_t position = std::int64_t{args.kv_len} - args.q_len + row % args.q_len;
    for (std::int64_t j = grid_index(); j < args.kv_len; j += grid_threads()) {
      if (j > position || (args.window > 0 && j <= position - args.window)) {
        args.scores[row * args.kv_len + j] = -infinity;
      }
    }
  }
}

ROCMFORGE_KERNEL __launch_bounds__(threads) query_key(QueryKeyArgs args) {
  __shared__ Tiles tiles;
  const std::int64_t row_tiles = tiles_for(args.q_len);
  const std::int64_t col_tiles = tiles_for(args.kv_len);
  const std::int64_t all = std::int64_t{args.batch} * args.heads * row_tiles * col_tiles;
  const std::int64_t token_stride = std::int64_t{args.heads} * args.head_dim;
  for (std::int64_t index = blockIdx.x; index < all; index += gridDim.x) {
    const TilePlace at = tile_place(index, args.heads, row_tiles, col_tiles);
    const float* q = args.q + (at.batch * args.q_len + at.row) * token_stride + at.head * args.head_dim;
    const float* k = args.k + (at.batch * args.kv_len + at.col) * token_stride + at.head * args.head_dim;
    float results[own][own];
    multiply_tile<true>(
        tiles, args.head_dim,
        [&](int row, std::int64_t d) { return at.row + row < args.q_len ? q[row * token_stride + d] : 0.0f; },
        [&](std::int64_t d, int col) { return at.col + col < args.kv_len ? k[col * token_stride + d] : 0.0f; }, results);
    float* scores = args.scores + (at.batch * args.heads + at.head) * args.q_len * args.kv_len;
#pragma unroll
    for (int i = 0; i < own; ++i) {
#pragma unroll
      for (int j = 0; j < own; ++j) {
        const std::int64_t row = at.row + own * (thread_index() / 16) + i;
        const std::int64_t col = at.col + own * (thread_index() % 16) + j;
        if (row < args.q_len && col < args.kv_len) {
          scores[row * args.kv_len + col] = args.scale * results[i][j];
        }
      }
    }
  }
}

ROCMFORGE_KERNEL __launch_bounds__(threads) weights_value(WeightsValueArgs args) {
  __shared__ Tiles tiles;
  const std::int64_t row_tiles = tiles_for(args.q_len);
  const std::int64_t col_tiles = tiles_for(args.head_dim);
  const std::int64_t all = std::int64_t{args.batch} * args.heads * row_tiles * col_tiles;
  const std::int64_t token_stride = std::int64_t{args.heads} * args.head_dim;
  for (std::int64_t index = blockIdx.x; index < all; index += gridDim.x) {
    const TilePlace at = tile_place(index, args.heads, row_tiles, col_tiles);
    const float* weights =
        args.weights + ((at.batch * args.heads + at.head) * args.q_len + at.row) * std::int64_t{args.kv_len};
    const float* v = args.v + at.batch * args.kv_len * token_stride + at.head * args.head_dim + at.col;
    float results[own][own];
    multiply_tile<false>(
        tiles, args.kv_len,
        [&](int row, std::int64_t n) {
          return at.row + row < args.q_len ? weights[row * std::int64_t{args.kv_len} + n] : 0.0f;
        },
        [&](std::int64_t n, int col) { return at.col + col < args.head_dim ? v[n * token_stride + col] : 0.0f; }, results);
    float* out = args.out + at.batch * args.q_len * token_stride + at.head * args.head_dim;
#pragma unroll
    for (int i = 0; i < own; ++i) {
#pragma unroll
      for (int j = 0; j < own; ++j) {
        const std::int64_t row = at.row + own * (thread_index() / 16) + i;
        const std::int64_t col = at.col + own * (thread_index() % 16) + j;
        if (row < args.q_len && col < args.head_dim) {
          out[row * token_stride + col] = results[i][j];
        }
      }
    }
  }
}

ROCMFORGE_KERNEL replicate_kv(ReplicateKvArgs args) {
  const int waves = static_cast<int>(blockDim.x) / wave_size;
  const bool fours = takes_fours(args.k, args.head_dim) && takes_fours(args.v, args.head_dim) &&
                     takes_fours(args.k_out, args.head_dim) && takes_fours(args.v_out, args.head_dim);
  for (std::int64_t head = std::int64_t{blockIdx.x} * waves + wave_index(); head < args.out_heads;
       head += std::int64_t{gridDim.x} * waves) {
    // Heads of all tokens lie one after another, so that a group never crosses a token.
    const std::int64_t from = head / args.group * args.head_dim;
    const std::int64_t to = head * args.head_dim;
    if (fours) {
      for (int item = lane_index(); item < args.head_dim / 4; item += wave_size) {
        store(args.k_out + to, item, load<4>(args.k + from, item));
        store(args.v_out + to, item, load<4>(args.v + from, item));
      }
    } else {
      for (int i = lane_index(); i < args.head_dim; i += wave_size) {
        args.k_out[to + i] = args.k[from + i];
        args.v_out[to + i] = args.v[from + i];
      }
    }
  }
}

}  // namespace rocmforge::gpu
