#pragma once

#include "kernels/experts/portable/experts_args.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {
namespace gpu {

/// The kernel of route_rows.hip.
[[nodiscard]] const Kernel<RouteGroupsArgs>& route_rows_kernel();

/// A call of the router's kernel, and its launch.
struct RouteCall {
  RouteGroupsArgs args;
  LaunchShape shape;
};
/// With work-groups of `threads` threads: route_group_threads or twice as many.
[[nodiscard]] RouteCall route_call(const RouteRows::Spec& spec, const RouteRows::Args& args, int threads);

}  // namespace gpu

/// "gpu": work-groups of each token, whose last one chooses.
class GpuRouteRows : public GpuKernel<RouteRowsKernel> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] std::int64_t most_tokens() const override { return gpu::most_matvec_tokens; }
  /// A counter for each token.
  [[nodiscard]] std::size_t state_bytes(const RouteRows::Spec& spec) const override;
  /// The logits.
  [[nodiscard]] std::size_t workspace_bytes(const RouteRows::Spec& spec, std::int64_t tokens) const override;
  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo& device) const override;
  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const override;
};

}  // namespace rocmforge
