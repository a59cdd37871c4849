#pragma once

#include <cstdint>

#include "kernels/matmul/portable/matmul_args.h"
#include "ops/activation.h"

namespace rocmforge::gpu {

/// Choice of experts; see ops/experts.h.
struct RouteChoice {
  const float* bias;  ///< [experts] or null
  std::int32_t* ids;  ///< [tokens, used + shared]
  float* weights;     ///< [tokens, used + shared]
  std::int32_t experts;
  std::int32_t used;
  std::int32_t score;  ///< RouteScore
  std::int32_t normalise;
  float scale;
  std::int32_t groups;
  std::int32_t groups_used;
  std::int32_t group_best;
  std::int32_t shared;
  std::int32_t shared_gates;  ///< a row of logits ends with theirs
  float shared_scale;
  std::int32_t unused;
};
/// Grid: tokens, each a wave.
struct RouteArgs {
  RouteChoice choice;
  const float* logits;  ///< [tokens, experts and shared_gates]
};
inline constexpr int most_experts = 1024;
inline constexpr int most_experts_used = 64;

/// A norm, the router's product and the choice of experts; see ops/experts.h, RouteRows.
struct RouteRowsArgs {
  RouteChoice choice;
  const float* x;             ///< [tokens, hidden]
  const float* norm;          ///< [hidden]
  const float* router;        ///< [experts, hidden]
  const float* router_bias;   ///< [experts] or null
  const float* shared_gates;  ///< [shared, hidden] or null
  float* normed;              ///< [tokens, hidden]
  float eps;
  std::int32_t hidden;  ///< a multiple of 4
  std::int32_t tokens;
  std::int32_t unused;
};
/// The same by several work-groups for each token, which share their logits. Grid: tiles of route_group_rows logits, tokens.
struct RouteGroupsArgs {
  RouteRowsArgs rows;
  float* logits;              ///< [tokens, experts and shared_gates]
  std::uint32_t* counters;    ///< [tokens], zero between launches
  std::int32_t normed_quads;  ///< of a token's normed row, that a work-group writes
  std::int32_t unused;
};
inline constexpr int route_group_rows = 2;
inline constexpr int route_group_threads = 256;

/// Bias and scale of a product, see ExpertWeight.
struct ExpertFinish {
  const float* bias;   ///< [n] of each expert, or null
  const float* scale;  ///< [experts] or null
  std::int64_t bias_stride;
};

/// Few tokens: every slot by itself, a matrix of its expert read once for each. Grid: tiles of rows, slots (gate and up) or
/// tokens (down).
struct ExpertVectorArgs {
  const std::uint8_t* weights[2];  ///< gate and up, or down: [experts] of [n] rows
  std::int64_t expert_bytes[2];
  ExpertFinish finish[2];
  std::int64_t row_bytes;
  const std::int32_t* ids;  ///< [slots]
  const float* shares;      ///< [slots], for down
  const float* x;           ///< [tokens, k], for down [slots, k]
  float* out;               ///< [slots, n], for down [tokens, n]
  std::int32_t n;
  std::int32_t k;
  std::int32_t used;
  std::int32_t count;  ///< slots, for down tokens
  std::int32_t chunk;  ///< as in MatvecArgs
  std::int32_t x_aligned;
  Activation activation;
  DType dtype;                ///< of the weights
  std::int32_t slots_of_row;  ///< for down and up alone: neighbouring slots that share a row of x
  std::int32_t alone;         ///< 1: the kernel of down computes up without a gate; each slot is then a token of one slot
};
/// Rows that a wave takes of gate, and as many of up; of down it takes `few_rows`.
constexpr int expert_pairs(int few_rows) { return few_rows > 1 ? few_rows / 2 : 1; }

/// Slots of one expert that share a tile: places [first, first + count) of the order.
struct ExpertTile {
  std::int32_t expert;
  std::int32_t first;
  std::int32_t count;
  std::int32_t work_before;  ///< Hopper, few slots: the work of the tiles before it (experts/hopper/experts_sort.h); else 0
};
inline constexpr MatmulTileShape expert_tile = small_matmul_tile;

/// Sorts slots by expert, those of one expert in any order: each is a row of its own in every product. Grid: 1.
struct SortSlotsArgs {
  const std::int32_t* ids;   ///< [slots]
  std::int32_t* order;       ///< [slots]: slots by place
  ExpertTile* tiles;         ///< room for as many as the slots may need
  std::int32_t* tile_count;  ///< [2]: how many there are, and on Hopper with few slots their work
  std::int32_t slots;
  std::int32_t experts;
  std::int32_t tile_tokens;  ///< slots of a tile at most
  std::int32_t unused;
};
inline constexpr int sort_threads = 1024;

/// The inputs of slots in their order as 16-bit rows. Grid: slots.
struct ConvertSlotsArgs {
  ConvertRowsArgs rows;       ///< x as the call has it
  const std::int32_t* order;  ///< [slots]
  std::int32_t slots_of_row;  ///< neighbouring slots that share a row of x
  std::int32_t unused;
};

/// One weight with the slots of every tile. Grid: tiles, tiles of rows.
struct ExpertTileArgs {
  const std::uint8_t* weight;
  std::int64_t expert_bytes;
  ExpertFinish finish;
  std::int64_t row_bytes;  ///< from a row to the next, in packed layouts from a tile of rows
  const std::uint16_t* x;  ///< [slots, padded_k] by place
  const float* x_scales;   ///< [slots] by place
  const std::int32_t* order;
  const ExpertTile* tiles;
  const std::int32_t* tile_count;
  float* out;  ///< [slots, n] by slot
  std::int32_t n;
  std::int32_t k;
  std::int32_t padded_k;
  std::int32_t gated;  ///< out = activation of out and the product in place of out = product; 2: of the product
  Activation activation;
  DType dtype;  ///< of the weight
};

/// out[token] += sum of shares * products over the token's slots. Grid: columns, tokens.
struct SumSlotsArgs {
  const float* products;  ///< [slots, n]
  const float* shares;    ///< [slots]
  float* out;             ///< [tokens, n]
  std::int64_t tokens;
  std::int32_t n;
  std::int32_t used;
};
inline constexpr int sum_threads = 256;

}  // namespace rocmforge::gpu
