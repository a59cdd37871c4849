#pragma once

#include <cstdint>

#include "kernels/gpu/experts_args.h"
#include "kernels/hopper/matmul_tiles_args.h"
#include "ops/activation.h"

namespace rocmforge::hopper {

/// Few tokens: every slot by itself. A work-group computes 16 rows, of gate and up for a slot, of down for all slots of a
/// token; its warps share out the slots and, of each, `parts` runs of units along k. See experts_vectors.h.
/// Grid: tiles of 16 rows, slots of a token for gate and up, tokens.
struct ExpertVectorArgs {
  const std::uint8_t* weights[2];  ///< gate and up, or down: [experts] as weight_layout.h says
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  const std::int32_t* ids;  ///< [slots]
  const float* shares;      ///< [slots], for down
  const float* x;           ///< [tokens, k], for down [slots, k]
  float* out;               ///< [slots, n], for down [tokens, n]
  std::int32_t n;
  std::int32_t k;
  std::int32_t used;
  std::int32_t shared;  ///< the last of these, which are the last of all experts
  std::int32_t experts;
  std::int32_t records;  ///< of a row of weights
  std::int32_t units;    ///< of expert_unit_columns
  std::int32_t parts;    ///< of the units, each of a warp
  std::int32_t ring;     ///< units of a warp that are on their way at a time
  std::int32_t x_aligned;
  Activation activation;
  std::int32_t chosen_before;  ///< ids may be read before the predecessor has ended
};
/// Columns that products of few tokens take together: a record or two.
inline constexpr int expert_unit_columns = 256;
/// What raw codes (LaneWeights::numbers) of steps 0 and 1 are larger by, and what activations of step 1 are multiplied with,
/// since codes of high nibbles are 16 times too large. MXFP4 has no offset.
struct UnitOffsets {
  float first;
  float second;
  float second_share;
};
constexpr UnitOffsets unit_offsets(WeightFormat format) {
  if (format == WeightFormat::mxfp4) {
    return {0.0f, 0.0f, 1.0f};
  }
  const int times = has_high_nibbles(format) ? 16 : 1;
  const int offset = weight_code_offset(format);
  return {static_cast<float>(1024 + offset), static_cast<float>(1024 + times * offset), 1.0f / static_cast<float>(times)};
}
/// A scale belongs to 16 columns.
constexpr bool unit_half_blocks(WeightFormat format) { return format == WeightFormat::q6_k; }

inline constexpr int expert_gate_up_warps = 8;
/// At most, of down: as many as have registers, of which half lets two work-groups share a multiprocessor.
constexpr int expert_down_warps(WeightFormat format) {
  return format == WeightFormat::q6_k ? 16 : format == WeightFormat::q8_0 ? 20 : 24;
}
inline constexpr int most_expert_ring = 4;
/// Shared memory of a work-group: rings of units, sums of 16 rows of each run, and for down of each slot its share and its
/// expert.
struct ExpertVectorShared {
  int sums;
  int barriers;
  int shares;
  int experts;
  int bytes;
};
constexpr ExpertVectorShared expert_vector_shared(int runs, int warps, int ring, int unit_bytes, int used) {
  ExpertVectorShared shared{};
  shared.sums = warps * ring * unit_bytes;
  shared.barriers = shared.sums + runs * weight_tile_rows * 4;
  shared.shares = shared.barriers + warps * ring * 8;
  shared.experts = shared.shares + used * 4;
  shared.bytes = shared.experts + used * 4;
  return shared;
}
/// Runs of units of a token's slots at most.
inline constexpr int most_expert_runs = gpu::most_experts_used;

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

/// Few slots of each expert, sorted by expert: tiles of up to 8, of which the tensor core's eight columns hold one each. A
/// work-group has a tile and 8 tiles of 16 rows: of gate and up the same 64 rows, or 128 of down. See experts_few.h.
/// Grid: row groups, room for the tiles of slots.
struct ExpertFewArgs {
  const std::uint8_t* weights[2];
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  const std::uint8_t* x;  ///< tiles, each few_tile_bytes long
  const gpu::ExpertTile* work;
  const std::int32_t* work_count;
  const std::int32_t* order;
  float* out;  ///< [slots, n]
  std::int32_t n;
  std::int32_t records;
  std::int32_t units;           ///< of expert_unit_columns
  std::int32_t parts;           ///< of the units, added up by themselves, as ExpertVectorArgs has them
  std::int32_t padded_columns;  ///< of a row of activations
  std::int32_t ring;            ///< units of a warp that are on their way at a time
  Activation activation;
  std::int32_t chosen_before;  ///< work may be read before the predecessor has ended
};
inline constexpr int few_slots = 8;
inline constexpr int few_warps = 8;
inline constexpr int most_few_ring = 4;
inline constexpr int most_few_columns = 8192;  ///< k: a tile's activations stay in shared memory
/// A tile's activations: [blocks of 32 columns][8 slots][4] of 8 binary16 in the order of activation_element; then what they
/// are to be multiplied with, [units][8 slots] floats; then what a block's sums begin with and the sums of its activations,
/// [blocks of 16 columns][8 slots][2] floats, of which formats with scales for 32 columns have the even ones.
constexpr std::int64_t few_sums_offset(std::int64_t padded_columns) {
  return padded_columns * few_slots * 2 + padded_columns / expert_unit_columns * few_slots * 4;
}
constexpr std::int64_t few_tile_bytes(std::int64_t padded_columns) {
  return few_sums_offset(padded_columns) + padded_columns / 16 * few_slots * 8;
}
struct ExpertFewShared {
  int ring;
  int sums;
  int barriers;
  int bytes;
};
constexpr ExpertFewShared expert_few_shared(int padded_columns, int ring, int unit_bytes) {
  ExpertFewShared shared{};
  shared.ring = (static_cast<int>(few_tile_bytes(padded_columns)) + 127) / 128 * 128;
  shared.sums = shared.ring + few_warps * ring * unit_bytes;
  shared.barriers = shared.sums + few_warps * weight_tile_rows * few_slots * 4;
  shared.bytes = shared.barriers + (few_warps * ring + 1) * 8;
  return shared;
}

/// Slots' activations for ExpertFewArgs. Grid: room for the tiles, times few_slots.
struct ExpertFewConvertArgs {
  const float* x;
  std::uint8_t* to;
  const gpu::ExpertTile* work;
  const std::int32_t* work_count;
  const std::int32_t* order;
  std::int64_t stride;  ///< of rows of x
  std::int32_t slots_of_row;
  std::int32_t k;
  std::int32_t padded_columns;
  std::int32_t half_blocks;  ///< unit_half_blocks
  std::int32_t sums;         ///< whether blocks' sums are wanted
  UnitOffsets offsets;
  std::int32_t aligned;  ///< rows of x begin at multiples of 16 bytes
};
inline constexpr int few_convert_threads = 256;

/// Slots' activations in boxes. Grid: room for the tiles, times their tokens.
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
