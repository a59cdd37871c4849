#include "models/parts/mtp_block.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rocmforge {

MtpBlock::MtpBlock(Planner& planner, const ModelConfig& config, int index, const Shared& shared)
    : embedding_(shared.embedding) {
  const std::int64_t hidden = config.hidden;
  const auto name = [index](std::string_view part) { return block_tensor(index, part); };
  const auto norm = [&](std::string_view part) { return NormName{name(part), config.norm_kind, config.norm_eps}; };
  const std::string table = name("nextn.embed_tokens.weight");
  if (planner.weights().has_tensor(table)) {
    embedding_ = planner.embedding(table, config.vocab, hidden);
  }
  const std::string projection = name("nextn.eh_proj");
  planner.weights().refuse_tensor(projection + ".bias");
  const auto half = [&](std::int64_t first) {
    return std::vector<LinearName>{
        {.name = projection, .n = hidden, .columns = Selection::run({first, hidden}, 2 * hidden)}};
  };
  project_embedding_ = planner.fused_linear(projection + "_e", norm("nextn.enorm"), half(0), hidden);
  hidden_norm_ = planner.norm(norm("nextn.hnorm"), hidden);
  project_hidden_ = planner.linear(projection + "_h", half(hidden), hidden);
  planner.buffers().need(BufferName::gathered, hidden);
  add_input(config);

  block_ = std::make_unique<Block>(planner, config, index, shared.layers);

  const bool own_norm = planner.weights().has_tensor(name("nextn.shared_head_norm.weight"));
  OutputHead::Names names{.norm = own_norm ? norm("nextn.shared_head_norm")
                                           : NormName{config.output_norm, config.norm_kind, config.norm_eps}};
  if (const std::string own = name("nextn.shared_head_head"); planner.weights().has_tensor(own + ".weight")) {
    names.operation = own;
    names.head = own;
  } else {
    names.shared = shared.head;
  }
  output_.emplace(planner, config, names, block_->mixed_width());
}

void MtpBlock::add_input(const ModelConfig& config) {
  begin_.push_back({std::string(EmbeddingRows::name), [this, &config](const Step& step) {
                      embedding_->operation.run({.ids = step.arrays->tokens,
                                                 .tokens = step.tokens,
                                                 .table = embedding_->data,
                                                 .scale = config.embedding_scale,
                                                 .out = step.buffers.gathered,
                                                 .drawn = step.buffers.sampled},
                                                step);
                    }});
  project_embedding_.append(begin_, &Buffers::gathered, &Buffers::hidden);
  hidden_norm_.append(begin_, &Buffers::projected, &Buffers::normed);
  project_hidden_.append_residual(begin_, &Buffers::normed, &Buffers::hidden);
}

}  // namespace rocmforge
