#include "models/parts/eagle_block.h"

#include <optional>
#include <string>
#include <utility>

namespace rocmforge {
namespace {

NormName rms(std::string name, const ModelConfig& config) {
  return {.name = std::move(name), .kind = NormKind::rms, .eps = config.norm_eps};
}

}  // namespace

EagleBlock::EagleBlock(Planner& planner, WeightTable& weights, const EagleFile& eagle, const EmbeddingTable* of_model,
                       const Communicator* communicator)
    : DraftBlocks(eagle.config),
      eagle_(&eagle),
      embedding_(of_model),
      joined_{PlacedRows(planner, eagle.config.hidden, 0, 2), PlacedRows(planner, eagle.config.hidden, 1, 2)},
      kept_(planner, eagle.config.hidden, 0, 1),
      gather_(planner.resolve_for_prompts<GatherRows>({eagle.config.hidden})) {
  const OtherWeights own(planner, weights);
  const ModelConfig& config = eagle.config;
  const std::int64_t features = std::int64_t{eagle.model_hidden} * std::ssize(eagle.target_layers);
  weights.pass_over("d2t");
  if (eagle.own_embedding) {
    embedding_ = planner.embedding("token_embd.weight", eagle.model_vocab, config.hidden);
  }
  fuse_ = planner.fused_linear("fc", eagle.norm_before_fc ? std::optional(rms("enc.output_norm", config)) : std::nullopt,
                               {{.name = "fc", .n = config.hidden}}, features);
  embedding_norm_ = planner.norm(rms(block_tensor(0, "attn_norm"), config), config.hidden);
  state_norm_ = planner.norm(rms(block_tensor(0, "attn_norm_2"), config), config.hidden);
  BufferPlan& buffers = planner.buffers();
  buffers.need(BufferName::features, 2 * std::int64_t{config.hidden});
  buffers.need(BufferName::normed, eagle.norm_before_fc ? features : 0);
  buffers.need(BufferName::gathered, config.hidden);
  blocks_.push_back(std::make_unique<Block>(planner, config, 0, std::span<const std::unique_ptr<Block>>()));
  output_.emplace(planner, config,
                  OutputHead::Names{.norm = rms("output_norm", config), .operation = "output", .head = "output"},
                  blocks_.back()->mixed_width());
  draw_.emplace(planner, config.vocab, communicator);

  fuse_.append(begin_, &Buffers::features, &Buffers::hidden);
  add_input(begin_);
  kept_.append(go_on_, &Buffers::projected, &Buffers::hidden);
  add_input(go_on_);
  states_.push_back(
      {std::string(GatherRows::name), [this](const Step& step) {
         gather_.run({step.buffers.hidden, step.arrays->hidden_rows, step.tokens, step.buffers.projected}, step);
       }});
}

void EagleBlock::add_input(Operations& operations) const {
  operations.push_back({std::string(EmbeddingRows::name), [this](const Step& step) {
                          embedding_->operation.run({.ids = step.arrays->tokens,
                                                     .tokens = step.tokens,
                                                     .table = embedding_->data,
                                                     .out = step.buffers.gathered,
                                                     .drawn = step.buffers.sampled},
                                                    step);
                        }});
  embedding_norm_.append(operations, &Buffers::gathered, &Buffers::normed);
  joined_[0].append(operations, &Buffers::normed, &Buffers::features);
  float* Buffers::*const normed = eagle_->norm_before_residual ? &Buffers::hidden : &Buffers::normed;
  state_norm_.append(operations, &Buffers::hidden, normed);
  joined_[1].append(operations, normed, &Buffers::features);
}

std::span<const std::int32_t> EagleBlock::model_tokens(std::span<const std::int32_t> drawn) {
  if (eagle_->tokens.empty()) {
    return drawn;
  }
  tokens_.clear();
  for (const std::int32_t token : drawn) {
    tokens_.push_back(token < 0 ? token : eagle_->tokens[static_cast<std::size_t>(token)]);
  }
  return tokens_;
}

}  // namespace rocmforge
