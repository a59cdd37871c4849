#include "engine/model_runner.h"

namespace rocmforge {

std::span<const ChunkResult> ModelRunner::run(std::span<const ScheduledChunk> chunks, std::span<const BlockCopy> copies,
                                              const NextDraw& next_draw) {
  batch_.clear();
  bool draws = false;
  for (const ScheduledChunk& chunk : chunks) {
    add(chunk, next_draw);
    draws = draws || chunk.wants_logits;
  }
  if (!draws) {
    batch_.sample_rows.clear();
  }
  batch_.finish();
  for (const BlockCopy& copy : copies) {
    cache_->copy_block(copy.from, copy.to);
  }
  model_->forward(batch_, *cache_);
  collect(chunks);
  return results_;
}

void ModelRunner::add(const ScheduledChunk& chunk, const NextDraw& next_draw) {
  const std::span<const std::int32_t> tokens = chunk.sequence->tokens;
  const std::int32_t block_tokens = cache_->layout().block_tokens;
  // A long prompt holds blocks for all its tokens from the start; the table needs only those in use by now.
  const std::int32_t blocks_in_use = (chunk.first + chunk.count + block_tokens - 1) / block_tokens;
  const std::int32_t row_of_position_0 = batch_.num_tokens() - chunk.first;
  batch_.add_sequence(tokens.subspan(static_cast<std::size_t>(chunk.first), static_cast<std::size_t>(chunk.count)),
                      chunk.first, chunk.sequence->pages.blocks().first(static_cast<std::size_t>(blocks_in_use)), false);

  const PositionRange scored = chunk.scored();
  for (std::int32_t position = scored.first; position < scored.end; ++position) {
    batch_.raw_rows.push_back(batch_.num_logit_rows());
    batch_.logit_rows.push_back(row_of_position_0 + position);
    batch_.sample_rows.emplace_back();  // a draw that nobody reads
  }
  const PositionRange pooled = chunk.pooled();
  for (std::int32_t position = pooled.first; position < pooled.end; ++position) {
    batch_.hidden_rows.push_back(row_of_position_0 + position);
  }
  if (chunk.wants_logits) {
    if (chunk.sequence->request.logprobs >= 0) {
      batch_.raw_rows.push_back(batch_.num_logit_rows());
    }
    batch_.logit_rows.push_back(batch_.num_tokens() - 1);
    const auto first_adjustment = static_cast<std::int32_t>(batch_.adjustments.size());
    SampleTokens::Row row = next_draw(chunk, batch_);
    row.first_adjustment = first_adjustment;
    row.num_adjustments = static_cast<std::int32_t>(batch_.adjustments.size()) - first_adjustment;
    batch_.sample_rows.push_back(row);
  }
}

// Walks the rows in the order in which `add` asked for them.
void ModelRunner::collect(std::span<const ScheduledChunk> chunks) {
  const std::span<const std::int32_t> sampled =
      batch_.sample_rows.empty() ? std::span<const std::int32_t>() : model_->sampled();
  std::span<const float> raw = batch_.raw_rows.empty() ? std::span<const float>() : model_->raw_logits();
  std::span<const float> hidden = batch_.hidden_rows.empty() ? std::span<const float>() : model_->hidden();
  const auto take = [](std::span<const float>& from, std::int32_t rows, std::int32_t width) {
    const std::size_t count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
    const std::span<const float> taken = from.first(count);
    from = from.subspan(count);
    return taken;
  };
  const ModelConfig& config = model_->config();
  results_.assign(chunks.size(), {});
  std::size_t row = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ScheduledChunk& chunk = chunks[i];
    const std::int32_t scored = chunk.scored().count();
    results_[i].scored_logits = take(raw, scored, config.vocab);
    results_[i].hidden = take(hidden, chunk.pooled().count(), config.hidden);
    row += static_cast<std::size_t>(scored);
    if (chunk.wants_logits) {
      results_[i].token = sampled[row++];
      results_[i].logits = take(raw, chunk.sequence->request.logprobs >= 0 ? 1 : 0, config.vocab);
    }
  }
}

}  // namespace rocmforge
