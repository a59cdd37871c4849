#include "models/parts/dense_feed_forward.h"

namespace rocmforge {

DenseFeedForward::DenseFeedForward(Planner& planner, const ModelConfig& config, int index, const FeedForwardInput& input,
                                   const Part& part)
    : reads_stream_(input.from == &Buffers::hidden) {
  const FeedForwardConfig& own = config.layer(index).feed_forward;
  const auto name = [&](std::string_view tensor) { return block_tensor(index, std::string(tensor).append(part.suffix)); };
  const std::int64_t up_rows = (own.gated ? 2 : 1) * std::int64_t{part.width};
  const bool one_tensor = !own.gated || (!planner.weights().has_tensor(name("ffn_gate") + ".weight") &&
                                         planner.weights().has_tensor(name("ffn_up") + ".weight", {up_rows, config.hidden}));
  const std::vector<LinearName> one{{name("ffn_up"), up_rows, own.needs_bias}};
  const std::vector<LinearName> two{{name("ffn_gate"), part.width, own.needs_bias},
                                    {name("ffn_up"), part.width, own.needs_bias}};
  up_ = planner.fused_linear(name(own.gated ? "ffn_gate_up" : "ffn_up"), input.norm, one_tensor ? one : two, config.hidden,
                             GatedActivation::Spec{own.activation, part.width, own.gated});
  planner.buffers().need_after_gather(BufferName::projected, 2 * std::int64_t{part.width});
  planner.buffers().need_after_gather(BufferName::gathered, part.width);
  const std::string down = std::string("ffn_down").append(part.suffix);
  const BlockGraph& graph = config.layer(index).graph;
  down_ = ResidualOutput(planner, config, index,
                         {.linear = down,
                          .k = part.width,
                          .norm = graph.ffn_post_norm,
                          .sum_norm = graph.ffn_sum_norm,
                          .needs_bias = own.needs_bias,
                          .output_scale = feed_forward_scale(config, index)});

  up_.append(operations_, input.from, &Buffers::gathered);
  down_.append(operations_);
}

}  // namespace rocmforge
