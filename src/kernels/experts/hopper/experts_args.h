#pragma once

#include <cstdint>

#include "kernels/experts/portable/experts_args.h"
#include "kernels/matmul/hopper/matmul_args.h"
#include "kernels/matmul/hopper/matmul_tiles_args.h"
#include "ops/activation.h"

namespace rocmforge::hopper {

/// Few tokens: every slot by itself. See experts_vectors.h. Grid: work-groups of a token, 1, tokens.
struct ExpertVectorArgs {
  const std::uint8_t* weights[2];  ///< gate and up, or down: [experts] as weight_layout.h says
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  const std::int32_t* ids;  ///< [tokens, used]
  const float* shares;      ///< [tokens, used], for down
  const float* x;           ///< [tokens, k], for down [tokens, used, k]
  float* out;               ///< [tokens, used, n], for down [tokens, n]
  std::int32_t n;
  std::int32_t k;
  std::int32_t row_tiles;   ///< of 16 rows
  std::int32_t tile_bytes;  ///< of 16 rows
  std::int32_t used;
  std::int32_t first_slot;  ///< slots [first_slot, first_slot + slots_used) of each token
  std::int32_t slots_used;
  std::int32_t shared;  ///< the last of a token's slots, whose experts are the last of all
  std::int32_t experts;
  std::int32_t slots;  ///< of the ring
  std::int32_t x_aligned;
  Activation activation;
  std::int32_t chosen_before;  ///< ids may be read before the predecessor has ended
  std::int32_t unused;
};
/// Columns that products of few tokens take together: a record or two.
inline constexpr int expert_unit_columns = matvec_step;

/// Shared memory of a work-group, as matvec_shared(): the image of `rows` rows of activations, sums, barriers, ring; and the
/// experts of a token's slots.
struct ExpertVectorShared : MatvecShared {
  int experts;
};
constexpr ExpertVectorShared expert_vector_shared(int rows, int k, int slots, int step_bytes) {
  ExpertVectorShared shared{matvec_shared(rows, k, 0, 0), 0};
  shared.sums = shared.squares;  // there are none
  shared.experts = shared.sums + 2 * matvec_chunk * matvec_warps * weight_tile_rows * 4;
  shared.barriers = shared.experts + gpu::most_experts_used * 4;
  shared.ring = (shared.barriers + (5 + 2 * slots) * 8 + 127) / 128 * 128;
  shared.bytes = shared.ring + slots * matvec_slot_steps * step_bytes;
  return shared;
}

/// The largest k for which a row's codes leave room for the ring.
inline constexpr int most_expert_columns = 65536;

/// Many tokens, sorted by expert: matmul_tiles.h with tiles of slots of one expert. parts[0] and parts[1] are gate and up,
/// or parts[0] is down; their outputs are rows of slots.
struct ExpertTilesArgs {
  MatmulTilesArgs product;
  const gpu::ExpertTile* work;     ///< tiles of slots
  const std::int32_t* work_count;  ///< how many
  const std::int32_t* order;       ///< slots by place
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  Activation activation;
  std::int32_t unused;
};

/// Few slots of each expert, sorted by expert: tiles of up to 8 slots, one for each of the eight columns of a tensor core
/// instruction. A work-group takes items: a tile and some tiles of 16 rows, a warp each, which are the same 64 rows of gate
/// and up or 128 rows of down; half as many where two warps share the units of a row. See experts_few.h. Grid: work-groups,
/// among which the items are divided.
struct ExpertFewArgs {
  const std::uint8_t* weights[2];
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  const std::uint8_t* x;  ///< rows of codes, row_bytes apart
  const gpu::ExpertTile* work;
  const std::int32_t* work_count;
  const std::int32_t* order;
  float* out;           ///< [slots, n]
  std::uint8_t* codes;  ///< [slots] rows of codes of the outputs, or null
  std::int32_t n;
  std::int32_t records;
  std::int32_t units;           ///< of expert_unit_columns
  std::int32_t padded_columns;  ///< of a row of activations
  std::int32_t slots_of_row;    ///< neighbouring slots that share a row of x
  std::int32_t tile_bytes;
  std::int32_t ring;  ///< units of a warp that are in flight at a time
  Activation activation;
  std::int32_t chosen_before;  ///< work may be read before the predecessor has ended
  std::int32_t unused;
};
inline constexpr int few_slots = 8;
inline constexpr int few_warps = 8;
inline constexpr int few_held_tiles = 2;     ///< of slots in shared memory: the present one and the next
inline constexpr int few_unit_arrivals = 1;  ///< of a unit's barrier: the warp that has copied it, and the bytes
inline constexpr int few_x_arrivals = 1;     ///< of the activations' barrier: the warp that copies, and the bytes
inline constexpr int few_parts = 2;          ///< of a row's units, each of another warp
/// Rows of each matrix that a work-group takes at a time.
constexpr int few_rows_at_once(int matrices, int parts) { return few_warps / (matrices * parts) * weight_tile_rows; }
inline constexpr int most_few_ring = 6;
inline constexpr int most_few_columns = 8192;  ///< the largest k: a tile's activations stay in shared memory
/// A row of activations as codes: the data of a token in matvec_shared(), without padding between rows: codes, then the
/// scales and sums of the blocks.
constexpr int few_padded_columns(int columns) {
  return (columns + expert_unit_columns - 1) / expert_unit_columns * expert_unit_columns;
}
constexpr int few_row_code_bytes(int padded_columns) { return padded_columns * 2; }
constexpr int few_row_info_bytes(int padded_columns) { return padded_columns / 32 * 8; }
constexpr int few_row_bytes(int padded_columns) {
  return few_row_code_bytes(padded_columns) + few_row_info_bytes(padded_columns);
}
/// A tile's activations in shared memory: the image of eight rows.
constexpr std::int64_t few_tile_bytes(std::int64_t padded_columns) {
  return matvec_shared(few_slots, static_cast<int>(padded_columns), 0, 0).squares;
}
/// A tile of slots in shared memory.
struct FewTile {
  gpu::ExpertTile work;
  std::int32_t slots[few_slots];
};
struct ExpertFewShared {
  int ring;
  int sums;
  int tiles;  ///< of slots: the present one and the next
  int barriers;
  int bytes;
};
constexpr ExpertFewShared expert_few_shared(int tile_bytes, int ring, int unit_bytes) {
  ExpertFewShared shared{};
  shared.ring = (tile_bytes + 127) / 128 * 128;
  shared.sums = shared.ring + few_warps * ring * unit_bytes;
  shared.tiles = shared.sums + few_warps * weight_tile_rows * few_slots * 4;
  shared.barriers = shared.tiles + few_held_tiles * static_cast<int>(sizeof(FewTile));
  shared.bytes = shared.barriers + (few_warps * ring + 1) * 8;
  return shared;
}

/// Rows of activations for ExpertFewArgs; where `sorts`, also the order of the slots. Grid: rows, and one more work-group
/// where it sorts.
struct ExpertFewConvertArgs {
  gpu::SortSlotsArgs sort;
  const float* x;
  std::uint8_t* to;
  std::int64_t stride;  ///< of rows of x
  std::int32_t k;
  std::int32_t padded_columns;
  std::int32_t aligned;    ///< rows of x begin at multiples of 16 bytes
  std::int32_t for_mxfp4;  ///< codes in the order of its nibbles, and tiles weighed as its own
  std::int32_t sorts;
  std::int32_t unused;
};
inline constexpr int few_convert_threads = 256;

/// Slots' activations in boxes. Grid: the most tiles, times the tokens of a tile.
struct ExpertConvertArgs {
  TilesConvertArgs rows;  ///< x as the call has it
  const gpu::ExpertTile* work;
  const std::int32_t* work_count;
  const std::int32_t* order;
  std::int32_t slots_of_row;  ///< neighbouring slots that share a row of x
  std::int32_t unused;
};

inline constexpr int expert_convert_threads = 256;
inline constexpr int expert_convert_short = expert_convert_threads * 8;  ///< most columns of a row that is read once

}  // namespace rocmforge::hopper
