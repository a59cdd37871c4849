#include "checks/placed_experts.h"

#include <algorithm>
#include <span>

#include "checks/inputs.h"
#include "checks/placed.h"

namespace rocmforge {
namespace {

constexpr const char* experts_purpose = "a check's experts";

}  // namespace

ExpertInputs::ExpertInputs(const LayerExperts& experts) {
  Random random(37);
  const ExpertMatmul::Spec& up = experts.gate_up;
  const ExpertMatmul::Spec& down = experts.down;
  weights = {random_weight(up.weight, up.experts * up.n, up.k, random),
             random_weight(up.weight, up.experts * up.n, up.k, random),
             random_weight(down.weight, down.experts * down.n, down.k, random)};
  norm = random.uniforms(up.k, 0.5f, 1.5f);
  router = random.uniforms(std::int64_t{experts.route.route.logits()} * up.k, -0.05f, 0.05f);
}

PlacedExperts::PlacedExperts(Device& device, ExecutionContext& host, const LayerExperts& experts, const ExpertInputs& inputs,
                             const RouteRowsKernel& router, const ExpertMatmulKernel& kernel)
    : device_(&device),
      experts_(&experts),
      router_(&router),
      kernel_(&kernel),
      norm_(placed(device, inputs.norm, experts_purpose)),
      router_rows_(placed(device, inputs.router, experts_purpose)) {
  const auto taken = static_cast<std::size_t>(experts.gate_up.used);
  normed_ = device.allocate(inputs.norm.size() * sizeof(float), experts_purpose);
  ids_ = device.allocate(taken * sizeof(std::int32_t), experts_purpose);
  shares_ = device.allocate(taken * sizeof(float), experts_purpose);
  logits_ = device.allocate(std::max<std::size_t>(1, router.workspace_bytes(experts.route, 1)), "a check's workspace");
  state_ =
      placed(device, std::vector<std::byte>(std::max<std::size_t>(1, router.state_bytes(experts.route))), experts_purpose);
  weights_ = {place(experts.gate_up, inputs.weights[0], host), place(experts.gate_up, inputs.weights[1], host),
              place(experts.down, inputs.weights[2], host)};
  const auto larger = [&](auto bytes) {
    return std::max({std::size_t{1}, (kernel.*bytes)(experts.gate_up, 1), (kernel.*bytes)(experts.down, 1)});
  };
  workspace_ = device.allocate(larger(&ExpertMatmulKernel::workspace_bytes), "a check's workspace");
  order_ = device.allocate(larger(&ExpertMatmulKernel::order_bytes), "a check's order of experts");
}

void PlacedExperts::gate_up(const float* x, float* out, ExecutionContext& context) const {
  router_->run(experts_->route,
               {.x = x,
                .norm = norm_.as<float>(),
                .router = router_rows_.as<float>(),
                .tokens = 1,
                .normed = normed_.as<float>(),
                .ids = ids_.as<std::int32_t>(),
                .weights = shares_.as<float>(),
                .workspace = logits_.data(),
                .state = state_.data()},
               context);
  run(experts_->gate_up, std::span(weights_).first(2), normed_.as<float>(), out, context);
}

void PlacedExperts::down(const float* x, float* out, ExecutionContext& context) const {
  run(experts_->down, std::span(weights_).last(1), x, out, context);
}

ExpertWeight PlacedExperts::place(const ExpertMatmul::Spec& spec, const std::vector<std::byte>& rows,
                                  ExecutionContext& host) {
  const auto experts = static_cast<std::size_t>(spec.experts);
  const std::size_t file_bytes = rows.size() / experts;
  const std::size_t bytes = kernel_->stored_bytes(spec);
  std::vector<std::byte> stored(bytes * experts);
  for (std::size_t e = 0; e < experts; ++e) {
    kernel_->store(spec, rows.data() + e * file_bytes, stored.data() + e * bytes, host);
  }
  memory_.push_back(placed(*device_, stored, experts_purpose));
  return {spec.weight, memory_.back().data(), spec.n, static_cast<std::int64_t>(bytes)};
}

void PlacedExperts::run(const ExpertMatmul::Spec& spec, std::span<const ExpertWeight> weights, const float* x, float* out,
                        ExecutionContext& context) const {
  ExpertMatmul::Args args{};
  args.x = x;
  args.tokens = 1;
  args.k = spec.k;
  args.used = spec.used;
  args.experts = spec.experts;
  args.ids = ids_.as<std::int32_t>();
  args.weights = weights;
  args.shares = weights.size() == 1 ? shares_.as<float>() : nullptr;
  args.out = out;
  args.workspace = workspace_.data();
  args.order = order_.data();
  kernel_->run(args, context);
}

}  // namespace rocmforge
