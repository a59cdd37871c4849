#pragma once

#include <cstdint>

#include "kernels/gpu/experts_args.h"
#include "kernels/hopper/matmul_tiles_args.h"
#include "ops/activation.h"

namespace rocmforge::hopper {

/// Few tokens: every slot by itself. A work-group computes 16 rows, of gate and up for a slot, of down for all slots of a
/// token; its warps share out the slots and, of each, `parts` runs of records along k. See experts_vectors.h.
/// Grid: tiles of 16 rows, slots (gate and up) or tokens (down).
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
  std::int32_t records;  ///< of a row of weights
  std::int32_t parts;    ///< of the records, each of a warp
  std::int32_t ring;     ///< records of a warp that are on their way at a time
  std::int32_t x_aligned;
  Activation activation;
};
inline constexpr int expert_warps = 8;
inline constexpr int most_expert_ring = 4;
/// Shared memory of a work-group: rings of records, a record's activations of each warp, sums of 16 rows of each run.
struct ExpertVectorShared {
  int x;
  int sums;
  int barriers;
  int bytes;
};
constexpr ExpertVectorShared expert_vector_shared(int runs, int ring, int record_bytes) {
  ExpertVectorShared shared{};
  shared.x = expert_warps * ring * record_bytes;
  shared.sums = shared.x + expert_warps * 512;
  shared.barriers = shared.sums + runs * weight_tile_rows * 4;
  shared.bytes = shared.barriers + expert_warps * ring * 8;
  return shared;
}
/// Runs of records of a token's slots at most.
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
