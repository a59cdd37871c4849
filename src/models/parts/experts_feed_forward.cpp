#include "models/parts/experts_feed_forward.h"

namespace rocmforge {
namespace {

/// On a GPU a shared expert as wide as the others becomes one of the stacked experts, used by every token, because a call of
/// its own costs more than its work. If the formats of its tensors allow that, adds their names to `names` and returns true.
bool stack_shared(Planner& planner, const FeedForwardConfig& part, int index, RoutedExperts::Names& names) {
  const ExpertConfig& own = part.experts;
  if (!planner.device().is_gpu() || planner.experts_apart() || !own.may_stack_shared() ||
      part.swiglu_limit != own.swiglu_limit) {
    return false;
  }
  RoutedExperts::Names with = names;
  with.gate.shared = block_tensor(index, "ffn_gate_shexp");
  with.up.shared = block_tensor(index, "ffn_up_shexp");
  with.down.shared = block_tensor(index, "ffn_down_shexp");
  with.router.shared_gates = own.shared_gate ? block_tensor(index, "ffn_gate_inp_shexp") : "";
  const WeightTable& weights = planner.weights();
  if ((part.gated && !weights.can_stack_shared(with.gate)) || !weights.can_stack_shared(with.up) ||
      !weights.can_stack_shared(with.down)) {
    return false;
  }
  names = with;
  return true;
}

}  // namespace

ExpertsFeedForward::ExpertsFeedForward(Planner& planner, const ModelConfig& config, int index,
                                       const FeedForwardInput& input) {
  const LayerConfig& layer = config.layer(index);
  const ExpertConfig& own = layer.feed_forward.experts;
  const bool gated = layer.feed_forward.gated;
  check(layer.graph.ffn_post_norm.empty() && (input.norm || input.from == &Buffers::normed),
        "experts read a norm's output, and none stands behind them");
  check(!own.weights_inputs || (own.used == 1 && own.latent_size == 0 && layer.graph.residual_scale == 1.0f),
        "a token whose weights multiply inputs has one expert");
  check(own.swiglu_limit == 0.0f || (own.latent_size == 0 && !own.weights_inputs),
        "the rows that experts read or write are not those of their limits");
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::string bias = name("exp_probs_b.bias");
  const float residual_scale = layer.graph.residual_scale;
  RoutedExperts::Config routed{
      .route = {.experts = own.count,
                .used = own.used,
                .score = own.score,
                .bias = planner.weights().has_tensor(bias),
                .normalise = own.normalise,
                .scale = own.latent_size > 0 || own.weights_inputs ? own.scale : own.scale * residual_scale,
                .groups = own.groups,
                .groups_used = own.groups_used,
                .group_best = own.group_best},
      .width = own.width,
      .hidden = config.hidden,
      .expert_rows = own.latent_size,
      .activation = layer.feed_forward.activation,
      .gated = gated,
      .swiglu_limit = own.swiglu_limit,
      .weighted = !own.weights_inputs};
  RoutedExperts::Names names{
      .router = {input.norm, name("ffn_gate_inp"), own.needs_bias, routed.route.bias ? bias : ""},
      .gate = {.stacked = name("ffn_gate_exps"), .single = name("ffn_gate"), .joined = name("ffn_gate_up_exps")},
      .up = {.stacked = name("ffn_up_exps"), .single = name("ffn_up"), .second_half = true},
      .down = {.stacked = name("ffn_down_exps"), .single = name("ffn_down")}};
  for (ExpertTensorName* place : {&names.gate, &names.up, &names.down}) {
    place->needs_bias = own.needs_bias;
  }
  if (gated) {
    names.up.joined = names.gate.joined;
  }
  routed.width = take_features(planner, own.width, names);
  ExpertConfig of_rank = own;
  of_rank.width = static_cast<std::int32_t>(routed.width);
  need_buffers(planner.buffers(), of_rank);
  if (own.weights_inputs) {
    planner.buffers().need_after_gather(BufferName::gathered, config.hidden);
    planner.buffers().need_after_gather(BufferName::projected, of_rank.inner());
    weigh_ =
        planner.resolve<OutputGate>({.heads = 1, .dim = config.hidden, .gate = OutputGate::Gate::plain, .of_heads = true});
  }
  if (!planner.share().whole()) {
    rank_sum_ = planner.rank_sum(config.hidden);
    clear_partial_ =
        ClearPartial{planner.resolve_for_width<ResidualAdd>({}, 2 * std::int64_t{config.hidden}), config.hidden};
  }
  const bool stacked = stack_shared(planner, layer.feed_forward, index, names);
  if (stacked) {
    routed.route.shared = 1;
    routed.route.shared_gates = own.shared_gate;
    routed.route.shared_scale = residual_scale;
  }
  routed_.emplace(planner, routed, names);
  if (own.latent_size > 0) {
    const std::string down = name("ffn_latent_down");
    latents_.emplace(
        Latents{.size = own.latent_size,
                .down = planner.linear(down, {{down, own.latent_size}}, config.hidden),
                .up = ResidualOutput(planner, config, index,
                                     {.linear = "ffn_latent_up", .k = own.latent_size, .summed = !planner.share().whole()}),
                .clear = planner.resolve_for_width<Scale>({}, 2 * std::int64_t{own.latent_size})});
  }
  begin_routed(input.from);
  const bool has_shared = own.shared_width > 0 && !stacked;
  if (has_shared && routed_->apart()) {  // the device computes it before it waits for the host
    plan_shared(planner, config, index, routed);
  }
  end_routed();
  // A dense shared part has a sum of its own, in the same buffer.
  const bool summed_together = has_shared && own.shared_gate;
  if (rank_sum_ && !latents_ && !summed_together) {
    rank_sum_->append(operations_, &Buffers::hidden, true);
  }
  if (has_shared && !routed_->apart()) {
    plan_shared(planner, config, index, routed);
  }
  if (rank_sum_ && summed_together) {
    rank_sum_->append(operations_, &Buffers::hidden, true);
  }
}

void ExpertsFeedForward::plan_shared(Planner& planner, const ModelConfig& config, int index, RoutedExperts::Config routed) {
  const LayerConfig& layer = config.layer(index);
  const ExpertConfig& own = layer.feed_forward.experts;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  if (own.shared_gate) {
    routed.route = {.experts = 1, .used = 1, .score = RouteScore::sigmoid, .scale = layer.graph.residual_scale};
    routed.stays = true;
    routed.swiglu_limit = layer.feed_forward.swiglu_limit;
    RoutedExperts::Names names{.router = {.weight = name("ffn_gate_inp_shexp")},
                               .gate = {name("ffn_gate_shexp")},
                               .up = {name("ffn_up_shexp")},
                               .down = {name("ffn_down_shexp")}};
    routed.width = take_features(planner, own.shared_width, names);
    gated_.emplace(planner, routed, names);
    if (rank_sum_ && latents_) {
      clear_partial_->append(operations_);
    }
    gated_->append(operations_, &Buffers::normed, sum_of_experts());
    return;
  }
  shared_.emplace(planner, config, index, FeedForwardInput{std::nullopt, &Buffers::normed},
                  DenseFeedForward::Part{own.shared_width, "_shexp"});
  operations_.insert(operations_.end(), shared_->operations().begin(), shared_->operations().end());
}

void ExpertsFeedForward::begin_routed(float* Buffers::*x) {
  routed_->append_router(operations_, x);
  if (weigh_.kernel != nullptr) {
    operations_.push_back({std::string(OutputGate::name), [this](const Step& step) { weigh(step); }});
    routed_->append_up(operations_, &Buffers::gathered, &Buffers::projected);
    return;
  }
  if (!latents_) {
    routed_->append_up(operations_);
    return;
  }
  operations_.push_back({latents_->down.kind(), [this](const Step& step) {
                           latents_->down.run(step, step.buffers.normed, step.buffers.gathered);
                         }});
  routed_->append_up(operations_, &Buffers::gathered, &Buffers::projected);
}

void ExpertsFeedForward::weigh(const Step& step) const {
  const std::int64_t width = weigh_.spec.width();
  weigh_.run({.x = step.buffers.normed,
              .x_stride = width,
              .gate = step.buffers.expert_weights,
              .gate_stride = 1,
              .tokens = step.tokens,
              .out = step.buffers.gathered},
             step);
}

void ExpertsFeedForward::end_routed() {
  if (!latents_) {
    if (rank_sum_) {
      clear_partial_->append(operations_);
    }
    const bool weighs = weigh_.kernel != nullptr;
    routed_->append_down(operations_, sum_of_experts(), weighs ? &Buffers::projected : &Buffers::gathered);
    return;
  }
  operations_.push_back({std::string(Scale::name), [this](const Step& step) {
                           latents_->clear.run(
                               {.x = step.buffers.gathered, .count = step.tokens * latents_->size, .factor = 0.0f}, step);
                         }});
  routed_->append_down(operations_, &Buffers::gathered, &Buffers::projected);
  latents_->up.append(operations_);
}

}  // namespace rocmforge
