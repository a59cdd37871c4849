#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/state_slots.h"

namespace rocmforge::gpu {

inline constexpr int chunk_threads = 256;
inline constexpr int chunk_rows = 64;        ///< of a sequence, that meet in one matrix product
inline constexpr int chunk_least_rows = 32;  ///< a sequence with fewer rows in a step is scanned row by row
inline constexpr int chunk_tiles = chunk_rows / 16;
inline constexpr int chunk_tile_bytes = 512;  ///< an operand of 16 by 16 halves, see MatrixTile::keep

/// Columns of a state that one work-group takes through all chunks, by the size of the key in tiles of 16.
constexpr int chunk_columns(int key_tiles) { return key_tiles > 8 ? 16 : 32; }

/// Operands have two parts: a number scaled by a power of two and rounded to a half, and the rest, rounded to a half. For a
/// chunk and a key head: unit keys [row tiles, key tiles], unit queries likewise, keys [key tiles, row tiles] for products
/// along rows; k k and q k [rows, rows], lower tiles alone; lengths of keys and queries.
struct ChunkKeys {
  int key_tiles;

  [[nodiscard]] constexpr std::size_t operands() const {
    return std::size_t{2} * chunk_tiles * static_cast<std::size_t>(key_tiles) * chunk_tile_bytes;
  }
  [[nodiscard]] constexpr std::size_t queries() const { return operands(); }
  [[nodiscard]] constexpr std::size_t by_key() const { return 2 * operands(); }
  [[nodiscard]] constexpr std::size_t products() const { return 3 * operands(); }
  [[nodiscard]] constexpr std::size_t lengths() const { return products() + 2 * sizeof(float) * chunk_rows * chunk_rows; }
  [[nodiscard]] constexpr std::size_t bytes() const { return lengths() + 2 * sizeof(float) * chunk_rows; }
};

/// Numbers of the rows of a chunk for a value head.
struct ChunkRow {
  float share[chunk_rows];  ///< of a value that is added to the state
  float decay[chunk_rows];  ///< from the state before the chunk to the row
  float rest[chunk_rows];   ///< from the row to the state after the chunk
  float kept[chunk_rows];   ///< from the row to the state that is kept; 0 after that state
  float scale[chunk_rows];  ///< of the output
  float kept_decay;         ///< from the state before the chunk to the one that is kept
  float bound;              ///< on the growth of the length of any column of the state
  float unused[2];
};

/// Of a chunk and a value head: T and P [row tiles, row tiles], lower tiles alone, and the rows' numbers.
struct ChunkHead {
  static constexpr std::size_t operands = std::size_t{2} * chunk_tiles * chunk_tiles * chunk_tile_bytes;
  static constexpr std::size_t weights = operands;
  static constexpr std::size_t rows = 2 * operands;
  static constexpr std::size_t bytes =
      rows + (sizeof(ChunkRow) + chunk_tile_bytes - 1) / chunk_tile_bytes * chunk_tile_bytes;
};

/// Chunk c of a sequence whose first token is f has place f / chunk_least_rows + c, and no other chunk has that place. Place
/// p belongs to the sequence that has token chunk_least_rows (p + 1) - 1, if there is one.
struct ChunkArgs {
  const float* queries = nullptr;  ///< of the first row, as the other two; rows `row_stride` apart, heads side by side
  const float* keys = nullptr;
  const float* values = nullptr;
  const float* beta = nullptr;  ///< [tokens, value_heads], rows `gate_stride` apart; null: what is added is not corrected
  const float* gate = nullptr;  ///< likewise; softplus(gate + gate_bias) rate is the logarithm of the decay
  const float* rate = nullptr;  ///< [value_heads]
  const float* gate_bias = nullptr;  ///< [value_heads]
  const float* skip = nullptr;       ///< [value_heads], times the value is added to the output; null without beta alone
  const float* open = nullptr;       ///< [tokens, values], rows `gate_stride` apart: the output is times their SiLU; as skip
  float* out = nullptr;              ///< [tokens, values], rows `out_stride` apart
  std::byte* states = nullptr;       ///< [slots], f32 [value_heads, value_dim, key_dim] in each, `slot_stride` bytes apart
  const StateSlots* slots = nullptr;            ///< [sequences]
  const std::int32_t* query_offsets = nullptr;  ///< [sequences + 1]
  const std::int32_t* sequence_of = nullptr;    ///< [tokens]
  std::byte* workspace = nullptr;               ///< [places], of each the key heads and then the value heads
  std::int64_t row_stride = 0;
  std::int64_t gate_stride = 0;
  std::int64_t out_stride = 0;
  std::int64_t slot_stride = 0;
  std::int64_t place_stride = 0;  ///< bytes
  std::int32_t tokens = 0;
  std::int32_t sequences = 0;
  std::int32_t first_place = 0;  ///< of those that are computed now
  std::int32_t places = 0;
  std::int32_t key_heads = 0;
  std::int32_t value_heads = 0;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t key_tiles = 0;  ///< 8 or 16
  float eps = 0.0f;            ///< added to the square of a length
  bool tiled = false;          ///< see GatedDeltaNet::Spec
};

}  // namespace rocmforge::gpu
