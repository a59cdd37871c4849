#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/experts_args.h"
#include "kernels/experts/portable/route_choice.h"
#include "kernels/launch/gpu_kernel.h"

namespace rocmforge {
namespace {

constexpr Kernel<gpu::RouteGroupsArgs> kernel{"route_rows", "route_rows", LaunchOrder::by_kernel};

/// Work-groups of each token, whose last one chooses.
class GpuRouteRows final : public GpuKernel<RouteRowsKernel> {
 public:
  using GpuKernel::GpuKernel;

  [[nodiscard]] std::int64_t most_tokens() const override { return gpu::most_matvec_tokens; }

  /// A counter for each token.
  [[nodiscard]] std::size_t state_bytes(const RouteRows::Spec&) const override {
    return gpu::most_matvec_tokens * sizeof(std::uint32_t);
  }
  /// The logits.
  [[nodiscard]] std::size_t workspace_bytes(const RouteRows::Spec& spec, std::int64_t tokens) const override {
    return static_cast<std::size_t>(std::min(tokens, most_tokens()) * spec.route.logits()) * sizeof(float);
  }

  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo&) const override {
    constexpr std::int64_t most = std::int64_t{1} << 22;
    if (spec.hidden % 4 != 0 || spec.hidden > most) {
      return Support::no(fmt::format("rows of {}, not of a multiple of 4 up to {}", spec.hidden, most));
    }
    const Support room = check_route_room(spec.route);
    return room.ok ? check_spec(spec) : room;
  }

  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, *this);
    if (args.tokens == 0) {
      return;
    }
    LaunchShape shape;
    shape.grid = {static_cast<std::uint32_t>(divide_up(spec.route.logits(), gpu::route_group_rows)),
                  static_cast<std::uint32_t>(args.tokens), 1};
    shape.block[0] = gpu::route_group_threads;
    kernel.launch(*context.stream, shape,
                  {.rows = route_rows_args(spec, args),
                   .logits = static_cast<float*>(args.workspace),
                   .counters = static_cast<std::uint32_t*>(args.state),
                   .normed_quads = static_cast<std::int32_t>(divide_up(spec.hidden / 4, std::int64_t{shape.grid[0]})),
                   .unused = 0});
  }
};

}  // namespace

std::unique_ptr<RouteRowsKernel> make_gpu_route_rows(DeviceKind kind) { return std::make_unique<GpuRouteRows>(kind); }

}  // namespace rocmforge
