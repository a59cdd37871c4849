// The norm, the router's product and the choice of experts in one launch, for few tokens: see route_groups.h.

#include "kernels/experts/portable/route_groups.h"

using namespace rocmforge::gpu;

ROCMFORGE_KERNEL __launch_bounds__(route_group_threads) route_rows(RouteGroupsArgs args) {
  __shared__ RouteGroup<route_group_threads> shared;
  rocmforge::gpu::route_rows(
      args, static_cast<int>(blockIdx.x), static_cast<std::int64_t>(blockIdx.y), shared, [] { begin_dependent(); },
      [](std::uint32_t* counter) { return last_to_arrive(counter, static_cast<int>(gridDim.x)); });
}
