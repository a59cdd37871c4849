#pragma once

#include <cstdint>

#include "kernels/experts/portable/experts_args.h"
#include "kernels/matmul/amd/matvec_args.h"

namespace rocmforge::amd {

/// Products of up to most_matvec_tokens tokens with the matrices of their experts; see experts_packed.h. Grid: work-groups
/// of a token, tokens.
///
/// A cut is a tile of rows of a slot (gate and up, up alone) or of the token's output (down). Its items correspond to the
/// cuts of dense products: a tile of gate and one of up, or for down a tile of each slot.
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
  std::int32_t group_cuts;     ///< neighbouring cuts of a work-group
  std::int32_t batch_cuts;     ///< cuts whose partial sums fit into shared memory together
  std::int32_t chunk_records;  ///< of each row of x in shared memory at a time; even unless it is all of x
  WeightFormat format;
  Activation activation;
  std::uint32_t tile_divisor;  ///< of row_tiles
  std::uint32_t part_divisor;  ///< of parts
  std::int32_t unused;
};

/// The calls that one launch of a token's experts may have, in their order: attention's output, the router, gate and up,
/// down, and the dense weights behind them.
enum class ExpertCall : std::int32_t { output, route, gate_up, down, dense };

/// Those from `first` on, order.count of them, in one launch (experts_chain.h).
struct ExpertChainArgs {
  MatvecArgs products[2];  ///< attention's output, dense weights
  gpu::RouteGroupsArgs route;
  ExpertVectorArgs gate_up;
  ExpertVectorArgs down;
  ChainOrder order;
  ExpertCall first;
  std::int32_t unused;
};
/// Shared memory of the router's work-groups in such a launch.
inline constexpr int chained_route_bytes = 17 * 1024;

/// value / by without a division, as value * divisor(by) / 2^31: exact while value * by is less than 2^31.
constexpr std::uint32_t divisor(std::int32_t by) { return (1u << 31) / static_cast<std::uint32_t>(by) + 1; }
constexpr int divided(int value, std::uint32_t divisor) {
  return static_cast<int>((static_cast<std::uint64_t>(static_cast<std::uint32_t>(value)) * divisor) >> 31);
}
/// Rows of a matrix at most, so that divided() is exact.
inline constexpr std::int64_t most_matrix_rows = std::int64_t{1} << 16;

/// Items of a batch at most: a thread finishes one of eight rows of an item.
inline constexpr int most_expert_items = matvec_threads / weight_tile_rows;

/// Partial sums of a row: record r belongs to number r % 16; a row with fewer records has only as many.
constexpr int expert_partial_sums(int all_records) { return all_records < partial_sums ? all_records : partial_sums; }

/// As matvec_shared(), with `rows` of activations in place of tokens, and no norm.
constexpr MatvecShared expert_shared(int rows, int records, int all_records, int items) {
  MatvecShared shared{};
  shared.token_bytes = (records + 1) / 2 * 2 * image_record_bytes;
  shared.partials = rows * shared.token_bytes;
  shared.bytes = shared.partials + items * expert_partial_sums(all_records) * weight_tile_rows * 4;
  shared.squares = shared.factors = shared.bytes;
  return shared;
}

/// Columns of x that shared memory holds at a time, for each of so many rows: a multiple of two records. Rows beyond
/// most_expert_rows would not fit.
constexpr int expert_chunk_records(int rows) { return 16384 / record_elems / rows / 2 * 2; }
inline constexpr int most_expert_rows = 32;

}  // namespace rocmforge::amd
