#include "models/parts/assistant_blocks.h"

#include <optional>
#include <string>
#include <vector>

namespace rocmforge {

AssistantBlocks::AssistantBlocks(Planner& planner, WeightTable& weights, const AssistantFile& assistant,
                                 const OfModel& model, const Communicator* communicator)
    : DraftBlocks(assistant.config), gather_(planner.resolve_for_prompts<GatherRows>({assistant.config.hidden})) {
  const OtherWeights own(planner, weights);
  const ModelConfig& config = assistant.config;
  const std::int64_t width = assistant.model_hidden;
  const std::string projection = block_tensor(0, "nextn.pre_projection");
  const auto half = [&](std::int64_t first) {
    return std::vector<LinearName>{
        {.name = projection, .n = config.hidden, .columns = Selection::run({first, width}, 2 * width)}};
  };
  project_embedding_ = planner.fused_linear(projection + "_e", std::nullopt, half(0), width);
  project_state_ = planner.linear(projection + "_h", half(width), width);
  const std::string post = "nextn.post_projection";
  post_project_ = planner.fused_linear(post, std::nullopt, {{.name = post, .n = width}}, config.hidden);
  planner.buffers().need(BufferName::gathered, width);
  // What transformers computes logits of the likeliest tokens alone with; a draft is the likeliest of all.
  for (const char* tensor : {"masked_embd_centroids.weight", "masked_embd_ordering", "masked_embd_ordering.weight"}) {
    weights.pass_over(tensor);
  }
  for (int index = 0; index < config.layers; ++index) {
    blocks_.push_back(std::make_unique<Block>(planner, config, index, model.layers));
    if (index > 0) {
      blocks_.back()->join(planner, *blocks_[static_cast<std::size_t>(index) - 1]);
    }
  }
  output_.emplace(
      planner, config,
      OutputHead::Names{
          .norm = {config.output_norm, config.norm_kind, config.norm_eps}, .operation = "output", .head = "token_embd"},
      blocks_.back()->mixed_width());
  draw_.emplace(planner, config.vocab, communicator);
  add_input(model);
  add_states();
}

void AssistantBlocks::add_input(const OfModel& model) {
  begin_.push_back({std::string(EmbeddingRows::name), [model](const Step& step) {
                      model.embedding->operation.run({.ids = step.arrays->tokens,
                                                      .tokens = step.tokens,
                                                      .table = model.embedding->data,
                                                      .scale = model.embedding_scale,
                                                      .out = step.buffers.gathered,
                                                      .drawn = step.buffers.sampled},
                                                     step);
                    }});
  project_embedding_.append(begin_, &Buffers::gathered, &Buffers::hidden);
  project_state_.append_residual(begin_, &Buffers::projected, &Buffers::hidden);
}

void AssistantBlocks::add_states() {
  states_.push_back({std::string(GatherRows::name), [this](const Step& step) {
                       gather_.run({step.buffers.hidden, step.arrays->hidden_rows, step.tokens, step.buffers.normed}, step);
                     }});
  output_->layers().norm->append(states_, &Buffers::normed, &Buffers::normed);
  post_project_.append(states_, &Buffers::normed, &Buffers::projected);
}

}  // namespace rocmforge
