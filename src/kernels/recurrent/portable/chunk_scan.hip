// The part of scans in chunks of 64 rows that needs no state: unit keys and queries as operands of matrix products
// (chunk_keys), and for each head the products of rows of the same chunk (chunk_weights). A row's correction depends on the
// rows before it in the chunk: with L[t][s] = share_t k_t k_s decay(s to t), s < t, all corrections are T = (I + L)^-1 times
// the corrections by the state before the chunk alone. docs/kernels/delta_net.md.

#include "kernels/recurrent/portable/chunk_scan.h"
#include "kernels/tile/elementwise.h"

namespace rocmforge::gpu {
namespace {

constexpr int staged_keys = 128;
constexpr int lower_tiles = chunk_tiles * (chunk_tiles + 1) / 2;

/// The row of tiles of lower tile `index`; its column is the rest.
__device__ int lower_row(int index) { return index >= 6 ? 3 : index >= 3 ? 2 : index >= 1 ? 1 : 0; }
__device__ int lower_column(int index) { return index - lower_row(index) * (lower_row(index) + 1) / 2; }

/// Keys or queries of a chunk of one head.
struct Vectors {
  const float* from;  ///< of the first row
  std::int64_t stride;
  int rows;
  int dim;

  /// Computes the factors of unit vectors to shared memory, and the vectors' lengths to the workspace.
  __device__ void measure(float eps, float* factors, float* lengths) const {
    constexpr int lanes = 32;
    for (int row = thread_index() / lanes; row < chunk_rows; row += chunk_threads / lanes) {
      float squares = 0.0f;
      for (int i = thread_index() % lanes; row < rows && i < dim; i += lanes) {
        const float x = from[row * stride + i];
        squares += x * x;
      }
      squares = wave_reduce<Sum, lanes>(squares) + eps;
      if (thread_index() % lanes == 0) {
        factors[row] = squares > 0.0f ? 1.0f / sqrtf(squares) : 0.0f;
        lengths[row] = sqrtf(squares);
      }
    }
  }

  __device__ void stage(const float* factors, int first_key, SharedParts<chunk_rows, staged_keys>& staged) const {
    for (int i = thread_index(); i < chunk_rows * staged_keys; i += chunk_threads) {
      const int row = i / staged_keys;
      const int key = first_key + i % staged_keys;
      const bool inside = row < rows && key < dim;
      staged.set(row, i % staged_keys, inside ? from[row * stride + key] * factors[row] * chunk_scale : 0.0f);
    }
  }
};

/// Tiles of staged vectors as operands; `by_key` null for queries.
__device__ void keep_vectors(const SharedParts<chunk_rows, staged_keys>& staged, int first_tile, int key_tiles,
                             std::byte* by_row, std::byte* by_key) {
  constexpr int tiles = staged_keys / 16;
  constexpr int stride = SharedParts<chunk_rows, staged_keys>::stride;
  for (int i = wave_index(); i < chunk_tiles * tiles * 2; i += chunk_waves) {
    const int part = i % 2;
    const int row = i / 2 / tiles;
    const int column = i / 2 % tiles;
    const int key = first_tile + column;
    const half* tile = staged.tile(part, row, column);
    ChunkTile::keep(chunk_operand(by_row, row, key_tiles, key, part), ChunkTile::load_b_shared(tile, stride));
    if (by_key != nullptr) {
      ChunkTile::keep(chunk_operand(by_key, key, chunk_tiles, row, part), ChunkTile::load_b_k_shared(tile, stride));
    }
  }
}

/// The products of the chunk's rows with its keys, lower tiles.
__device__ void multiply_rows(const ChunkArgs& args, const std::byte* keys, const std::byte* queries, float* products) {
  const int first = args.beta != nullptr ? 0 : lower_tiles;  // k k is for corrections
  for (int i = first + wave_index(); i < 2 * lower_tiles; i += chunk_waves) {
    const int row = lower_row(i % lower_tiles);
    const int column = lower_column(i % lower_tiles);
    const std::byte* left = i < lower_tiles ? keys : queries;
    PartsProduct product;
    for (int k = 0; k < args.key_tiles; ++k) {
      ChunkTile::A a[2];
      ChunkTile::B b[2];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        a[part] = ChunkTile::transposed(ChunkTile::fetch(chunk_operand(left, row, args.key_tiles, k, part)));
        b[part] = ChunkTile::fetch(chunk_operand(keys, column, args.key_tiles, k, part));
      }
      product.add(a, b);
    }
    float* to = products + (i < lower_tiles ? 0 : chunk_rows * chunk_rows) + 16 * row * chunk_rows + 16 * column;
#pragma unroll
    for (int e = 0; e < ChunkTile::c_elems; ++e) {
      to[ChunkTile::c_row(e) * chunk_rows + ChunkTile::c_col(e)] = product.value(e) / (chunk_scale * chunk_scale);
    }
  }
}

/// A chunk for one value head.
struct Weights {
  alignas(16) float matrix[chunk_rows][chunk_rows + 4];
  SharedParts<chunk_rows, chunk_rows> parts;
  double decays[chunk_rows];  ///< logarithms of decays since the state before the chunk; floats would lose their differences
  float logarithms[chunk_rows];
  float shares[chunk_rows];
  float scratch[chunk_waves];

  [[nodiscard]] __device__ float decay(int from, int to) const {
    return expf(static_cast<float>(decays[to] - decays[from]));
  }

  __device__ void measure(const ChunkArgs& args, const Chunk& chunk, int head, const float* lengths) {
    const int row = thread_index();
    if (row < chunk_rows) {
      float logarithm = 0.0f;
      float share = 0.0f;
      if (row < chunk.rows) {
        const std::int64_t at = std::int64_t{chunk.first + row} * args.gate_stride + head;
        const float x = args.gate[at] + args.gate_bias[head];
        const float softplus = x > 20.0f ? x : log1pf(expf(x));
        logarithm = args.rate[head] * softplus;
        logarithm = logarithm < -200.0f ? -200.0f : logarithm;  // e^-200 is no float but 0
        share = args.beta != nullptr ? 1.0f / (1.0f + expf(-args.beta[at])) : softplus * lengths[row];
      }
      logarithms[row] = logarithm;
      shares[row] = share;
    }
    __syncthreads();
    if (row < chunk_rows) {
      double sum = 0.0;
      for (int s = 0; s <= row; ++s) {
        sum += static_cast<double>(logarithms[s]);
      }
      decays[row] = sum;
    }
    __syncthreads();
  }

  /// Bound on the growth of a column of the state in the chunk: each row adds at most its share of its largest value.
  __device__ float bound(const ChunkArgs& args, const Chunk& chunk, int head) {
    constexpr int lanes = 16;
    float sum = 0.0f;
    for (int row = thread_index() / lanes; row < chunk_rows; row += chunk_threads / lanes) {
      const float* values = args.values + (chunk.first + row) * args.row_stride + std::int64_t{head} * args.value_dim;
      float most = 0.0f;
      for (int i = thread_index() % lanes; row < chunk.rows && i < args.value_dim; i += lanes) {
        most = fmaxf(most, fabsf(values[i]));
      }
      most = wave_reduce<Max, lanes>(most);
      sum += thread_index() % lanes == 0 ? most * shares[row] : 0.0f;
    }
    return block_reduce<Sum>(sum, scratch, 0.0f);
  }

  /// `keep_row`: the state after this row is kept; the row may be outside of the chunk.
  __device__ void describe(const ChunkArgs& args, int keep_row, float bound, const float* query_lengths,
                           ChunkRow& to) const {
    const int row = thread_index();
    const bool keeps = keep_row >= 0 && keep_row < chunk_rows;
    if (row < chunk_rows) {
      to.share[row] = shares[row];
      to.decay[row] = expf(static_cast<float>(decays[row]));
      to.rest[row] = decay(row, chunk_rows - 1);
      to.kept[row] = keeps && row <= keep_row ? decay(row, keep_row) : 0.0f;
      to.scale[row] = args.beta != nullptr ? 1.0f / sqrtf(static_cast<float>(args.key_dim)) : query_lengths[row];
    }
    if (row == 0) {
      to.kept_decay = keeps ? expf(static_cast<float>(decays[keep_row])) : 0.0f;
      to.bound = bound;
    }
  }

  /// Lower tiles of `parts`.
  __device__ void keep(std::byte* to) const {
    for (int i = wave_index(); i < lower_tiles * 2; i += chunk_waves) {
      const int row = lower_row(i / 2);
      const int column = lower_column(i / 2);
      const half* tile = parts.tile(i % 2, row, column);
      ChunkTile::keep(chunk_operand(to, row, chunk_tiles, column, i % 2),
                      ChunkTile::load_b_shared(tile, SharedParts<chunk_rows, chunk_rows>::stride));
    }
  }

  /// matrix = (I + matrix)^-1, of two blocks of 32: first the inverse of each block, then the block below them.
  __device__ void invert() {
    constexpr int block = chunk_rows / 2;
    const int first = thread_index() / block * block;
    const int column = thread_index() % block;
    float x[block];
    if (thread_index() < chunk_rows) {  // one column each
#pragma unroll
      for (int i = 0; i < block; ++i) {
        x[i] = i == column ? 1.0f : 0.0f;
#pragma unroll
        for (int j = 0; j < i; j += 4) {
          const Floats<4> four = load<4>(&matrix[first + i][first], j / 4);
#pragma unroll
          for (int e = 0; e < 4 && j + e < i; ++e) {
            x[i] -= four.values[e] * x[j + e];
          }
        }
      }
    }
    __syncthreads();
    if (thread_index() < chunk_rows) {
#pragma unroll
      for (int i = 0; i < block; ++i) {
        matrix[first + i][first + column] = x[i];
      }
    }
    __syncthreads();
    multiply_below<0>();
    multiply_below<1>();
  }

  /// The block below the diagonal: times the first block's inverse, or minus the second block's inverse times it.
  template <int step>
  __device__ void multiply_below() {
    constexpr int block = chunk_rows / 2;
    const int row = block + thread_index() / 8;
    const int column = thread_index() % 8 * 4;
    Floats<4> sum{};
    for (int m = 0; m < block; ++m) {
      const float left = step == 0 ? matrix[row][m] : -matrix[row][block + m];
      const Floats<4> right = load<4>(&matrix[step == 0 ? m : block + m][column], 0);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        sum.values[e] += left * right.values[e];
      }
    }
    __syncthreads();
    store<4>(&matrix[row][column], 0, sum);
    __syncthreads();
  }
};

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(chunk_threads) chunk_keys(ChunkArgs args) {
  __shared__ SharedParts<chunk_rows, staged_keys> staged;
  __shared__ float factors[2][chunk_rows];
  begin_dependent();
  Chunk chunk;
  if (!chunk.find(args, args.first_place + static_cast<int>(blockIdx.y))) {
    return;
  }
  const int head = static_cast<int>(blockIdx.x);
  const ChunkKeys layout{args.key_tiles};
  std::byte* space = chunk_keys_at(args, static_cast<int>(blockIdx.y), head);
  auto* lengths = reinterpret_cast<float*>(space + layout.lengths());
  for (int which = 0; which < 2; ++which) {
    const float* from = which == 0 ? args.keys : args.queries;
    const Vectors vectors{from + chunk.first * args.row_stride + std::int64_t{head} * args.key_dim, args.row_stride,
                          chunk.rows, args.key_dim};
    vectors.measure(args.eps, factors[which], lengths + which * chunk_rows);
    for (int tile = 0; tile < args.key_tiles; tile += staged_keys / 16) {
      __syncthreads();
      vectors.stage(factors[which], 16 * tile, staged);
      __syncthreads();
      keep_vectors(staged, tile, args.key_tiles, which == 0 ? space : space + layout.queries(),
                   which == 0 ? space + layout.by_key() : nullptr);
    }
  }
  __syncthreads();
  multiply_rows(args, space, space + layout.queries(), reinterpret_cast<float*>(space + layout.products()));
}

ROCMFORGE_KERNEL __launch_bounds__(chunk_threads) chunk_weights(ChunkArgs args) {
  __shared__ Weights shared;
  begin_dependent();
  Chunk chunk;
  const int place = static_cast<int>(blockIdx.y);
  if (!chunk.find(args, args.first_place + place)) {
    return;
  }
  const int head = static_cast<int>(blockIdx.x);
  const ChunkKeys layout{args.key_tiles};
  const std::byte* keys = chunk_keys_at(args, place, chunk_key_head(args, head));
  std::byte* space = chunk_head_at(args, place, head);
  const auto* lengths = reinterpret_cast<const float*>(keys + layout.lengths());
  const auto* products = reinterpret_cast<const float*>(keys + layout.products());
  const StateSlots slots = args.slots[chunk.sequence];
  shared.measure(args, chunk, head, lengths);
  const float bound = shared.bound(args, chunk, head);
  const int keep_row = slots.keep >= 0 ? slots.keep_rows - 1 - chunk.index * chunk_rows : -1;
  shared.describe(args, keep_row, bound, lengths + chunk_rows, *reinterpret_cast<ChunkRow*>(space + ChunkHead::rows));
  const float* queries = products + chunk_rows * chunk_rows;
  for (int i = thread_index(); i < chunk_rows * chunk_rows; i += chunk_threads) {
    const int to = i / chunk_rows;
    const int from = i % chunk_rows;
    const float decay = from <= to ? shared.decay(from, to) : 0.0f;
    shared.parts.set(to, from, from <= to ? queries[i] * decay * chunk_scale : 0.0f);
    if (args.beta != nullptr) {
      shared.matrix[to][from] = from < to ? shared.shares[to] * products[i] * decay : 0.0f;
    }
  }
  __syncthreads();
  shared.keep(space + ChunkHead::weights);
  if (args.beta == nullptr) {
    return;
  }
  shared.invert();  // synchronises
  for (int i = thread_index(); i < chunk_rows * chunk_rows; i += chunk_threads) {
    shared.parts.set(i / chunk_rows, i % chunk_rows, shared.matrix[i / chunk_rows][i % chunk_rows] * chunk_scale);
  }
  __syncthreads();
  shared.keep(space);
}

}  // namespace rocmforge::gpu
