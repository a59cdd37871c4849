// K and V of single heads from the rows of a latent plane: latent_expand_TYPE. Before it, latent_weights_TYPE converts the
// matrices of the heads to the type of the matrix cores, with all rows along the latent.
//
// A work-group computes 128 positions x 64 columns of one head; a head's columns are those of K that don't turn and then
// those of V. The next step of k is loaded into registers while the current one is multiplied out of one of two halves of
// shared memory. Results go through shared memory, so that they are stored 16 bytes at a time. The order of a sum along k is
// the same in every call.

#include "kernels/attention/portable/latent_args.h"
#include "kernels/attention/portable/paged.h"
#include "kernels/formats/formats.h"
#include "kernels/tile/tile.h"

namespace rocmforge::gpu {
namespace {

template <class T>
struct ExpandShape {
  using Tile = MatrixTile<T>;
  static constexpr int rows = expand_rows;
  static constexpr int columns = expand_columns;
  static constexpr int k_step = 32;
  static constexpr int stride = k_step + 8;  ///< of a row in shared memory: eight rows fall on different banks
  static constexpr int out_stride = columns + 8;
  static constexpr int waves = expand_threads / wave_size;
  static constexpr int waves_along_columns = 2;
  static constexpr int wave_rows = rows / (waves / waves_along_columns);
  static constexpr int wave_columns = columns / waves_along_columns;
  static constexpr int row_tiles = wave_rows / 16;
  static constexpr int column_tiles = wave_columns / 16;
  static constexpr int step_pieces = k_step / 8;  ///< 16 bytes each
  static constexpr int row_pieces = rows * step_pieces / expand_threads;
  static constexpr int column_pieces = columns * step_pieces / expand_threads;
  static constexpr int half_elems = (rows + columns) * stride;
  static constexpr int out_elems = rows * out_stride;
  static constexpr int shared_elems = 2 * half_elems > out_elems ? 2 * half_elems : out_elems;
  static_assert(shared_elems * 2 <= 48 << 10 && column_pieces == 1);
};

/// Loads eight elements of a latent row in the type of the matrix cores.
template <class T>
__device__ inline Bytes16 load_latents(const KvAddress& kv, const T* row, int, int, int dim) {
  static_cast<void>(kv);
  return *reinterpret_cast<const Bytes16*>(row + dim);
}
__device__ inline Bytes16 load_latents(const KvAddress& kv, const Quant* row, int sequence, int key, int dim) {
  Eight<Quant> eight;
  eight.load(row + dim);
  eight.scale = kv_scale(kv, kv.k, sequence, key, 0, dim);
  Bytes16 values;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    values.words[j] = pack_pair<half>(eight[2 * j], eight[2 * j + 1]);
  }
  return values;
}

/// A thread's part of one step.
template <class Shape>
struct ExpandLoads {
  Bytes16 rows[Shape::row_pieces];
  Bytes16 column;
};

/// One work-group's tile.
template <class T, class Stored>
struct ExpandTile {
  using Shape = ExpandShape<T>;
  using Loads = ExpandLoads<Shape>;

  const LatentExpandArgs& args;
  int sequence;
  int head;
  int first_column;
  int first_key;
  int kv_len;
  const Stored* latents[Shape::row_pieces];  ///< rows that this thread reads
  const T* matrix;                           ///< likewise, null past the last column

  __device__ static int line(int i) { return (thread_index() + i * expand_threads) / Shape::step_pieces; }
  __device__ static int piece() { return thread_index() % Shape::step_pieces; }
  __device__ const Stored* latent_row(int key) const {
    return static_cast<const Stored*>(args.kv.k) + kv_row(args.kv, sequence, key);
  }

  __device__ void begin() {
#pragma unroll
    for (int i = 0; i < Shape::row_pieces; ++i) {
      const int key = first_key + line(i);
      latents[i] = key < kv_len ? latent_row(key) : nullptr;
    }
    const int columns = args.plain_dim + args.value_dim;
    const int column = first_column + line(0);
    matrix = column < columns ? static_cast<const T*>(args.weights) + (std::int64_t{head} * columns + column) * args.rank
                              : nullptr;
  }

  __device__ void load(int step, Loads& loads) const {
    const int dim = step * Shape::k_step + 8 * piece();
    const bool inside = dim < args.rank;
#pragma unroll
    for (int i = 0; i < Shape::row_pieces; ++i) {
      loads.rows[i] = Bytes16{};
      if (inside && latents[i] != nullptr) {
        loads.rows[i] = load_latents(args.kv, latents[i], sequence, first_key + line(i), dim);
      }
    }
    loads.column = Bytes16{};
    if (inside && matrix != nullptr) {
      loads.column = *reinterpret_cast<const Bytes16*>(matrix + dim);
    }
  }

  __device__ static void store(int step, const Loads& loads, T* shared) {
    T* to = shared + (step & 1) * Shape::half_elems + 8 * piece();
#pragma unroll
    for (int i = 0; i < Shape::row_pieces; ++i) {
      *reinterpret_cast<Bytes16*>(to + line(i) * Shape::stride) = loads.rows[i];
    }
    *reinterpret_cast<Bytes16*>(to + (Shape::rows + line(0)) * Shape::stride) = loads.column;
  }

  /// Leaves the tile in shared memory, rows out_stride apart.
  __device__ void multiply(T* shared) const {
    using Tile = typename Shape::Tile;
    const int first_row = wave_index() / Shape::waves_along_columns * Shape::wave_rows;
    const int column = wave_index() % Shape::waves_along_columns * Shape::wave_columns;
    typename Tile::C sums[Shape::row_tiles][Shape::column_tiles];
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int c = 0; c < Shape::column_tiles; ++c) {
        sums[r][c] = Tile::zero();
      }
    }
    const int steps = (args.rank + Shape::k_step - 1) / Shape::k_step;
    Loads loads;
    load(0, loads);
    store(0, loads, shared);
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) {
        load(step + 1, loads);
      }
      const T* rows = shared + (step & 1) * Shape::half_elems + first_row * Shape::stride;
      const T* columns = shared + (step & 1) * Shape::half_elems + (Shape::rows + column) * Shape::stride;
#pragma unroll
      for (int k = 0; k < Shape::k_step; k += 16) {
        typename Tile::B b[Shape::column_tiles];
#pragma unroll
        for (int c = 0; c < Shape::column_tiles; ++c) {
          b[c] = Tile::load_b_shared(columns + 16 * c * Shape::stride + k, Shape::stride);
        }
#pragma unroll
        for (int r = 0; r < Shape::row_tiles; ++r) {
          const typename Tile::A a = Tile::load_a_shared(rows + 16 * r * Shape::stride + k, Shape::stride);
#pragma unroll
          for (int c = 0; c < Shape::column_tiles; ++c) {
            Tile::multiply(sums[r][c], a, b[c]);
          }
        }
      }
      if (step + 1 < steps) {
        store(step + 1, loads, shared);
      }
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < Shape::row_tiles; ++r) {
#pragma unroll
      for (int c = 0; c < Shape::column_tiles; ++c) {
#pragma unroll
        for (int i = 0; i < Tile::c_elems; ++i) {
          shared[(first_row + 16 * r + Tile::c_row(i)) * Shape::out_stride + column + 16 * c + Tile::c_col(i)] =
              from_float<T>(sums[r][c][i]);
        }
      }
    }
    __syncthreads();
  }

  __device__ T* out_row(void* out, int key) const {
    const std::int64_t row = (std::int64_t{sequence} * args.heads + head) * args.capacity + key;
    return static_cast<T*>(out) + row * args.head_dim;
  }

  /// The address of an element of a column.
  __device__ T* place(int key, int column) const {
    return column < args.plain_dim ? out_row(args.k, key) + column : out_row(args.v, key) + column - args.plain_dim;
  }

  __device__ void write(const T* shared) const {
    constexpr int pieces = Shape::columns / 8;
    const int columns = args.plain_dim + args.value_dim;
    for (int i = thread_index(); i < Shape::rows * pieces; i += expand_threads) {
      const int key = first_key + i / pieces;
      const int column = first_column + i % pieces * 8;
      const T* from = shared + i / pieces * Shape::out_stride + i % pieces * 8;
      if (key < kv_len && column < columns && args.in_eights != 0) {
        *reinterpret_cast<Bytes16*>(place(key, column)) = *reinterpret_cast<const Bytes16*>(from);
      } else if (key < kv_len) {
        for (int j = 0; j < 8 && column + j < columns; ++j) {
          *place(key, column + j) = from[j];
        }
      }
    }
  }

  /// Writes the part of K that turns, and the zeros after V.
  __device__ void write_rest() const {
    const int turned = args.head_dim - args.plain_dim;
    for (int i = thread_index(); i < Shape::rows * turned; i += expand_threads) {
      const int key = first_key + i / turned;
      const int dim = i % turned;
      if (key < kv_len) {
        const Stored latent = latent_row(key)[args.rank + dim];
        if constexpr (sizeof(Stored) == 1) {
          const float scale = kv_scale(args.kv, args.kv.k, sequence, key, 0, args.rank + dim);
          out_row(args.k, key)[args.plain_dim + dim] = from_float<T>(static_cast<float>(latent.value) * scale);
        } else {
          out_row(args.k, key)[args.plain_dim + dim] = latent;
        }
      }
    }
    const int zeros = args.head_dim - args.value_dim;
    for (int i = thread_index(); i < Shape::rows * zeros; i += expand_threads) {
      const int key = first_key + i / zeros;
      if (key < kv_len) {
        out_row(args.v, key)[args.value_dim + i % zeros] = T{};
      }
    }
  }
};

/// Grid: tiles of keys, tiles of a head's columns x heads, sequences.
template <class T, class Stored>
__device__ __forceinline__ void latent_expand(const LatentExpandArgs& args) {
  __shared__ Bytes16 memory[ExpandShape<T>::shared_elems / 8];
  T* shared = reinterpret_cast<T*>(memory);
  const int sequence = static_cast<int>(blockIdx.z);
  const int tiles = (args.plain_dim + args.value_dim + expand_columns - 1) / expand_columns;
  const int column_tile = static_cast<int>(blockIdx.y) % tiles;
  ExpandTile<T, Stored> tile{args,
                             sequence,
                             static_cast<int>(blockIdx.y) / tiles,
                             column_tile * expand_columns,
                             static_cast<int>(blockIdx.x) * expand_rows,
                             args.kv_lengths[sequence],
                             {},
                             nullptr};
  if (tile.first_key >= tile.kv_len) {
    return;
  }
  tile.begin();
  if (column_tile == 0) {
    tile.write_rest();
  }
  tile.multiply(shared);
  tile.write(shared);
}

/// K's matrices: rows [rank, plain_dim] become [plain_dim, rank]. Neighbouring threads take neighbouring rows, so that they
/// write side by side.
template <class T, class Block>
__device__ __forceinline__ void turn_keys(const LatentWeightsArgs& args, int head, T* out) {
  const int chunks = (args.plain_dim + read_elems - 1) / read_elems;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x) + thread_index(); i < args.rank * chunks;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    const int row = i % args.rank;
    const int first = i / args.rank * read_elems;
    const auto* from = reinterpret_cast<const Block*>(static_cast<const std::uint8_t*>(args.keys) +
                                                      head * args.key_head_bytes + row * args.key_row_bytes);
    float values[read_elems];
    read_elements(from, first, args.plain_dim, values);
#pragma unroll
    for (int j = 0; j < read_elems; ++j) {
      if (first + j < args.plain_dim) {
        out[std::int64_t{first + j} * args.rank + row] = from_float<T>(values[j]);
      }
    }
  }
}

template <class T, class Block>
__device__ __forceinline__ void convert_values(const LatentWeightsArgs& args, int head, T* out) {
  const int chunks = args.rank / read_elems;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x) + thread_index(); i < args.value_dim * chunks;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    const int row = i / chunks;
    const int first = i % chunks * read_elems;
    const auto* from = reinterpret_cast<const Block*>(static_cast<const std::uint8_t*>(args.values) +
                                                      head * args.value_head_bytes + row * args.value_row_bytes);
    float values[read_elems];
    read_elements(from, first, args.rank, values);
    Bytes16 packed;
#pragma unroll
    for (int j = 0; j < read_elems / 2; ++j) {
      packed.words[j] = pack_pair<T>(values[2 * j], values[2 * j + 1]);
    }
    *reinterpret_cast<Bytes16*>(out + std::int64_t{row} * args.rank + first) = packed;
  }
}

/// Grid: pieces, heads, K and V.
template <class T>
__device__ __forceinline__ void latent_weights(const LatentWeightsArgs& args) {
  const int head = static_cast<int>(blockIdx.y);
  T* out = static_cast<T*>(args.out) + std::int64_t{head} * (args.plain_dim + args.value_dim) * args.rank;
  if (blockIdx.z == 0) {
    visit_format(
        Formats(),
        args.key_type, [&]<class Block>(Block*) __attribute__((always_inline)) { turn_keys<T, Block>(args, head, out); });
  } else {
    T* values = out + std::int64_t{args.plain_dim} * args.rank;
    visit_format(
        Formats(), args.value_type, [&]<class Block>(Block*) __attribute__((always_inline)) {
          convert_values<T, Block>(args, head, values);
        });
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(latent_weights_threads) latent_weights_f16(LatentWeightsArgs args) {
  latent_weights<half>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(latent_weights_threads) latent_weights_bf16(LatentWeightsArgs args) {
  latent_weights<bfloat16>(args);
}

// By the type of the cache.
ROCMFORGE_KERNEL __launch_bounds__(expand_threads) latent_expand_f16(LatentExpandArgs args) {
  latent_expand<half, half>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(expand_threads) latent_expand_bf16(LatentExpandArgs args) {
  latent_expand<bfloat16, bfloat16>(args);
}
ROCMFORGE_KERNEL __launch_bounds__(expand_threads) latent_expand_q8_0(LatentExpandArgs args) {
  latent_expand<half, Quant>(args);
}

/// Grid: parts of a token's row, tokens.
ROCMFORGE_KERNEL copy_heads(CopyHeadsArgs args) {
  const int width = args.heads * args.out_dim;
  for (std::int64_t token = blockIdx.y; token < args.tokens; token += gridDim.y) {
    const float* from = args.x + (args.first_token + token) * args.heads * args.dim;
    float* to = args.out + ((args.first_token + token) * args.out_heads + args.first_head) * args.out_dim;
    for (int i = static_cast<int>(blockIdx.x * blockDim.x) + thread_index(); i < width;
         i += static_cast<int>(gridDim.x * blockDim.x)) {
      to[i] = from[i / args.out_dim * args.dim + i % args.out_dim];
    }
  }
}

}  // namespace rocmforge::gpu
