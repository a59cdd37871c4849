#include "engine/model_runner.h"

#include <algorithm>

#include "engine/running.h"

namespace rocmforge {

namespace {

/// The drawn tokens that are kept: up to the first that differs from its draft, has none, or is -1.
std::span<const std::int32_t> kept_tokens(std::span<const std::int32_t> drawn, const ScheduledChunk& chunk) {
  const std::int32_t* drafts = chunk.sequence->tokens.data() + chunk.sequence->length();
  std::size_t count = 0;
  while (count < drawn.size() && drawn[count] >= 0) {
    ++count;
    if (count == drawn.size() || drawn[count - 1] != drafts[count - 1]) {
      break;
    }
  }
  return drawn.first(count);
}

/// The row of a sequence's token in a step.
std::size_t row_of(const BatchPlan& batch, std::size_t sequence, std::int32_t token) {
  return static_cast<std::size_t>(batch.query_offsets[sequence] + token);
}

}  // namespace

void add_tokens(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens, std::int32_t block_tokens,
                StepImages& images, BatchPlan& batch) {
  // A long prompt holds blocks for all its tokens from the start. The table needs only those of positions computed so far
  // and in this step.
  const auto blocks_in_use = static_cast<std::size_t>((chunk.first + chunk.count + block_tokens - 1) / block_tokens);
  batch.add_sequence(tokens, chunk.first, chunk.sequence->cache.pages.blocks().first(blocks_in_use), false);
  images.add(chunk, batch);
  const std::vector<WindowPages>& windows = chunk.sequence->cache.windows;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    batch.add_blocks(static_cast<std::int32_t>(i) + 1, windows[i].pages.blocks().first(blocks_in_use));
  }
}

void ModelRunner::copy(std::span<const BlockCopy> copies) {
  for (const BlockCopy& copy : copies) {
    const auto kind = static_cast<std::size_t>(copy.group);
    switch (copy.kind) {
      case CopyKind::on_device:
        model_->copy_block(*memory_, copy.group, copy.from, copy.to);
        break;
      case CopyKind::to_host:
        memory_->save(kind, copy.from, copy.to);
        break;
      case CopyKind::from_host:
        memory_->load(kind, copy.from, copy.to);
        break;
    }
  }
}

void ModelRunner::start(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw) {
  BatchPlan& batch = next();
  batch.clear();
  images_.clear();
  results_.reserve(chunks.size());
  bool draws = false;
  for (const ScheduledChunk& chunk : chunks) {
    const std::span<const std::int32_t> tokens = chunk.sequence->tokens;
    add(chunk, tokens.subspan(static_cast<std::size_t>(chunk.first), static_cast<std::size_t>(chunk.count)), next_draw);
    draws = draws || chunk.draws > 0;
  }
  if (!draws) {
    batch.sample_rows.clear();
  }
  if (!chunks.empty()) {
    forward();
  }
}

void ModelRunner::start_ahead(std::span<const ScheduledChunk> chunks, const NextDraw& next_draw) {
  next().clear();
  images_.clear();
  results_.reserve(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::int32_t token = EmbeddingRows::drawn_token(static_cast<std::int32_t>(i));
    add(chunks[i], {&token, 1}, next_draw);
  }
  forward();
}

void ModelRunner::forward() {
  next().finish();
  images_.encode(next());
  model_->forward(next(), *memory_);
  newest_ = 1 - newest_;
}

void ModelRunner::add(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens, const NextDraw& next_draw) {
  BatchPlan& batch = next();
  const std::int32_t row_of_position_0 = batch.num_tokens() - chunk.first;
  add_tokens(chunk, tokens, memory_->block_tokens(), images_, batch);
  add_adapters(chunk, batch);
  if (const SequenceState::Step& state = chunk.state; state.to >= 0) {
    const std::int32_t keep_rows = state.kept >= 0 ? state.kept_tokens - chunk.first : 0;
    batch.states.push_back({.read = state.from, .write = state.to, .keep = state.kept, .keep_rows = keep_rows});
  }

  const PositionRange scored = chunk.scored();
  for (std::int32_t position = scored.first; position < scored.end; ++position) {
    batch.raw_rows.push_back(batch.num_logit_rows());
    batch.logit_rows.push_back(row_of_position_0 + position);
    batch.sample_rows.emplace_back();  // the result of this draw is not read
  }
  const PositionRange pooled = wants_states_ ? PositionRange{chunk.first, chunk.first + chunk.count} : chunk.pooled();
  for (std::int32_t position = pooled.first; position < pooled.end; ++position) {
    batch.hidden_rows.push_back(row_of_position_0 + position);
  }
  for (std::int32_t token = batch.num_tokens() - chunk.draws; token < batch.num_tokens(); ++token) {
    if (chunk.sequence->request.wants_raw_logits()) {
      batch.raw_rows.push_back(batch.num_logit_rows());
    }
    batch.logit_rows.push_back(token);
    const auto first_adjustment = static_cast<std::int32_t>(batch.adjustments.size());
    SampleTokens::Row row = next_draw(chunk, batch);
    row.first_adjustment = first_adjustment;
    row.num_adjustments = static_cast<std::int32_t>(batch.adjustments.size()) - first_adjustment;
    batch.sample_rows.push_back(row);
  }
}

// Lists are made for all sequences of a step once one has adapters.
void ModelRunner::add_adapters(const ScheduledChunk& chunk, BatchPlan& batch) {
  const std::vector<AdapterUse>& own = Running::of(*chunk.sequence).adapters;
  if (!own.empty() || !batch.adapters.empty()) {
    batch.adapters.resize(static_cast<std::size_t>(batch.num_sequences()));
    batch.adapters.back() = own;
  }
}

// Walks the rows in the order in which `add` asked for them.
std::span<const ChunkResult> ModelRunner::results(std::span<const ScheduledChunk> chunks, bool before_last) {
  const BatchPlan& batch = batches_[before_last ? 1 - newest_ : newest_];
  std::span<const std::int32_t> sampled;
  if (!batch.sample_rows.empty()) {
    sampled = before_last ? model_->previous_sampled() : model_->sampled();
  }
  const std::span<const float> told = before_last ? std::span<const float>() : model_->draw_probabilities();
  std::span<const float> raw = batch.raw_rows.empty() ? std::span<const float>() : model_->raw_logits();
  const bool pools = std::ranges::any_of(
      chunks, [](const ScheduledChunk& chunk) { return chunk.sequence != nullptr && chunk.pooled().count() > 0; });
  std::span<const float> hidden = pools ? model_->hidden() : std::span<const float>();
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
    if (chunk.sequence == nullptr) {  // the sequence has ended meanwhile
      row += static_cast<std::size_t>(chunk.draws);
      continue;
    }
    const std::int32_t scored = chunk.scored().count();
    results_[i].scored_logits = take(raw, scored, config.vocab);
    if (const PositionRange pooled = chunk.pooled(); pooled.count() > 0) {
      std::span<const float> of_all = hidden.subspan(
          wants_states_ ? static_cast<std::size_t>(config.state_width()) * row_of(batch, i, pooled.first - chunk.first) : 0);
      results_[i].hidden = take(wants_states_ ? of_all : hidden, pooled.count(), config.state_width());
    }
    row += static_cast<std::size_t>(scored);
    if (chunk.draws > 0) {
      const auto drawn = sampled.subspan(row, static_cast<std::size_t>(chunk.draws));
      results_[i].tokens = kept_tokens(drawn, chunk);
      results_[i].probability = told.empty() ? 0.0f : told[row];
      results_[i].logits = take(raw, chunk.sequence->request.wants_raw_logits() ? chunk.draws : 0, config.vocab);
      row += drawn.size();
    }
  }
  return results_;
}

}  // namespace rocmforge
