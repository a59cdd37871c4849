#pragma once

#include <cstdint>

#include "kernels/amd/matvec_args.h"
#include "kernels/gpu/experts_args.h"

namespace rocmforge::amd {

/// Products of up to most_matvec_tokens tokens with the matrices of their experts; see experts_packed.h. Grid: work-groups
/// of a token, tokens.
///
/// A cut is a tile of rows of a slot (gate and up, up alone) or of the token's output (down). Each has several items, which
/// are what the dense products call cuts: a tile of gate and one of up, or of down a tile of each slot.
struct ExpertVectorArgs {
  const std::uint8_t* weights[2];  ///< gate and up, or the only one: [experts] as weight_layout.h says
  std::int64_t expert_bytes[2];
  gpu::ExpertFinish finish[2];
  const std::int32_t* ids;  ///< [tokens, used]
  const float* shares;      ///< [tokens, used], for down
  const float* x;           ///< [tokens, k], for down [tokens * used, k]
  float* out;               ///< [tokens * used, n], for down [tokens, n]
  std::int32_t n;
  std::int32_t k;
  std::int32_t used;
  std::int32_t row_tiles;  ///< of a matrix
  std::int32_t tile_bytes;
  std::int32_t record_bytes;
  std::int32_t cuts;           ///< of a token
  std::int32_t parts;          ///< items of a cut: 2 of gate and up, 1 of up alone, `used` of down
  std::int32_t group_cuts;     ///< of a work-group, neighbours
  std::int32_t batch_cuts;     ///< of these, whose partial sums fit into shared memory together
  std::int32_t chunk_records;  ///< of each row of x in shared memory at a time; even unless it is all of x
  WeightFormat format;
  Activation activation;
};

/// Items of a batch at most: a thread finishes one of eight rows of an item.
inline constexpr int most_expert_items = matvec_threads / weight_tile_rows;
/// Of an item, in shared memory: where its weights are, where its activations, its share.
inline constexpr int expert_item_bytes = 16;

/// Partial sums of a row: record r belongs to the r % 16-th, and the others of a short row stay away.
constexpr int expert_partial_sums(int all_records) { return all_records < partial_sums ? all_records : partial_sums; }

/// As MatvecShared, with `rows` of activations in place of tokens; squares and factors are not there.
struct ExpertShared : MatvecShared {
  int items;  ///< [items] of expert_item_bytes
};
constexpr ExpertShared expert_shared(int rows, int records, int all_records, int items) {
  ExpertShared shared{};
  shared.token_bytes = (records + 1) / 2 * 2 * image_record_bytes;
  shared.partials = rows * shared.token_bytes;
  shared.items = shared.partials + items * expert_partial_sums(all_records) * weight_tile_rows * 4;
  shared.bytes = shared.items + items * expert_item_bytes;
  return shared;
}

/// Columns of x that shared memory holds at a time, for each of so many rows: a multiple of two records. Of more rows than
/// most_expert_rows there is no room for so many.
constexpr int expert_chunk_records(int rows) { return 16384 / record_elems / rows / 2 * 2; }
inline constexpr int most_expert_rows = 32;

}  // namespace rocmforge::amd
