#include <fmt/format.h>

#include <limits>

#include "kernels/check/check_kernel.h"
#include "kernels/check/kernels.h"
#include "kernels/check/launch.h"
#include "kernels/check/route_args.h"

namespace rocmforge {
namespace {

using check_kernels::one_thread_each;
using check_kernels::RouteCheckArgs;
using check_kernels::RouterCheckArgs;

constexpr Kernel<RouteCheckArgs> route_kernel{"route_check", "check_route"};
constexpr Kernel<RouterCheckArgs> router_kernel{"route_check", "check_router"};

/// From the Args of RouteTokens or RouteRows, without the logits.
template <class Args>
RouteCheckArgs choice_of(const RouteTokens::Spec& spec, const Args& args) {
  return {.spec = spec,
          .logits = nullptr,
          .exact_logits = nullptr,
          .bias = spec.bias ? args.bias : nullptr,
          .ids = args.ids,
          .weights = args.weights,
          .tokens = args.tokens,
          .all = spec.logits(),
          .taken = spec.taken()};
}

Support check_groups(const RouteTokens::Spec& spec) {
  if (spec.groups > check_kernels::most_route_groups) {
    return Support::no(fmt::format("more than {} groups", check_kernels::most_route_groups));
  }
  return Support::yes();
}

class CheckRouteTokens final : public CheckKernel<OpKernel<RouteTokens>> {
 public:
  using CheckKernel::CheckKernel;
  [[nodiscard]] Support supports(const RouteTokens::Spec& spec, const DeviceInfo&) const override {
    const Support support = check_spec(spec);
    return support.ok ? check_groups(spec) : support;
  }
  void run(const RouteTokens::Spec& spec, const RouteTokens::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    RouteCheckArgs call = choice_of(spec, args);
    call.logits = args.logits;
    route_kernel.launch(*context.stream, one_thread_each(args.tokens), call);
  }
};

class CheckRouteRows final : public CheckKernel<RouteRowsKernel> {
 public:
  using CheckKernel::CheckKernel;
  [[nodiscard]] Support supports(const RouteRows::Spec& spec, const DeviceInfo&) const override {
    const Support support = check_spec(spec);
    return support.ok ? check_groups(spec.route) : support;
  }
  [[nodiscard]] std::int64_t most_tokens() const override { return std::numeric_limits<std::int64_t>::max(); }
  /// A factor of the norm for each token, then the logits.
  [[nodiscard]] std::size_t workspace_bytes(const RouteRows::Spec& spec, std::int64_t tokens) const override {
    return static_cast<std::size_t>(tokens * (1 + spec.route.logits())) * sizeof(double);
  }
  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args, *this);
    if (args.tokens == 0) {
      return;
    }
    auto* const factors = static_cast<double*>(args.workspace);
    check_kernels::row_factors_kernel.launch(*context.stream, one_thread_each(args.tokens),
                                             {.x = args.x,
                                              .factors = factors,
                                              .tokens = args.tokens,
                                              .k = spec.hidden,
                                              .x_stride = spec.hidden,
                                              .eps = double{spec.eps}});
    RouteCheckArgs call = choice_of(spec.route, args);
    call.exact_logits = factors + args.tokens;
    router_kernel.launch(*context.stream, one_thread_each(args.tokens * (spec.hidden + call.all)),
                         {.x = args.x,
                          .norm = args.norm,
                          .factors = factors,
                          .router = args.router,
                          .router_bias = args.router_bias,
                          .shared_gates = args.shared_gates,
                          .normed = args.normed,
                          .logits = factors + args.tokens,
                          .tokens = args.tokens,
                          .hidden = spec.hidden,
                          .experts = spec.route.experts,
                          .all = call.all});
    route_kernel.launch(*context.stream, one_thread_each(args.tokens), call);
  }
};

}  // namespace

std::unique_ptr<OpKernel<RouteTokens>> make_check_route_tokens(DeviceKind kind) {
  return std::make_unique<CheckRouteTokens>(kind);
}
std::unique_ptr<RouteRowsKernel> make_check_route_rows(DeviceKind kind) { return std::make_unique<CheckRouteRows>(kind); }

}  // namespace rocmforge
