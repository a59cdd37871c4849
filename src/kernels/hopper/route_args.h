#pragma once

#include <cstdint>

#include "kernels/gpu/experts_args.h"

namespace rocmforge::hopper {

/// Grid: route_ranks work-groups, a cluster, for each token or each route_many_tokens tokens; shared memory: their rows.
using gpu::RouteRowsArgs;
inline constexpr int most_route_tokens = 64;  ///< of a call
inline constexpr int route_ranks = 8;         ///< work-groups that share out the experts of a token
inline constexpr int route_many_tokens = 4;
inline constexpr int route_rows_threads = 512;
inline constexpr int route_rows_warps = route_rows_threads / 32;
inline constexpr int most_rank_experts = gpu::most_experts / route_ranks;  ///< shared ones among them
/// Longest row: it stays in shared memory beside what the choice needs.
inline constexpr int most_route_hidden = 16384;
inline constexpr int most_route_many_hidden = 12288;  ///< of route_many_tokens rows
/// With more tokens than this, several share a cluster: more clusters would not run at once on all multiprocessors.
inline constexpr int most_route_clusters = 16;

}  // namespace rocmforge::hopper
