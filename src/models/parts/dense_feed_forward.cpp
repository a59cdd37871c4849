#include "models/parts/dense_feed_forward.h"

namespace rocmforge {

DenseFeedForward::DenseFeedForward(Planner& planner, const ModelConfig& config, int index, const FeedForwardInput& input,
                                   const Part& part)
    : reads_stream_(input.from == &Buffers::hidden) {
  const FeedForwardConfig& own = config.layer(index).feed_forward;
  const auto name = [&](std::string_view tensor) { return block_tensor(index, std::string(tensor).append(part.suffix)); };
  const std::string down = std::string("ffn_down").append(part.suffix);
  // What is kept of a gate depends on all of it, so that each rank computes such a part whole.
  const Range own_width = own.cut ? Range{0, part.width} : planner.own_features(part.width, block_tensor(index, down));
  const Selection features = Selection::run(own_width, part.width);
  const std::int64_t width = own_width.count;
  const std::int64_t up_rows = (own.gated ? 2 : 1) * std::int64_t{part.width};
  const bool one_tensor = !own.gated || (!planner.weights().has_tensor(name("ffn_gate") + ".weight") &&
                                         planner.weights().has_tensor(name("ffn_up") + ".weight", {up_rows, config.hidden}));
  const std::vector<StackedPart> halves(own.gated ? 2 : 1, {features, part.width});
  std::vector<TensorPiece> pieces;
  if (own.gated) {
    pieces = {{name("ffn_gate"), part.width}, {name("ffn_up"), part.width}};
  }
  const std::vector<LinearName> one{{.name = name("ffn_up"),
                                     .n = (own.gated ? 2 : 1) * width,
                                     .needs_bias = own.needs_bias,
                                     .rows = stacked(halves),
                                     .pieces = pieces}};
  const std::vector<LinearName> two{{.name = name("ffn_gate"), .n = width, .needs_bias = own.needs_bias, .rows = features},
                                    {.name = name("ffn_up"), .n = width, .needs_bias = own.needs_bias, .rows = features}};
  up_ = planner.fused_linear(name(own.gated ? "ffn_gate_up" : "ffn_up"), input.norm, one_tensor ? one : two, config.hidden,
                             GatedActivation::Spec{own.activation, width, own.gated}, own.swiglu_limit, own.cut);
  planner.buffers().need_after_gather(BufferName::projected, 2 * width);
  planner.buffers().need_after_gather(BufferName::gathered, width);
  const BlockGraph& graph = config.layer(index).graph;
  down_ = ResidualOutput(planner, config, index,
                         {.linear = down,
                          .k = width,
                          .factors = graph.ffn_factors,
                          .norm = graph.ffn_post_norm,
                          .sum_norm = graph.ffn_sum_norm,
                          .needs_bias = own.needs_bias,
                          .output_scale = feed_forward_scale(config, index),
                          .columns = features});

  up_.append(operations_, input.from, &Buffers::gathered);
  down_.append(operations_);
}

}  // namespace rocmforge
