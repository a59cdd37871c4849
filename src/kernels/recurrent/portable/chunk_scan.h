#pragma once

// Shared by the kernels of scans in chunks, see docs/kernels/delta_net.md.

#include "kernels/recurrent/portable/chunk_scan_args.h"
#include "kernels/tile/tile.h"

namespace rocmforge::gpu {

using ChunkTile = MatrixTile<half>;

inline constexpr int chunk_waves = chunk_threads / wave_size;
/// Unit vectors and weights are stored times this factor, so that the rest after rounding is a normal half too.
inline constexpr float chunk_scale = 4096.0f;

static_assert(ChunkTile::stored_bytes == chunk_tile_bytes);

/// A chunk of a sequence, in a place of the workspace.
struct Chunk {
  int sequence;
  int index;  ///< in the sequence
  int first;  ///< token
  int rows;

  /// Finds the chunk of a place; false when the place has none.
  __device__ bool find(const ChunkArgs& args, int place) {
    const int token = (place + 1) * chunk_least_rows - 1;
    if (token >= args.tokens) {
      return false;
    }
    sequence = args.sequence_of[token];
    const int begin = args.query_offsets[sequence];
    const int count = args.query_offsets[sequence + 1] - begin;
    index = place - begin / chunk_least_rows;
    first = begin + index * chunk_rows;
    rows = min(count - index * chunk_rows, chunk_rows);
    return count >= chunk_least_rows && rows > 0;
  }
};

__device__ inline int chunk_key_head(const ChunkArgs& args, int head) {
  return args.tiled ? head % args.key_heads : head / (args.value_heads / args.key_heads);
}

/// What the workspace has of a place, `place` counted from the first that is computed now.
__device__ inline std::byte* chunk_keys_at(const ChunkArgs& args, int place, int key_head) {
  const std::size_t bytes = ChunkKeys{args.key_tiles}.bytes();
  return args.workspace + place * args.place_stride + static_cast<std::size_t>(key_head) * bytes;
}
__device__ inline std::byte* chunk_head_at(const ChunkArgs& args, int place, int head) {
  return chunk_keys_at(args, place, args.key_heads) + static_cast<std::size_t>(head) * ChunkHead::bytes;
}

/// Part 0 or 1 of operand [row, column] of a matrix of operands.
__device__ inline std::byte* chunk_operand(std::byte* matrix, int row, int columns, int column, int part) {
  return matrix + static_cast<std::size_t>((row * columns + column) * 2 + part) * chunk_tile_bytes;
}
__device__ inline const std::byte* chunk_operand(const std::byte* matrix, int row, int columns, int column, int part) {
  return matrix + static_cast<std::size_t>((row * columns + column) * 2 + part) * chunk_tile_bytes;
}

/// A number in two parts.
struct Parts {
  half large;
  half small;

  __device__ explicit Parts(float value) : large(from_float<half>(value)) {
    small = from_float<half>(value - to_float(large));
  }
};

/// A matrix in shared memory in two parts. The bits alone, as shared memory takes no type with a constructor.
template <int rows, int columns>
struct SharedParts {
  static constexpr int stride = columns + 8;  ///< rows in other banks, 16-byte aligned
  alignas(16) std::uint16_t bits[2][rows][stride];

  __device__ void set(int row, int column, float value) {
    const Parts parts(value);
    bits[0][row][column] = parts.large.bits;
    bits[1][row][column] = parts.small.bits;
  }
  [[nodiscard]] __device__ float get(int row, int column) const {
    return to_float(__builtin_bit_cast(half, bits[0][row][column])) +
           to_float(__builtin_bit_cast(half, bits[1][row][column]));
  }
  /// Of tile [row, column].
  [[nodiscard]] __device__ const half* tile(int part, int row, int column) const {
    return reinterpret_cast<const half*>(&bits[part][16 * row][16 * column]);
  }
  /// As the left operand.
  [[nodiscard]] __device__ ChunkTile::A load(int part, int row, int column) const {
    return ChunkTile::load_a_shared(tile(part, row, column), stride);
  }
};

/// Products of numbers in two parts; the product of both small ones is below what floats hold.
struct PartsProduct {
  ChunkTile::C large = ChunkTile::zero();
  ChunkTile::C small[2] = {ChunkTile::zero(), ChunkTile::zero()};

  __device__ void add(const ChunkTile::A (&a)[2], const ChunkTile::B (&b)[2]) {
    ChunkTile::multiply(large, a[0], b[0]);
    ChunkTile::multiply(small[0], a[0], b[1]);
    ChunkTile::multiply(small[1], a[1], b[0]);
  }
  [[nodiscard]] __device__ float value(int i) const { return large[i] + (small[0][i] + small[1][i]); }
};

}  // namespace rocmforge::gpu
