#include "bench/step_runner.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge::app {

std::vector<std::int32_t> random_tokens(std::mt19937& random, std::int32_t vocab, std::int32_t count) {
  std::uniform_int_distribution<std::int32_t> any(0, vocab - 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::ranges::generate(tokens, [&] { return any(random); });
  return tokens;
}

StepRunner::StepRunner(Engine& engine, std::int32_t sequences, std::int32_t max_tokens, std::int32_t batch_tokens)
    : engine_(engine), batch_tokens_(batch_tokens), block_tokens_(engine.memory().block_tokens()) {
  const std::int32_t blocks_each = (max_tokens + block_tokens_ - 1) / block_tokens_;
  check(sequences * blocks_each <= engine.memory().pages().num_blocks(), "the cache holds all sequences");
  newest_slots_.assign(static_cast<std::size_t>(sequences), -1);
  for (std::int32_t sequence = 0; sequence < sequences; ++sequence) {
    auto& blocks = blocks_.emplace_back();
    for (std::int32_t block = 0; block < blocks_each; ++block) {
      blocks.push_back(sequence * blocks_each + block);
    }
  }
}

std::int64_t StepRunner::cache_tokens(std::int32_t sequences, std::int32_t max_tokens) {
  constexpr std::int64_t largest_block = 256;
  return sequences * ((max_tokens + largest_block - 1) / largest_block * largest_block);
}

void StepRunner::add(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first, bool last, bool all) {
  const auto& blocks = blocks_[static_cast<std::size_t>(sequence)];
  const auto positions = static_cast<std::size_t>(first) + tokens.size();
  const std::size_t used =
      (positions + static_cast<std::size_t>(block_tokens_) - 1) / static_cast<std::size_t>(block_tokens_);
  plan_.add_sequence(tokens, first, std::span(blocks).first(used), last, all);
  add_window_blocks(sequence, used);
  if (engine_.model().state_bytes() > 0) {  // each step reads the sequence's newest state and writes its other slot
    std::int32_t& slot = newest_slots_[static_cast<std::size_t>(sequence)];
    const std::int32_t other = slot == 2 * sequence ? slot + 1 : 2 * sequence;
    plan_.states.push_back({.read = first == 0 ? -1 : slot >= 0 ? slot : 2 * sequence + 1, .write = other});
    slot = other;
  }
}

void StepRunner::add_window_blocks(std::int32_t sequence, std::size_t count) {
  const SequenceMemory& memory = engine_.memory();
  const auto sequences = static_cast<std::int32_t>(blocks_.size());
  for (std::int32_t group = 1; group < memory.num_groups(); ++group) {
    const std::int32_t each = memory.pages(group).num_blocks() / sequences;
    window_blocks_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      window_blocks_[i] = sequence * each + static_cast<std::int32_t>(i) % each;
    }
    plan_.add_blocks(group, window_blocks_);
  }
}

void StepRunner::forward() {
  plan_.finish();
  engine_.model().forward(plan_, engine_.memory());
}

void StepRunner::prefill(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first) {
  drew_ = false;
  while (!tokens.empty()) {
    const auto piece = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(batch_tokens_)));
    plan_.clear();
    add(sequence, piece, first, piece.size() == tokens.size(), false);
    forward();
    tokens = tokens.subspan(piece.size());
    first += static_cast<std::int32_t>(piece.size());
  }
  engine_.model().wait();
}

std::span<const float> StepRunner::all_logits(std::int32_t sequence, std::span<const std::int32_t> tokens,
                                              std::int32_t first) {
  check(tokens.size() <= static_cast<std::size_t>(batch_tokens_), "a step takes at most batch_tokens tokens");
  plan_.clear();
  add(sequence, tokens, first, true, true);
  forward();
  return engine_.model().logits();
}

void StepRunner::decode(std::span<const std::int32_t> tokens, std::int32_t position) {
  add_decode(tokens, position);
  forward();
  static_cast<void>(engine_.model().sampled());
}

void StepRunner::decode_ahead(std::span<const std::int32_t> tokens, std::int32_t position) {
  add_decode(tokens, position);
  if (drew_ && engine_.model().stage_ends().size() > 1) {
    plan_.tokens.back() = EmbeddingRows::drawn_token(static_cast<std::int32_t>(tokens.size()) - 1);
  }
  forward();
  drew_ = true;
  static_cast<void>(engine_.model().previous_sampled());
}

std::vector<OperationTime> StepRunner::time_prompt(std::int32_t sequence, std::span<const std::int32_t> tokens,
                                                   std::int32_t first) {
  plan_.clear();
  add(sequence, tokens, first, true, false);
  plan_.sample_rows.resize(1);
  plan_.finish();
  return engine_.model().time_operations(plan_, engine_.memory());
}

std::vector<OperationTime> StepRunner::time_decode(std::span<const std::int32_t> tokens, std::int32_t position) {
  add_decode(tokens, position);
  plan_.finish();
  return engine_.model().time_operations(plan_, engine_.memory());
}

void StepRunner::add_decode(std::span<const std::int32_t> tokens, std::int32_t position) {
  check(tokens.size() == blocks_.size(), "one token for each sequence");
  plan_.clear();
  for (std::size_t sequence = 0; sequence < tokens.size(); ++sequence) {
    add(static_cast<std::int32_t>(sequence), tokens.subspan(sequence, 1), position, true, false);
  }
  plan_.sample_rows.resize(tokens.size());
}

}  // namespace rocmforge::app
