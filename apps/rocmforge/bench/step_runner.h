#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace rocmforge::app {

/// `count` random tokens below `vocab`. Equal tokens would choose the same experts, whose weights would be read only once.
std::vector<std::int32_t> random_tokens(std::mt19937& random, std::int32_t vocab, std::int32_t count);

/// Runs a model's steps directly, without scheduler and sampler, for measurements: `sequences` sequences of up to
/// `max_tokens` positions each, in the engine's cache, which must be large enough and otherwise unused.
class StepRunner {
 public:
  StepRunner(Engine& engine, std::int32_t sequences, std::int32_t max_tokens, std::int32_t batch_tokens);

  /// The positions that the engine's cache must have (EngineOptions::kv_tokens) for that many sequences of that length, for
  /// any block size up to 256 positions.
  static std::int64_t cache_tokens(std::int32_t sequences, std::int32_t max_tokens);

  /// Appends tokens to sequence `sequence` from position `first` on, in pieces of the batch size.
  /// Waits until they are computed.
  void prefill(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first);

  /// The same in one step, which the batch size must allow, with every token's logits: [tokens, vocab].
  std::span<const float> all_logits(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first);

  /// One step with one token for each sequence, all at `position`, and greedy sampling. Waits until it is computed.
  void decode(std::span<const std::int32_t> tokens, std::int32_t position);

  /// The same; waits only for the step started before it, as the engine does while sequences decode. `finish` waits for all.
  /// Where the layers lie on several devices one token is that which the step before drew: with all of them known the first
  /// device would begin while the others still compute that step, which no answer can.
  void decode_ahead(std::span<const std::int32_t> tokens, std::int32_t position);
  void finish() { engine_.model().wait(); }

  /// Times each kind of operation of a step that appends `tokens`, of which the last one's logits are wanted.
  std::vector<OperationTime> time_prompt(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first);
  /// The same for a step of decode().
  std::vector<OperationTime> time_decode(std::span<const std::int32_t> tokens, std::int32_t position);

 private:
  void add(std::int32_t sequence, std::span<const std::int32_t> tokens, std::int32_t first, bool last, bool all);
  /// The blocks of a group with a window are reused cyclically, so that those in the window of any position are different.
  void add_window_blocks(std::int32_t sequence, std::size_t count);
  void add_decode(std::span<const std::int32_t> tokens, std::int32_t position);
  void forward();

  Engine& engine_;
  std::int32_t batch_tokens_;
  std::int32_t block_tokens_;
  std::vector<std::vector<std::int32_t>> blocks_;  ///< of each sequence
  std::vector<std::int32_t> window_blocks_;
  std::vector<std::int32_t> newest_slots_;  ///< of each sequence's recurrent state, -1 before its first step
  bool drew_ = false;                       ///< decode_ahead() ran after the last prefill
  BatchPlan plan_;
};

}  // namespace rocmforge::app
