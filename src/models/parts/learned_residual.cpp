#include "models/parts/learned_residual.h"

#include <string>

#include "models/parts/block.h"

namespace rocmforge {

LearnedResidual::LearnedResidual(Planner& planner, const ModelConfig& config, int index)
    : hidden_(config.hidden), rank_(config.layer(index).graph.laurel_rank) {
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  norm_ = planner.norm(*block_norm(config, index, config.layer(index).graph.mixer_norm), hidden_);
  left_ = planner.linear(name("laurel_l"), {{name("laurel_l"), rank_}}, hidden_);
  right_ = planner.linear(name("laurel_r"), {{name("laurel_r"), hidden_}}, rank_);
  post_norm_ = planner.norm({name("laurel_post_norm"), NormKind::rms, config.norm_eps}, hidden_);
  add_ = planner.resolve_for_width<ResidualAdd>({}, 3 * hidden_);
  planner.buffers().need(BufferName::projected, rank_ + hidden_);
}

void LearnedResidual::append(Operations& operations) const {
  norm_.append(operations, &Buffers::hidden, &Buffers::normed);
  operations.push_back(
      {left_.kind(), [this](const Step& step) { left_.run(step, step.buffers.normed, step.buffers.projected); }});
  const auto right = [this](const Step& step) { return step.buffers.projected + step.tokens * rank_; };
  operations.push_back(
      {right_.kind(), [this, right](const Step& step) { right_.run(step, step.buffers.projected, right(step)); }});
  operations.push_back({std::string(post_norm_.kind()), [this, right](const Step& step) {
                          float* const sum = step.buffers.normed;
                          post_norm_.run_residual(step.tokens, right(step), sum, 1.0f, 1.0f, sum, step);
                        }});
  operations.push_back({std::string(ResidualAdd::name), [this](const Step& step) {
                          add_.run({.a = step.buffers.hidden,
                                    .b = step.buffers.normed,
                                    .count = step.tokens * hidden_,
                                    .out = step.buffers.hidden},
                                   step);
                        }});
}

}  // namespace rocmforge
