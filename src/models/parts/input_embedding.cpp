#include "models/parts/input_embedding.h"

#include <string>

#include "models/adapters/adapters.h"

namespace rocmforge {

InputEmbedding::InputEmbedding(Planner& planner, const ModelConfig& config, const ModelOptions& options)
    : table_(planner.embedding("token_embd.weight", config.vocab, config.hidden)) {
  operations_.push_back(
      {std::string(EmbeddingRows::name), [this, scale = config.embedding_scale](const Step& step) {
         table_->operation.run(
             {step.arrays->tokens, step.tokens, table_->data, scale, step.buffers.hidden, step.buffers.sampled}, step);
         if (step.adapters != nullptr) {
           step.adapters->add_to_embedding(step, scale);
         }
       }});
  if (options.given_rows) {
    given_.emplace(planner, config.hidden, 0);
    given_->append(operations_);
  }
  if (config.learned_positions) {
    append_sum(planner.embedding("position_embd.weight", config.context_length, config.hidden),
               [](const Step& step) { return step.batch.positions; });
  }
  if (config.encoder.token_types > 0) {
    const EmbeddingTable* types = planner.embedding("token_types.weight", config.encoder.token_types, config.hidden);
    zeros_.assign(static_cast<std::size_t>(options.max_batch_tokens), 0.0f);
    first_type_ = planner.weights().constants(zeros_);
    append_sum(types, [this](const Step&) { return reinterpret_cast<const std::int32_t*>(first_type_->data); });
  }
  if (!config.embedding_norm.empty() || config.plain_embedding_norm) {
    norm_ = planner.norm({config.embedding_norm, config.norm_kind, config.norm_eps, config.norm_needs_bias}, config.hidden);
    norm_->append(operations_, &Buffers::hidden, &Buffers::hidden);
  }
  if (config.per_layer_width > 0) {
    per_layer_.emplace(planner, config);
    per_layer_->append(operations_);
  }
  if (config.residual_streams > 1) {
    streams_.emplace(planner, config);
    streams_->append(operations_);
  }
}

template <class Ids>
void InputEmbedding::append_sum(const EmbeddingTable* table, Ids ids) {
  operations_.push_back(
      {std::string(EmbeddingRows::name), [table, ids](const Step& step) {
         table->operation.run(
             {.ids = ids(step), .tokens = step.tokens, .table = table->data, .out = step.buffers.hidden, .add = true}, step);
       }});
}

}  // namespace rocmforge
