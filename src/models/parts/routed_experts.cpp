#include "models/parts/routed_experts.h"

#include <algorithm>
#include <array>

#include "models/adapters/adapters.h"
#include "models/step/crossing.h"

namespace rocmforge {

void need_buffers(BufferPlan& buffers, const ExpertConfig& experts) {
  const std::int64_t logits = std::int64_t{experts.count} + 1;
  const std::int64_t shared = experts.shared_width;
  const std::int64_t latents = experts.latent_size;
  const std::int64_t limited = experts.swiglu_limit > 0.0f ? 2 * experts.inner() : 0;
  buffers.need(BufferName::experts, experts.taken());
  buffers.need(BufferName::expert_weights, experts.taken());
  buffers.need_after_gather(BufferName::projected,
                            std::max({logits, 2 * shared, latents > 0 ? experts.inner() : 0, limited}));
  buffers.need_after_gather(BufferName::gathered, std::max(shared, latents > 0 ? latents : experts.inner()));
}

std::int64_t take_features(const Planner& planner, std::int64_t width, RoutedExperts::Names& names) {
  const std::string& stacked = names.down.stacked;
  const bool single = !names.down.single.empty() && planner.weights().has_tensor(names.down.single + ".0.weight");
  const Range own = planner.own_features(width, single ? names.down.single + ".0" : stacked);
  const Selection features = Selection::run(own, width);
  names.gate.rows = features;
  names.up.rows = features;
  names.down.columns = features;
  names.down.summed = !planner.share().whole();
  return own.count;
}

// h - h: memory that nothing was written to may hold anything, and anything times 0 may be NaN.
void ClearPartial::append(Operations& operations) const {
  operations.push_back({std::string(ResidualAdd::name), [this](const Step& step) {
                          operation.run({.a = step.buffers.hidden,
                                         .b = step.buffers.hidden,
                                         .count = step.tokens * width,
                                         .out = step.buffers.partial,
                                         .factor = -1.0f},
                                        step);
                        }});
}

RoutedExperts::RoutedExperts(Planner& planner, const Config& config, const Names& names) : config_(config) {
  config_.expert_rows = config.expert_rows > 0 ? config.expert_rows : config.hidden;
  router_ = planner.router(names.router, config.route, config.hidden);
  up_kind_ = operation_kind(names.up.stacked);
  down_kind_ = operation_kind(names.down.stacked);
  if (planner.experts_apart() && !config.stays) {
    plan_apart(planner, names);
  } else {
    plan_experts(planner, names);
  }
}

void RoutedExperts::plan_experts(Planner& planner, const Names& names) {
  const RouteTokens::Spec& route = config_.route;
  const auto wanted = [&](std::int64_t n, std::int64_t k) {
    return ExpertMatmul::Spec{.experts = route.experts + route.shared, .n = n, .k = k, .used = route.taken()};
  };
  ExpertMatmul::Spec up = wanted(config_.width, config_.expert_rows);
  up.alone = !config_.gated;
  std::vector<ExpertTensorName> places{names.up};
  if (config_.gated) {
    places.insert(places.begin(), names.gate);
  }
  if (config_.swiglu_limit > 0.0f) {
    plan_limited(planner, names, up);
  } else {
    gate_up_ = planner.experts(names.up.stacked, places, up,
                               GatedActivation::Spec{config_.activation, config_.width, config_.gated});
  }
  if (!config_.weighted) {
    const std::int64_t slots = planner.most_tokens() * route.taken();
    ones_ = planner.weights().computed(std::vector<float>(static_cast<std::size_t>(slots), 1.0f));
  }
  down_ = planner.experts(names.down.stacked, {names.down}, wanted(config_.expert_rows, config_.width));
  same_kernel_ = gate_up_[0]->kernel == down_[0]->kernel;
}

void RoutedExperts::plan_limited(Planner& planner, const Names& names, ExpertMatmul::Spec product) {
  check(config_.gated && config_.activation == Activation::silu, "the limits are those of a SwiGLU");
  product.alone = true;
  for (const ExpertTensorName& name : {names.gate, names.up}) {
    gate_up_.push_back(planner.experts(name.stacked, {name}, product).front());
  }
  const std::int64_t slots = config_.route.taken();
  limited_.emplace(Limited{planner.swiglu_limits(config_.width, config_.swiglu_limit, slots),
                           planner.resolve<GatedActivation>({Activation::silu, config_.width})});
}

void RoutedExperts::plan_apart(Planner& planner, const Names& names) {
  check(config_.route.shared == 0, "shared experts stay on the device");
  const Side side = planner.side();
  const std::int64_t taken = config_.route.taken();
  for (const BufferName slots : {BufferName::projected, BufferName::gathered}) {
    planner.buffers().need_after_gather(slots, config_.expert_rows);
  }
  add_ = planner.resolve_for_width<ResidualAdd>({}, 3 * config_.expert_rows);
  planner.use(Side::host);
  plan_experts(planner, names);
  BufferPlan& host = planner.buffers();
  host.need(BufferName::normed, config_.expert_rows);
  host.need(BufferName::experts, taken);
  host.need(BufferName::expert_weights, taken);
  host.need(BufferName::gathered, taken * config_.width);
  host.need(BufferName::projected, std::max(config_.expert_rows, limited_ ? 2 * taken * config_.width : 0));
  planner.use(side);
}

void RoutedExperts::append(Operations& operations, float* Buffers::*x, float* Buffers::*out) const {
  append_router(operations, x);
  append_up(operations);
  append_down(operations, out);
}

void RoutedExperts::append_up(Operations& operations, float* Buffers::*x, float* Buffers::*slots) const {
  if (apart()) {
    append_to_host(operations, x);
    return;
  }
  operations.push_back(
      {up_kind_, [this, x, slots](const Step& step) { activate(step, step.buffers.*x, step.buffers.*slots); }});
}

void RoutedExperts::append_down(Operations& operations, float* Buffers::*out, float* Buffers::*slots) const {
  if (apart()) {
    append_on_host(operations);
    append_from_host(operations, out, slots);
    return;
  }
  operations.push_back(
      {down_kind_, [this, out, slots](const Step& step) { sum_slots(step, step.buffers.*slots, step.buffers.*out); }});
}

void RoutedExperts::append_to_host(Operations& operations, float* Buffers::*x) const {
  operations.push_back({"experts_to_host", [this, x](const Step& step) {
                          const Buffers& host = step.host->buffers;
                          const auto bytes = [&](std::int64_t width) {  // ids and shares have four bytes too
                            return static_cast<std::size_t>(step.tokens * width) * sizeof(float);
                          };
                          copy_to_host(step, host.normed, step.buffers.*x, bytes(config_.expert_rows));
                          copy_to_host(step, host.experts, step.buffers.experts, bytes(config_.route.taken()));
                          copy_to_host(step, host.expert_weights, step.buffers.expert_weights, bytes(config_.route.taken()));
                        }});
  operations.push_back({.kind = "experts_to_host", .run = note_copies, .on_host = true});
}

void RoutedExperts::append_on_host(Operations& operations) const {
  const auto host_step = [](const Step& step) {
    Step host = step;
    host.adapters = step.host->adapters;
    host.tokens = std::min(step.tokens, step.host->tokens);  // no padding
    host.buffers = step.host->buffers;
    host.context = step.host->context;
    return host;
  };
  operations.push_back({.kind = up_kind_,
                        .run =
                            [this, host_step](const Step& step) {
                              wait_for_copies(step);
                              const Step host = host_step(step);
                              activate(host, host.buffers.normed, host.buffers.gathered);
                            },
                        .on_host = true});
  operations.push_back({.kind = down_kind_,
                        .run =
                            [this, host_step](const Step& step) {
                              const Step host = host_step(step);
                              std::fill_n(host.buffers.projected, host.tokens * config_.expert_rows, 0.0f);
                              sum_slots(host, host.buffers.gathered, host.buffers.projected);
                            },
                        .on_host = true});
}

void RoutedExperts::append_from_host(Operations& operations, float* Buffers::*out, float* Buffers::*slots) const {
  operations.push_back(
      {"experts_from_host", [this, out, slots](const Step& step) {
         const std::int64_t count = step.tokens * config_.expert_rows;
         copy_to_device(step, step.buffers.*slots, step.host->buffers.projected,
                        static_cast<std::size_t>(count) * sizeof(float));
         add_->run({.a = step.buffers.*out, .b = step.buffers.*slots, .count = count, .out = step.buffers.*out}, step);
       }});
}

void RoutedExperts::activate(const Step& step, const float* x, float* slots) const {
  if (!limited_ && are_changed(step)) {
    step.adapters->activate(step, gate_up_, x, slots);
    return;
  }
  if (!limited_) {
    multiply(step, gate_up_, config_.expert_rows, {}, x, slots);
    return;
  }
  const std::int64_t rows = step.tokens * config_.route.taken();
  float* const gate = step.buffers.projected;
  float* const up = gate + rows * config_.width;
  const std::span<const ExpertMatrix* const> both(gate_up_);
  multiply(step, both.first(1), config_.expert_rows, {}, x, gate);
  multiply(step, both.last(1), config_.expert_rows, {}, x, up);
  if (step.adapters != nullptr) {
    step.adapters->add_to_experts(step, *gate_up_[0], {.x = x, .out = gate});
    step.adapters->add_to_experts(step, *gate_up_[1], {.x = x, .out = up});
  }
  limited_->limits.limit(step, gate, up, rows);
  limited_->swiglu.run({gate, up, rows, config_.width, slots}, step);
}

bool RoutedExperts::are_changed(const Step& step) const {
  return step.adapters != nullptr && step.adapters->change(step, gate_up_);
}

void RoutedExperts::sum_slots(const Step& step, const float* slots, float* out) const {
  ExpertMatmul::Args::Before before{};
  if (same_kernel_ && !are_changed(step)) {
    before = {config_.expert_rows, gate_up_[0]->spec.weight, true};
  }
  multiply(step, down_, config_.width, before, slots, out);
  if (step.adapters != nullptr) {
    step.adapters->add_to_experts(step, *down_[0], {.x = slots, .out = out, .shares = shares(step)});
  }
}

void RoutedExperts::multiply(const Step& step, std::span<const ExpertMatrix* const> matrices, std::int64_t k,
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
                            .shares = shares(step),
                            .out = out,
                            .activation = limited_ ? Activation::none : config_.activation,
                            .alone = matrices[0]->spec.alone,
                            .workspace = step.buffers.scratch,
                            .order = step.buffers.slot_order,
                            .before = before},
                           *step.context);
}

}  // namespace rocmforge
