#pragma once

#include "device/device.h"
#include "kernels/experts/amd/experts_args.h"

namespace rocmforge::amd {

/// The kernels of experts_packed.hip for a call that is a launch of its own.
[[nodiscard]] const Kernel<ExpertVectorArgs>& packed_expert_kernel(bool down);

/// One token's gate and up join the launch of its router, or begin a launch, which the stream holds back; `down` joins them,
/// and then a dense call may (experts_chain.h). False unless may_chain(), and when `down` doesn't follow its gate and up.
bool join_expert_chain(bool down, const ExpertVectorArgs& call, const LaunchShape& shape, Stream& stream);

/// A token's router: its launch alone, and its call of a launch that several calls share.
struct RouteLaunch {
  gpu::RouteGroupsArgs alone;
  LaunchShape alone_shape;
  gpu::RouteGroupsArgs chained;
  LaunchShape chained_shape;
};
/// The router begins a launch, which the stream holds back, or joins the only product that is held. False unless
/// may_chain().
bool join_expert_chain(const RouteLaunch& route, Stream& stream);

}  // namespace rocmforge::amd
