#include "kernels/experts/portable/route_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/route_choice.h"

namespace rocmforge {

const Kernel<gpu::RouteGroupsArgs>& gpu::route_rows_kernel() {
  static constexpr Kernel<RouteGroupsArgs> kernel{"route_rows", "route_rows", LaunchOrder::by_kernel};
  return kernel;
}

gpu::RouteCall gpu::route_call(const RouteRows::Spec& spec, const RouteRows::Args& args, int threads) {
  RouteCall call;
  const std::int64_t rows = route_group_rows * threads / route_group_threads;
  call.shape.grid = {static_cast<std::uint32_t>(divide_up(spec.route.logits(), rows)),
                     static_cast<std::uint32_t>(args.tokens), 1};
  call.shape.block[0] = static_cast<std::uint32_t>(threads);
  call.args = {.rows = route_rows_args(spec, args),
               .logits = static_cast<float*>(args.workspace),
               .counters = static_cast<std::uint32_t*>(args.state),
               .normed_quads = static_cast<std::int32_t>(divide_up(spec.hidden / 4, std::int64_t{call.shape.grid[0]})),
               .unused = 0};
  return call;
}

std::size_t GpuRouteRows::state_bytes(const RouteRows::Spec&) const {
  return gpu::most_matvec_tokens * sizeof(std::uint32_t);
}

std::size_t GpuRouteRows::workspace_bytes(const RouteRows::Spec& spec, std::int64_t tokens) const {
  return static_cast<std::size_t>(std::min(tokens, most_tokens()) * spec.route.logits()) * sizeof(float);
}

Support GpuRouteRows::supports(const RouteRows::Spec& spec, const DeviceInfo&) const {
  constexpr std::int64_t most = std::int64_t{1} << 22;
  if (spec.hidden % 4 != 0 || spec.hidden > most) {
    return Support::no(fmt::format("rows of {}, not of a multiple of 4 up to {}", spec.hidden, most));
  }
  const Support room = check_route_room(spec.route);
  return room.ok ? check_spec(spec) : room;
}

void GpuRouteRows::run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const {
  check_arguments(spec, args, *this);
  if (args.tokens == 0) {
    return;
  }
  const gpu::RouteCall call = gpu::route_call(spec, args, gpu::route_group_threads);
  gpu::route_rows_kernel().launch(*context.stream, call.shape, call.args);
}

std::unique_ptr<RouteRowsKernel> make_gpu_route_rows(DeviceKind kind) { return std::make_unique<GpuRouteRows>(kind); }

}  // namespace rocmforge
