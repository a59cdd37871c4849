#include "models/transformer.h"

#include <algorithm>

namespace rocmforge {

Transformer::Transformer(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, ThreadPool& pool,
                         const ModelOptions& options)
    : config_(ModelConfig::from_gguf(file)),
      options_(options),
      context_{&pool},
      plan_(file, registry, device, pool, options) {
  check(options.max_batch_tokens >= 1 && options.max_logit_rows >= 1, "a step has at least one token and one row of logits");
  embedding_ = plan_.embedding("token_embd.weight", config_.vocab, config_.hidden);
  embedding_table_ = file.tensor("token_embd.weight").tensor.data;
  const Architecture& architecture = find_architecture(config_.architecture);
  for (int index = 0; index < config_.layers; ++index) {
    layers_.push_back(architecture.make_layer(plan_, config_, index));
  }
  output_norm_ = plan_.norm("output_norm.weight", config_.hidden, config_.norm_eps);
  const bool tied = !plan_.has_tensor("output.weight");
  output_ = plan_.linear("output", {{tied ? "token_embd" : "output", config_.vocab}}, config_.hidden);
  plan_.load_weights();
  lay_out_workspace();
}

void Transformer::lay_out_workspace() {
  const std::int64_t tokens = options_.max_batch_tokens;
  const std::int64_t hidden = tokens * config_.hidden;
  const std::int64_t projected = tokens * std::max(config_.q_dim() + 2 * config_.kv_dim(), 2 * std::int64_t{config_.ffn});
  const std::int64_t gathered = tokens * std::max(config_.q_dim(), std::int64_t{config_.ffn});
  const std::int64_t logits = std::int64_t{options_.max_logit_rows} * config_.vocab;

  constexpr std::size_t alignment = 64;
  std::size_t used = 0;
  const auto take = [&used](std::size_t size_bytes) {
    const std::size_t start = used;
    used += (size_bytes + alignment - 1) / alignment * alignment;
    return start;
  };
  const auto take_floats = [&take](std::int64_t count) { return take(static_cast<std::size_t>(count) * sizeof(float)); };
  const std::size_t offsets[] = {take_floats(hidden),   take_floats(hidden), take_floats(projected),
                                 take_floats(gathered), take_floats(logits), take(plan_.scratch_bytes())};

  workspace_ = HostMemory(used);
  const auto at = [&](int buffer) { return reinterpret_cast<float*>(workspace_.data() + offsets[buffer]); };
  buffers_ = {at(0), at(1), at(2), at(3), at(4), at(5)};
}

const float* Transformer::forward(const BatchPlan& batch, KvCache& cache) {
  check_batch(batch, cache);
  Step step{.tokens = batch.num_tokens(),
            .batch = batch.view(),
            .layout = cache.layout(),
            .cache = {},
            .buffers = buffers_,
            .context = &context_};

  embedding_.run({batch.tokens.data(), step.tokens, embedding_table_, 1.0f, buffers_.hidden}, step);
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    step.cache = cache.layer(static_cast<std::int32_t>(index));
    layers_[index]->forward(step);
  }
  return head(step, batch.logit_rows);
}

const float* Transformer::head(const Step& step, const std::vector<std::int32_t>& rows) const {
  const auto width = static_cast<std::size_t>(config_.hidden);
  float* wanted = buffers_.normed;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(buffers_.hidden + static_cast<std::size_t>(rows[i]) * width, width, wanted + i * width);
  }
  if (const auto count = static_cast<std::int64_t>(rows.size()); count > 0) {
    output_norm_.run(count, wanted, wanted, step);
    output_.run(count, step, wanted, buffers_.logits);
  }
  return buffers_.logits;
}

void Transformer::check_batch(const BatchPlan& batch, const KvCache& cache) const {
  check(batch.num_tokens() >= 1 && batch.num_tokens() <= options_.max_batch_tokens,
        "a step has 1 to max_batch_tokens tokens");
  check(batch.logit_rows.size() <= static_cast<std::size_t>(options_.max_logit_rows),
        "at most max_logit_rows rows of logits");
  KvLayout layout = plan_.kv_layout();
  layout.block_tokens = cache.layout().block_tokens;
  check(cache.layout() == layout, "the cache must have the layout of the attention kernel");
  batch.validate(cache.num_blocks(), cache.layout().block_tokens);
  check(std::all_of(batch.tokens.begin(), batch.tokens.end(),
                    [this](std::int32_t token) { return token >= 0 && token < config_.vocab; }),
        "a token is outside the vocabulary");
}

std::unique_ptr<Model> Model::load(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                   ThreadPool& pool, const ModelOptions& options) {
  return std::make_unique<Transformer>(file, registry, device, pool, options);
}

}  // namespace rocmforge
