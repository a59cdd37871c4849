#include "kernels/experts/portable/route_rows.h"

#include <fmt/format.h>

#include "kernels/experts/amd/experts_chain_launch.h"
#include "kernels/experts/kernels.h"
#include "kernels/launch/amd/architectures.h"

namespace rocmforge {
namespace {

/// "amd": one token's router joins attention's output before it, and its experts join it (experts_chain.h). Everything else
/// is the portable kernel, whose bits a router in such a launch has.
class AmdRouteRows final : public GpuRouteRows {
 public:
  AmdRouteRows() : GpuRouteRows(DeviceKind::hip) {}
  [[nodiscard]] std::string_view name() const override { return "amd"; }
  [[nodiscard]] KernelPriority priority() const override { return KernelPriority::architecture; }

  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo& device) const override {
    return amd::merges_launches(device)
               ? GpuRouteRows::supports(spec, device)
               : Support::no(fmt::format("launches are not merged on {}", device.architecture_name()));
  }

  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const override {
    if (args.tokens == 1) {
      check_arguments(spec, args, *this);
      const gpu::RouteCall alone = gpu::route_call(spec, args, gpu::route_group_threads);
      gpu::RouteCall chained = gpu::route_call(spec, args, amd::matvec_threads);
      chained.shape.shared_bytes = amd::chained_route_bytes;
      if (amd::join_expert_chain({alone.args, alone.shape, chained.args, chained.shape}, *context.stream)) {
        return;
      }
    }
    GpuRouteRows::run(spec, args, context);
  }
};

}  // namespace

std::unique_ptr<RouteRowsKernel> make_amd_route_rows() { return std::make_unique<AmdRouteRows>(); }

}  // namespace rocmforge
