#include <fmt/format.h>

#include "base/math.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/experts/hopper/route_args.h"
#include "kernels/experts/kernels.h"
#include "kernels/experts/portable/route_choice.h"
#include "kernels/launch/hopper/architecture.h"

namespace rocmforge {
namespace {

constexpr Kernel<hopper::RouteRowsArgs> one_kernel{"route", "route_rows", LaunchOrder::by_kernel_in_turn};
constexpr Kernel<hopper::RouteRowsArgs> held_kernel{"route", "route_rows_held", LaunchOrder::by_kernel_in_turn};
constexpr Kernel<hopper::RouteRowsArgs> many_kernel{"route", "route_rows_4", LaunchOrder::by_kernel_in_turn};

class HopperRouteRows final : public RouteRowsKernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "hopper"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::cuda; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] std::int64_t most_tokens() const override { return hopper::most_route_tokens; }

  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo& device) const override {
    if (Support support = hopper::check_architecture(device); !support.ok) {
      return support;
    }
    if (spec.hidden % 4 != 0 || spec.hidden > hopper::most_route_hidden) {
      return Support::no(fmt::format("rows of {}, not of a multiple of 4 up to {}", spec.hidden, hopper::most_route_hidden));
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
    const bool many = args.tokens > hopper::most_route_clusters && spec.hidden <= hopper::most_route_many_hidden;
    const int each = many ? hopper::route_many_tokens : 1;
    shape.grid[0] = static_cast<std::uint32_t>(divide_up(args.tokens, std::int64_t{each}) * hopper::route_ranks);
    shape.block[0] = hopper::route_rows_threads;
    const int hidden = static_cast<int>(spec.hidden);
    const int held = many ? 0 : hopper::route_held_rows(hopper::route_rank_experts(spec.route.logits()), hidden);
    shape.shared_bytes = static_cast<std::uint32_t>(hopper::route_shared(each, held, hidden).bytes);
    const auto& kernel = many ? many_kernel : held > 0 ? held_kernel : one_kernel;
    kernel.launch(*context.stream, shape, route_rows_args(spec, args));
  }
};

}  // namespace

std::unique_ptr<RouteRowsKernel> make_hopper_route_rows() { return std::make_unique<HopperRouteRows>(); }

}  // namespace rocmforge
