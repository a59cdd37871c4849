#pragma once

#include <cstdint>

#include "kernels/experts/portable/experts_args.h"
#include "kernels/launch/hopper/launch_fit.h"

namespace rocmforge::hopper {

/// Grid: route_ranks work-groups, a cluster, for each token or each route_many_tokens tokens; shared memory: their rows, and
/// of route_rows_held the rows of the router that route_held_rows() counts.
using gpu::RouteRowsArgs;
inline constexpr int most_route_tokens = 64;  ///< of a call
inline constexpr int route_ranks = 8;         ///< work-groups that share out the experts of a token
inline constexpr int route_many_tokens = 4;
inline constexpr int route_rows_threads = 512;
inline constexpr int route_rows_warps = route_rows_threads / 32;
inline constexpr int most_rank_experts = gpu::most_experts / route_ranks;  ///< shared ones among them
inline constexpr int route_held_arrivals = 1;  ///< of the barrier of the held rows: the lane that expects their bytes
/// Longest row: it stays in shared memory beside what the choice needs.
inline constexpr int most_route_hidden = 16384;
inline constexpr int most_route_many_hidden = 12288;  ///< of route_many_tokens rows
/// Shared memory of a work-group beside those rows, at most.
inline constexpr int route_other_bytes = 20 * 1024;
/// Rows of the router that a work-group of `experts` experts copies to shared memory before a token's row is ready: those
/// behind the first one of each warp, which is in registers, as far as they fit.
constexpr int route_held_rows(int experts, int hidden) {
  const int more = experts > route_rows_warps ? experts - route_rows_warps : 0;
  const int room = (shared_bytes_of_group - route_other_bytes) / (hidden * 4) - 1;
  return more < room ? more : room > 0 ? room : 0;
}
/// The dynamic shared memory of a work-group: the rows of its tokens, then `held` rows of the router.
struct RouteShared {
  int held;  ///< where these begin, in fours of floats
  int bytes;
};
constexpr RouteShared route_shared(int tokens, int held, int hidden) {
  const int fours = hidden / 4;
  return {tokens * fours, (tokens + held) * fours * 16};
}
constexpr int route_rank_experts(int experts) { return (experts + route_ranks - 1) / route_ranks; }

/// With more tokens than this, several share a cluster: more clusters would not run at once on all multiprocessors.
inline constexpr int most_route_clusters = 16;

}  // namespace rocmforge::hopper
