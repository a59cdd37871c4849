#include "engine/mtp_drafts.h"

#include <algorithm>
#include <new>
#include <utility>

namespace rocmforge {

MtpDrafts::MtpDrafts(Model& model, SequenceMemory& memory, bool has_keys)
    : model_(&model), memory_(&memory), has_keys_(has_keys), positions_(model.config(), nullptr, nullptr, false) {}

void MtpDrafts::begin_pass(const BatchPlan& plan) {
  pass_ = plan;
  for (std::int32_t s = 0; s < plan.num_sequences(); ++s) {
    const std::int32_t first = plan.query_offsets[static_cast<std::size_t>(s)];
    const std::int32_t last = plan.query_offsets[static_cast<std::size_t>(s) + 1] - 1;
    std::copy(plan.tokens.begin() + first + 1, plan.tokens.begin() + last + 1, pass_.tokens.begin() + first);
    pass_.tokens[static_cast<std::size_t>(last)] = 0;
  }
  move_behind_keys();
  pass_.most_rows = 0;
  pass_.overwritten_rows.clear();
  pass_.given_rows.clear();
  pass_.adapters.clear();  // of sequences that may have ended
  pass_.logit_rows.clear();
  pass_.raw_rows.clear();
  pass_.hidden_rows.clear();
  pass_.sample_rows.clear();
  pass_.adjustments.clear();
  pass_.masks.clear();
  pass_.mask_words = 0;
}

void MtpDrafts::move_behind_keys() {
  if (!has_keys_) {
    std::ranges::for_each(pass_.positions, [](std::int32_t& position) { ++position; });
  }
}

void MtpDrafts::follow(const BatchPlan& plan, std::span<const ScheduledChunk> chunks) {
  followed_ = &plan;
  if (!has_keys_) {
    return;
  }
  begin_pass(plan);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const auto last = static_cast<std::size_t>(plan.query_offsets[i + 1]) - 1;
    pass_.tokens[last] = EmbeddingRows::drawn_token(static_cast<std::int32_t>(i));
  }
  model_->forward_mtp(0, pass_, *memory_);
}

void MtpDrafts::take_step(const BatchPlan& plan, std::span<const ScheduledChunk> chunks,
                          std::span<const ChunkResult> results) {
  if (std::exchange(followed_, nullptr) == &plan) {  // the step after it could not be started ahead
    return;
  }
  try {
    note_step(plan, chunks, results);
    pending_ = true;
  } catch (const std::bad_alloc&) {  // these rows are left out
  }
}

void MtpDrafts::note_step(const BatchPlan& plan, std::span<const ScheduledChunk> chunks,
                          std::span<const ChunkResult> results) {
  begin_pass(plan);
  origins_.clear();
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const ScheduledChunk& chunk = chunks[i];
    if (chunk.sequence == nullptr) {
      continue;
    }
    const std::int32_t end = plan.query_offsets[i + 1];
    if (!chunk.completes) {
      pass_.tokens[static_cast<std::size_t>(end) - 1] =
          chunk.sequence->tokens[static_cast<std::size_t>(chunk.first + chunk.count)];
    } else if (const std::span<const std::int32_t> drawn = results[i].tokens; !drawn.empty()) {
      // Rows behind this one are of rejected drafts; later steps compute their positions again.
      const std::int32_t row = end - chunk.draws + static_cast<std::int32_t>(drawn.size()) - 1;
      pass_.tokens[static_cast<std::size_t>(row)] = drawn.back();
      origins_.push_back({.id = chunk.sequence->id, .row = row, .position = chunk.first + row - plan.query_offsets[i]});
    }
  }
}

void MtpDrafts::propose(std::span<DraftOrder> orders, Scheduler& scheduler) {
  if (!pending_) {
    return;
  }
  pending_ = false;
  try {
    draft(orders, scheduler);
  } catch (const std::bad_alloc&) {  // these sequences have no drafts in this step
    model_->wait();
    for (DraftOrder& order : orders) {
      order.tokens.clear();
    }
  }
}

void MtpDrafts::begin_drafts(std::span<DraftOrder> orders, Scheduler& scheduler) {
  drafted_.clear();
  for (DraftOrder& order : orders) {
    Running& running = *order.running;
    const auto from = std::ranges::find(origins_, running.id, &Origin::id);
    // A shift of the context moves the last token.
    if (order.most <= 0 || from == origins_.end() || from->position != running.length() - 2) {
      continue;
    }
    drafted_.push_back({.order = &order, .from = *from, .most = has_keys_ ? most_with_keys(order, scheduler) : order.most});
  }
  std::ranges::sort(drafted_, {}, [](const Drafted& drafted) { return drafted.from.row; });
}

std::int32_t MtpDrafts::most_with_keys(const DraftOrder& order, Scheduler& scheduler) {
  // Each token but the last is computed at its own position, from that of the sequence's last token on.
  Running& running = *order.running;
  const std::int32_t end = running.length() - 1 + order.most - 1;
  const std::int32_t computed = running.cache.computed_tokens;
  const std::int32_t room = scheduler.make_room_ahead(running, end - computed) + computed - (running.length() - 1);
  const bool has_lost_all = running.cache.computed_tokens == 0;  // a first step, whose state includes rejected drafts
  return has_lost_all ? 1 : std::clamp(room + 1, 1, order.most);
}

void MtpDrafts::draft(std::span<DraftOrder> orders, Scheduler& scheduler) {
  begin_drafts(orders, scheduler);
  if (drafted_.empty() && !has_keys_) {
    return;
  }
  rows_.clear();
  rows_with_more_.clear();
  for (const Drafted& drafted : drafted_) {
    rows_.push_back(drafted.from.row);
    if (drafted.most > 1) {
      rows_with_more_.push_back(drafted.from.row);
    }
  }
  run_pass(rows_, rows_with_more_);
  for (std::int32_t distance = 1; !drafted_.empty(); ++distance) {
    std::erase_if(drafted_, [&](const Drafted& drafted) { return drafted.most <= distance; });
    if (!drafted_.empty()) {
      continue_drafts(distance);
    }
  }
}

void MtpDrafts::continue_drafts(std::int32_t distance) {
  pass_.clear();
  positions_.clear();
  rows_.clear();
  rows_with_more_.clear();
  for (const Drafted& drafted : drafted_) {
    const ScheduledChunk chunk{.sequence = drafted.order->running,
                               .first = drafted.from.position + (has_keys_ ? distance : 0),
                               .count = 1,
                               .draws = 1};
    add_tokens(chunk, {&drafted.token, 1}, memory_->block_tokens(), positions_, pass_);
    if (const SequenceState::Step state = drafted.order->running->cache.state.next(0); state.to >= 0) {
      pass_.states.push_back({.read = state.from, .write = state.to});  // named by every step, and left alone by the block
    }
    rows_.push_back(pass_.num_tokens() - 1);
    if (drafted.most > distance + 1) {
      rows_with_more_.push_back(rows_.back());
    }
  }
  pass_.finish();
  move_behind_keys();
  run_pass(rows_, rows_with_more_);
}

void MtpDrafts::run_pass(std::span<const std::int32_t> rows, std::span<const std::int32_t> more) {
  pass_.logit_rows.assign(rows.begin(), rows.end());
  pass_.hidden_rows.assign(more.begin(), more.end());
  pass_.sample_rows.assign(rows.size(), SampleTokens::Row{});
  model_->forward_mtp(0, pass_, *memory_);
  if (rows.empty()) {
    return;
  }
  const std::span<const std::int32_t> drawn = model_->sampled();
  for (std::size_t i = 0; i < drafted_.size(); ++i) {
    Drafted& drafted = drafted_[i];
    drafted.ended = drafted.ended || drawn[i] < 0;
    drafted.token = drafted.ended ? 0 : drawn[i];
    if (!drafted.ended) {
      drafted.order->tokens.push_back(drafted.token);
    }
  }
}

}  // namespace rocmforge
