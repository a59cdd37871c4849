// The norm, the router's product and the choice of experts in one launch, for few tokens: see route_groups.h.

#include "kernels/experts/portable/route_groups.h"

using rocmforge::gpu::RouteGroupsArgs;

ROCMFORGE_KERNEL __launch_bounds__(rocmforge::gpu::route_group_threads) route_rows(RouteGroupsArgs args) {
  __shared__ rocmforge::gpu::RouteGroup<rocmforge::gpu::route_group_threads> shared;
  rocmforge::gpu::route_rows(args, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x),
                             static_cast<std::int64_t>(blockIdx.y), shared, [] { rocmforge::gpu::begin_dependent(); });
}
