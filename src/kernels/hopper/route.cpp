#include <fmt/format.h>

#include "base/math.h"
#include "kernels/arguments.h"
#include "kernels/gpu/route_choice.h"
#include "kernels/hopper/kernels.h"
#include "kernels/hopper/route_args.h"

namespace rocmforge {
namespace {

constexpr Kernel<hopper::RouteRowsArgs> one_kernel{"route", "route_rows", LaunchOrder::by_kernel_in_turn};
constexpr Kernel<hopper::RouteRowsArgs> many_kernel{"route", "route_rows_4", LaunchOrder::by_kernel_in_turn};

class HopperRouteRows final : public OpKernel<RouteRows> {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cuda; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo& device) const override {
    if (!device.architecture.starts_with("sm_90")) {
      return Support::no(fmt::format("{} is not sm_90", device.architecture));
    }
    if (spec.hidden % 4 != 0 || spec.hidden > hopper::most_route_hidden) {
      return Support::no(fmt::format("rows of {}, not of a multiple of 4 up to {}", spec.hidden, hopper::most_route_hidden));
    }
    const Support room = check_route_room(spec.route);
    return room.ok ? check_spec(spec) : room;
  }

  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    if (args.tokens == 0) {
      return;
    }
    LaunchShape shape;
    const bool many = args.tokens > hopper::most_route_clusters && spec.hidden <= hopper::most_route_many_hidden;
    const std::int64_t each = many ? hopper::route_many_tokens : 1;
    shape.grid[0] = static_cast<std::uint32_t>(divide_up(args.tokens, each) * hopper::route_ranks);
    shape.block[0] = hopper::route_rows_threads;
    shape.shared_bytes = static_cast<std::uint32_t>(each * spec.hidden) * 4;
    const auto& kernel = many ? many_kernel : one_kernel;
    kernel.launch(*context.stream, shape,
                  {.choice = route_choice(spec.route, args),
                   .x = args.x,
                   .norm = args.norm,
                   .router = args.router,
                   .router_bias = args.router_bias,
                   .shared_gates = spec.route.shared_gates ? args.shared_gates : nullptr,
                   .normed = args.normed,
                   .eps = spec.eps,
                   .hidden = static_cast<std::int32_t>(spec.hidden),
                   .tokens = static_cast<std::int32_t>(args.tokens),
                   .unused = 0});
  }
};

}  // namespace

std::unique_ptr<OpKernel<RouteRows>> make_hopper_route_rows() { return std::make_unique<HopperRouteRows>(); }

}  // namespace rocmforge
