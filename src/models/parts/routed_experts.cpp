#include "models/parts/routed_experts.h"

#include <algorithm>
#include <array>

namespace rocmforge {

void need_buffers(BufferPlan& buffers, const ExpertConfig& experts) {
  const std::int64_t logits = std::int64_t{experts.count} + 1;
  const std::int64_t shared = experts.shared_width;
  const std::int64_t latents = experts.latent_size;
  buffers.need(BufferName::experts, experts.taken());
  buffers.need(BufferName::expert_weights, experts.taken());
  buffers.need_after_gather(BufferName::projected, std::max({logits, 2 * shared, latents > 0 ? experts.inner() : 0}));
  buffers.need_after_gather(BufferName::gathered, std::max(shared, latents > 0 ? latents : experts.inner()));
}

RoutedExperts::RoutedExperts(Planner& planner, const Config& config, const Names& names) : config_(config) {
  config_.expert_rows = config.expert_rows > 0 ? config.expert_rows : config.hidden;
  const RouteTokens::Spec& route = config.route;
  router_ = planner.router(names.router, route, config.hidden);
  const auto wanted = [&](std::int64_t n, std::int64_t k) {
    return ExpertMatmul::Spec{.experts = route.experts + route.shared, .n = n, .k = k, .used = route.taken()};
  };
  up_kind_ = operation_kind(names.up.stacked);
  down_kind_ = operation_kind(names.down.stacked);
  ExpertMatmul::Spec up = wanted(config.width, config_.expert_rows);
  up.alone = !config.gated;
  std::vector<ExpertTensorName> places{names.up};
  if (config.gated) {
    places.insert(places.begin(), names.gate);
  }
  gate_up_ = planner.experts(names.up.stacked, places, up);
  down_ = planner.experts(names.down.stacked, {names.down}, wanted(config_.expert_rows, config.width));
  same_kernel_ = gate_up_[0]->kernel == down_[0]->kernel;
}

void RoutedExperts::append(Operations& operations, float* Buffers::*x) const {
  append_router(operations, x);
  append_up(operations);
  append_down(operations, &Buffers::hidden);
}

void RoutedExperts::append_up(Operations& operations, float* Buffers::*x, float* Buffers::*slots) const {
  operations.push_back({up_kind_, [this, x, slots](const Step& step) {
                          multiply(step, gate_up_, config_.expert_rows, {}, step.buffers.*x, step.buffers.*slots);
                        }});
}

void RoutedExperts::append_down(Operations& operations, float* Buffers::*out, float* Buffers::*slots) const {
  operations.push_back(
      {down_kind_, [this, out, slots](const Step& step) {
         const ExpertMatmul::Args::Before before{same_kernel_ ? config_.expert_rows : 0, gate_up_[0]->spec.weight, true};
         multiply(step, down_, config_.width, before, step.buffers.*slots, step.buffers.*out);
       }});
}

void RoutedExperts::multiply(const Step& step, const std::vector<const ExpertMatrix*>& matrices, std::int64_t k,
                             const ExpertMatmul::Args::Before& before, const float* x, float* out) const {
  std::array<ExpertWeight, 2> weights;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    weights[i] = matrices[i]->weight();
  }
  matrices[0]->kernel->run({.x = x,
                            .tokens = step.tokens,
                            .k = k,
                            .used = config_.route.taken(),
                            .experts = config_.route.experts + config_.route.shared,
                            .ids = step.buffers.experts,
                            .shared = config_.route.shared,
                            .weights = std::span(weights.data(), matrices.size()),
                            .shares = step.buffers.expert_weights,
                            .out = out,
                            .activation = config_.activation,
                            .alone = matrices[0]->spec.alone,
                            .workspace = step.buffers.scratch,
                            .order = step.buffers.slot_order,
                            .before = before},
                           *step.context);
}

}  // namespace rocmforge
