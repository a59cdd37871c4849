// The states of a scan in chunks: a work-group takes some columns of one head's state (a column holds the state's elements
// of one dimension of the value) from chunk to chunk. All products are matrix products whose result has columns of the state
// as rows. The corrections of values (T), the products of rows (P) and the keys are stored operands, see chunk_scan.hip;
// only results that depend on the state go through shared memory. Numbers made of values are scaled by a power of two that
// follows from a bound on them, so that halves hold them. docs/kernels/delta_net.md.

#include "kernels/recurrent/portable/chunk_scan.h"
#include "kernels/tile/activation.h"

namespace rocmforge::gpu {
namespace {

/// Steps of a product whose operands may be on their way together; registers limit them.
constexpr int operands_ahead = ROCMFORGE_DEVICE_AMD ? 1 : 8;

/// The number, hidden from the compiler, which would keep every comparison with it through the loop over chunks.
__device__ inline int opaque(int number) {
#if ROCMFORGE_DEVICE_AMD
  asm volatile("" : "+s"(number));
#endif
  return number;
}

/// A power of two, and one over it.
struct Scale {
  float factor;
  float inverse;

  /// Numbers up to `bound` are at most 2^15 times the factor.
  __device__ explicit Scale(float bound) {
    const int exponent = static_cast<int>(__builtin_bit_cast(std::uint32_t, bound) >> 23 & 255);
    const int limited = min(max(exponent, 40), 250);
    factor = __builtin_bit_cast(float, static_cast<std::uint32_t>(268 - limited) << 23);
    inverse = __builtin_bit_cast(float, static_cast<std::uint32_t>(limited - 14) << 23);
  }
};

template <int key_tiles>
struct SharedState {
  static constexpr int columns = chunk_columns(key_tiles);
  SharedParts<columns, 16 * key_tiles> state;
  SharedParts<columns, chunk_rows> wanted;   ///< values to correct; then the changes of the state that is kept
  SharedParts<columns, chunk_rows> changes;  ///< of the state by each row
  SharedParts<columns, chunk_rows> carried;  ///< the changes, decayed to the end of the chunk
  float scratch[chunk_waves];
};

template <bool corrected, int key_tiles>
struct States {
  static constexpr int columns = chunk_columns(key_tiles);
  static constexpr int column_tiles = columns / 16;
  static constexpr int tasks = column_tiles * chunk_tiles;  ///< tiles of [columns, rows]
  static constexpr int rounds = (tasks + chunk_waves - 1) / chunk_waves;
  static constexpr int own_tiles = column_tiles * key_tiles / chunk_waves;  ///< of the state, in a wave's registers

  const ChunkArgs& args;
  SharedState<key_tiles>& shared;
  int head;
  int first_column;
  float state[own_tiles][ChunkTile::c_elems];
  float reach;  ///< no column of the state is longer

  __device__ static int key_tile(int i) { return (i * chunk_waves + wave_index()) % key_tiles; }
  __device__ static int column_tile(int i) { return (i * chunk_waves + wave_index()) / key_tiles; }
  __device__ static int row_tile(int task) { return task % chunk_tiles; }

  /// The state's columns in a slot.
  [[nodiscard]] __device__ float* columns_in(std::int32_t slot) const {
    return reinterpret_cast<float*>(args.states + slot * args.slot_stride) +
           (std::int64_t{head} * args.value_dim + first_column) * args.key_dim;
  }

  /// Zeros for slot -1.
  __device__ void load(std::int32_t slot) {
    float most = 0.0f;
    const int keys = opaque(args.key_dim);
    const int there = slot >= 0 ? opaque(args.value_dim) - first_column : 0;
    const float* from = columns_in(max(slot, 0));
#pragma unroll
    for (int i = 0; i < own_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        const int column = 16 * column_tile(i) + ChunkTile::c_row(e);
        const int key = 16 * key_tile(i) + ChunkTile::c_col(e);
        state[i][e] = column < there && key < keys ? from[std::int64_t{column} * keys + key] : 0.0f;
        most = fmaxf(most, fabsf(state[i][e]));
      }
    }
    reach = block_reduce<Max>(most, shared.scratch, 0.0f) * (4.0f * (key_tiles > 8 ? 4.0f : 2.83f));
  }

  __device__ void store(std::int32_t slot) const {
    const int keys = opaque(args.key_dim);
    const int there = opaque(args.value_dim) - first_column;
    float* to = columns_in(slot);
#pragma unroll
    for (int i = 0; i < own_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        const int column = 16 * column_tile(i) + ChunkTile::c_row(e);
        const int key = 16 * key_tile(i) + ChunkTile::c_col(e);
        if (column < there && key < keys) {
          to[std::int64_t{column} * keys + key] = state[i][e];
        }
      }
    }
  }

  __device__ void share_state(float factor) {
#pragma unroll
    for (int i = 0; i < own_tiles; ++i) {
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        shared.state.set(16 * column_tile(i) + ChunkTile::c_row(e), 16 * key_tile(i) + ChunkTile::c_col(e),
                         state[i][e] * factor);
      }
    }
  }

  /// sum += tile `column` of `left` times the operands of row tile `row`, over `count` tiles.
  template <int rows, int width>
  __device__ static void multiply(PartsProduct& sum, const SharedParts<rows, width>& left, int column,
                                  const std::byte* right, int row, int count) {
    constexpr int stride = width / 16;
#pragma unroll operands_ahead
    for (int k = 0; k < stride; ++k) {
      if (k < count) {
        const ChunkTile::A a[2] = {left.load(0, column, k), left.load(1, column, k)};
        const ChunkTile::B b[2] = {ChunkTile::fetch(chunk_operand(right, row, stride, k, 0)),
                                   ChunkTile::fetch(chunk_operand(right, row, stride, k, 1))};
        sum.add(a, b);
      }
    }
  }

  __device__ const float* value(const Chunk& chunk, int row, int column) const {
    return args.values + (chunk.first + row) * args.row_stride + std::int64_t{head} * args.value_dim + first_column + column;
  }

  /// Rows after the chunk's last are read as the last one, whose share is 0 there; columns after the head's last as the last
  /// one, and their results are not used.
  [[nodiscard]] __device__ float value_of(const Chunk& chunk, int row, int column) const {
    return *value(chunk, min(row, chunk.rows - 1), min(column, args.value_dim - 1 - first_column));
  }

  /// A row's value minus its value by the state, times the row's share.
  __device__ void want(const Chunk& chunk, const ChunkRow& rows, const std::byte* keys, const Scale& scale) {
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int task = r * chunk_waves + wave_index();
      if (task >= tasks) {
        break;
      }
      PartsProduct recalled;
      multiply(recalled, shared.state, task / chunk_tiles, keys, row_tile(task), key_tiles);
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        const int column = 16 * (task / chunk_tiles) + ChunkTile::c_row(e);
        const int row = 16 * row_tile(task) + ChunkTile::c_col(e);
        const float old = rows.decay[row] * (recalled.value(e) / chunk_scale);
        shared.wanted.set(column, row, rows.share[row] * (value_of(chunk, row, column) * scale.factor - old));
      }
    }
  }

  /// Computes the change of the state by each row.
  __device__ void change(const Chunk& chunk, const ChunkRow& rows, const std::byte* corrections, const Scale& scale) {
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int task = r * chunk_waves + wave_index();
      if (task >= tasks) {
        break;
      }
      PartsProduct sum;
      if constexpr (corrected) {
        multiply(sum, shared.wanted, task / chunk_tiles, corrections, row_tile(task), row_tile(task) + 1);
      }
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        const int column = 16 * (task / chunk_tiles) + ChunkTile::c_row(e);
        const int row = 16 * row_tile(task) + ChunkTile::c_col(e);
        const float own =
            corrected ? sum.value(e) / chunk_scale : rows.share[row] * (value_of(chunk, row, column) * scale.factor);
        shared.changes.set(column, row, own);
        shared.carried.set(column, row, own * rows.rest[row]);
      }
    }
  }

  __device__ void write_rows(const Chunk& chunk, const ChunkRow& rows, const std::byte* queries, const std::byte* weights,
                             const Scale& scale) const {
    const int there = opaque(args.value_dim) - first_column;
#pragma unroll
    for (int r = 0; r < rounds; ++r) {
      const int task = r * chunk_waves + wave_index();
      if (task >= tasks) {
        break;
      }
      PartsProduct before;
      multiply(before, shared.state, task / chunk_tiles, queries, row_tile(task), key_tiles);
      PartsProduct own;
      multiply(own, shared.changes, task / chunk_tiles, weights, row_tile(task), row_tile(task) + 1);
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        const int column = 16 * (task / chunk_tiles) + ChunkTile::c_row(e);
        const int row = 16 * row_tile(task) + ChunkTile::c_col(e);
        const float sum = rows.decay[row] * before.value(e) + own.value(e);
        if (row < chunk.rows && column < there) {
          write(chunk, row, column, sum * (rows.scale[row] / chunk_scale) * scale.inverse);
        }
      }
    }
  }

  __device__ void write(const Chunk& chunk, int row, int column, float sum) const {
    const std::int64_t token = chunk.first + row;
    const std::int64_t at = std::int64_t{head} * args.value_dim + first_column + column;
    float* out = args.out + token * args.out_stride + at;
    if constexpr (corrected) {
      *out = sum;
    } else {
      *out = (sum + args.skip[head] * *value(chunk, row, column)) * Silu::value(args.open[token * args.gate_stride + at]);
    }
  }

  /// The state after the chunk, or after a row of it: the old state times `decay`, plus `added`.
  __device__ void advance(const SharedParts<columns, chunk_rows>& added, const std::byte* keys, float decay,
                          const Scale& scale) {
#pragma unroll
    for (int i = 0; i < own_tiles; ++i) {
      PartsProduct sum;
      multiply(sum, added, column_tile(i), keys, key_tile(i), chunk_tiles);
#pragma unroll
      for (int e = 0; e < ChunkTile::c_elems; ++e) {
        state[i][e] = decay * state[i][e] + sum.value(e) / chunk_scale * scale.inverse;
      }
    }
  }

  /// Stores the state after a row of the chunk to `slot`.
  __device__ void keep(std::int32_t slot, const ChunkRow& rows, const std::byte* keys, const Scale& scale) {
    for (int i = thread_index(); i < columns * chunk_rows; i += chunk_threads) {
      const int row = i % chunk_rows;
      shared.wanted.set(i / chunk_rows, row, shared.changes.get(i / chunk_rows, row) * rows.kept[row]);
    }
    __syncthreads();
    States behind = *this;
    behind.advance(shared.wanted, keys, rows.kept_decay, scale);
    behind.store(slot);
  }

  /// Computes a chunk. `slot`: where to keep the state after one of its rows, or -1.
  __device__ void step(const Chunk& chunk, const std::byte* keys, const std::byte* own, std::int32_t slot) {
    const ChunkKeys layout{key_tiles};
    const ChunkRow& rows = *reinterpret_cast<const ChunkRow*>(own + ChunkHead::rows);
    const Scale scale(reach + rows.bound);
    __syncthreads();
    share_state(scale.factor);
    __syncthreads();
    if constexpr (corrected) {
      want(chunk, rows, keys, scale);
      __syncthreads();
    }
    change(chunk, rows, own, scale);
    __syncthreads();
    if (slot >= 0) {
      keep(slot, rows, keys + layout.by_key(), scale);
    }
    write_rows(chunk, rows, keys + layout.queries(), own + ChunkHead::weights, scale);
    const float decay = rows.decay[chunk_rows - 1];
    advance(shared.carried, keys + layout.by_key(), decay, scale);
    reach = reach * decay + rows.bound;
  }
};

template <bool corrected, int key_tiles>
__device__ void chunk_states(const ChunkArgs& args) {
  __shared__ SharedState<key_tiles> shared;
  begin_dependent();
  constexpr int columns = chunk_columns(key_tiles);
  const int pieces = (args.value_dim + columns - 1) / columns;
  const int head = static_cast<int>(blockIdx.x) / pieces;
  States<corrected, key_tiles> states{args, shared, head, static_cast<int>(blockIdx.x) % pieces * columns, {}, 0.0f};
  for (int sequence = static_cast<int>(blockIdx.y); sequence < args.sequences; sequence += static_cast<int>(gridDim.y)) {
    const int begin = args.query_offsets[sequence];
    const int count = args.query_offsets[sequence + 1] - begin;
    const int place = begin / chunk_least_rows - args.first_place;  // of the first chunk
    const int first = max(0, -place);
    const int last = min((count + chunk_rows - 1) / chunk_rows, args.places - place);
    if (count < chunk_least_rows || first >= last) {
      continue;
    }
    const StateSlots slots = args.slots[sequence];
    states.load(first == 0 ? slots.read : slots.write);  // an earlier launch has written the state after its chunks
    for (int c = first; c < last; ++c) {
      const Chunk chunk{sequence, c, begin + c * chunk_rows, min(count - c * chunk_rows, chunk_rows)};
      const int keep_row = slots.keep_rows - 1 - c * chunk_rows;
      const bool keeps = slots.keep >= 0 && keep_row >= 0 && keep_row < chunk_rows;
      states.step(chunk, chunk_keys_at(args, place + c, chunk_key_head(args, head)), chunk_head_at(args, place + c, head),
                  keeps ? slots.keep : -1);
    }
    if (slots.write >= 0) {
      states.store(slots.write);
    }
  }
}

}  // namespace

ROCMFORGE_KERNEL __launch_bounds__(chunk_threads) chunk_delta_net(ChunkArgs args) { chunk_states<true, 8>(args); }
ROCMFORGE_KERNEL __launch_bounds__(chunk_threads) chunk_ssm_scan_128(ChunkArgs args) { chunk_states<false, 8>(args); }
ROCMFORGE_KERNEL __launch_bounds__(chunk_threads) chunk_ssm_scan_256(ChunkArgs args) { chunk_states<false, 16>(args); }

}  // namespace rocmforge::gpu
