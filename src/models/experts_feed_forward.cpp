#include "models/experts_feed_forward.h"

namespace rocmforge {

ExpertsFeedForward::ExpertsFeedForward(ExecutionPlan& plan, const ModelConfig& config, int index,
                                       const FeedForwardInput& input) {
  const LayerConfig& layer = config.layer(index);
  const ExpertConfig& own = layer.feed_forward.experts;
  check(layer.feed_forward.gated && layer.graph.ffn_post_norm.empty() && (input.norm || input.from == &Buffers::normed),
        "experts are gated, read a norm's output, and none stands behind them");
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const std::string bias = name("exp_probs_b.bias");
  const float residual_scale = layer.graph.residual_scale;
  RoutedExperts::Config routed{.route = {.experts = own.count,
                                         .used = own.used,
                                         .score = own.score,
                                         .bias = plan.has_tensor(bias),
                                         .normalise = own.normalise,
                                         .scale = own.scale * residual_scale,
                                         .groups = own.groups,
                                         .groups_used = own.groups_used,
                                         .group_best = own.group_best},
                               .width = own.width,
                               .hidden = config.hidden,
                               .activation = layer.feed_forward.activation};
  const bool needs_bias = own.needs_bias;
  routed_.emplace(
      plan, routed,
      RoutedExperts::Names{.router = {input.norm, name("ffn_gate_inp"), needs_bias, routed.route.bias ? bias : ""},
                           .gate = {name("ffn_gate_exps"), name("ffn_gate"), name("ffn_gate_up_exps"), false, needs_bias},
                           .up = {name("ffn_up_exps"), name("ffn_up"), name("ffn_gate_up_exps"), true, needs_bias},
                           .down = {name("ffn_down_exps"), name("ffn_down"), {}, false, needs_bias}});
  routed_->append(operations_, input.from);
  if (own.shared_width == 0) {
    return;
  }
  if (own.shared_gate) {
    routed.route = {.experts = 1, .used = 1, .score = RouteScore::sigmoid, .scale = residual_scale};
    routed.width = own.shared_width;
    gated_.emplace(plan, routed,
                   RoutedExperts::Names{.router = {.weight = name("ffn_gate_inp_shexp")},
                                        .gate = {name("ffn_gate_shexp")},
                                        .up = {name("ffn_up_shexp")},
                                        .down = {name("ffn_down_shexp")}});
    gated_->append(operations_, &Buffers::normed);
    return;
  }
  shared_.emplace(plan, config, index, FeedForwardInput{std::nullopt, &Buffers::normed},
                  DenseFeedForward::Part{own.shared_width, "_shexp"});
  operations_.insert(operations_.end(), shared_->operations().begin(), shared_->operations().end());
}

}  // namespace rocmforge
