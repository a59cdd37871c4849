#include "models/parts/two_feed_forwards.h"

#include <cmath>

namespace rocmforge {

TwoFeedForwards::TwoFeedForwards(Planner& planner, const ModelConfig& config, int index) : hidden_(config.hidden) {
  const BlockGraph& graph = config.layer(index).graph;
  if (!planner.share().whole()) {
    rank_sum_ = planner.rank_sum(hidden_);
    clear_partial_ = ClearPartial{planner.resolve_for_width<ResidualAdd>({}, 2 * hidden_), hidden_};
  }
  plan_experts(planner, config, index);
  plan_dense(planner, config, index);
  post_norm_ = planner.norm(*block_norm(config, index, graph.ffn_post_norm), hidden_);
  scale_ = planner.resolve_for_width<Scale>({}, 2 * hidden_);
  float output_scale = 1.0f;
  if (const std::string_view scale = feed_forward_scale(config, index); !scale.empty()) {
    output_scale = planner.weights().number(block_tensor(index, scale) + ".weight");
  }

  experts_->append_router(operations_, &Buffers::hidden);
  up_.append(operations_, &Buffers::hidden, &Buffers::gathered);
  operations_.push_back({down_.kind(), [this](const Step& step) {
                           down_.run(step, step.buffers.gathered, rank_sum_ ? step.buffers.partial : step.buffers.projected);
                         }});
  if (rank_sum_) {
    rank_sum_->append(operations_, &Buffers::projected, false);
  }
  dense_post_norm_.append(operations_, &Buffers::projected, &Buffers::projected);
  experts_norm_.append(operations_, &Buffers::hidden, &Buffers::normed);
  experts_->append_up(operations_);
  if (rank_sum_) {
    clear_partial_->append(operations_);
    experts_->append_down(operations_, &Buffers::partial);
    rank_sum_->append(operations_, &Buffers::normed, false);
  } else {
    operations_.push_back({std::string(Scale::name), [this](const Step& step) { clear(step); }});
    experts_->append_down(operations_, &Buffers::normed);
  }
  experts_post_norm_.append_residual(operations_, &Buffers::normed, &Buffers::projected, 1.0f);
  post_norm_.append_residual(operations_, &Buffers::projected, &Buffers::hidden, graph.residual_scale, output_scale);
}

void TwoFeedForwards::plan_dense(Planner& planner, const ModelConfig& config, int index) {
  const LayerConfig& layer = config.layer(index);
  const std::int64_t all = layer.feed_forward.width;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const Range own = planner.own_features(all, name("ffn_down"));
  const Selection features = Selection::run(own, all);
  const std::int64_t width = own.count;
  up_ = planner.fused_linear(
      name("ffn_gate_up"), block_norm(config, index, layer.graph.ffn_norm),
      {{.name = name("ffn_gate"), .n = width, .rows = features}, {.name = name("ffn_up"), .n = width, .rows = features}},
      hidden_, GatedActivation::Spec{layer.feed_forward.activation, width, true});
  down_ = planner.linear(name("ffn_down"),
                         {{.name = name("ffn_down"), .n = hidden_, .columns = features, .summed = rank_sum_.has_value()}},
                         width);
  dense_post_norm_ = planner.norm(*block_norm(config, index, "post_ffw_norm_1"), hidden_);
}

void TwoFeedForwards::plan_experts(Planner& planner, const ModelConfig& config, int index) {
  const FeedForwardConfig& own = config.layer(index).feed_forward;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  need_buffers(planner.buffers(), own.experts);
  NormName router_norm{name("ffn_gate_inp"), NormKind::rms, config.norm_eps};
  router_norm.suffix = ".scale";
  router_norm.factor = 1.0f / std::sqrt(static_cast<float>(hidden_));
  RoutedExperts::Names names{.router = {router_norm, name("ffn_gate_inp")},
                             .gate = {name("ffn_gate_exps"), {}, name("ffn_gate_up_exps")},
                             .up = {name("ffn_up_exps"), {}, name("ffn_gate_up_exps"), true},
                             .down = {.stacked = name("ffn_down_exps"), .any_scale = true}};
  const std::int64_t width = take_features(planner, own.experts.width, names);
  experts_.emplace(planner,
                   RoutedExperts::Config{.route = {.experts = own.experts.count,
                                                   .used = own.experts.used,
                                                   .score = own.experts.score,
                                                   .normalise = own.experts.normalise,
                                                   .scale = own.experts.scale,
                                                   .groups = own.experts.groups,
                                                   .groups_used = own.experts.groups_used,
                                                   .group_best = own.experts.group_best},
                                         .width = width,
                                         .hidden = hidden_,
                                         .activation = own.activation,
                                         .gated = true},
                   names);
  experts_norm_ = planner.norm(*block_norm(config, index, "pre_ffw_norm_2"), hidden_);
  experts_post_norm_ = planner.norm(*block_norm(config, index, "post_ffw_norm_2"), hidden_);
}

// NaN and infinity times 0 give NaN. Such a row is invalid already, and rows do not affect each other.
void TwoFeedForwards::clear(const Step& step) const {
  scale_.run({.x = step.buffers.normed, .count = step.tokens * hidden_, .factor = 0.0f}, step);
}

}  // namespace rocmforge
