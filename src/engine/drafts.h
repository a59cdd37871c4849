#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/draft_depth.h"
#include "engine/engine.h"
#include "engine/ngram_table.h"
#include "engine/running.h"
#include "schedule/scheduler.h"

namespace rocmforge {

/// Speculative decoding: proposes the tokens that may follow those of running sequences. The model computes them in one step
/// with the last token and draws at each of them what it would have drawn without; drafts are accepted while they equal that
/// (Leviathan, Kalman and Matias 2023, for drafts without probabilities). So drafts change the number of steps, and no
/// token.
class Drafts {
 public:
  explicit Drafts(const DraftOptions& options);

  [[nodiscard]] bool are_on() const { return table_.has_value(); }
  /// Sets the drafts of the running sequences for the scheduler's next step.
  void propose(const Scheduler& scheduler);
  /// Whether a sequence of the running step is likely to have drafts in the step after it, which can then not be started
  /// before the tokens of the running one are known.
  [[nodiscard]] bool are_likely(std::span<const ScheduledChunk> running, const Scheduler& scheduler);
  /// Of the chunk's drafts the first `accepted` were drawn. Allocates nothing.
  void take(Running& running, const ScheduledChunk& chunk, std::int32_t accepted);
  /// The time of a step of these chunks. Allocates nothing.
  void take_time(std::span<const ScheduledChunk> step, double seconds);

  // Totals.
  [[nodiscard]] std::int64_t num_drafts() const { return num_drafts_; }
  [[nodiscard]] std::int64_t drafted_tokens() const { return drafted_tokens_; }
  [[nodiscard]] std::int64_t accepted_tokens() const { return accepted_tokens_; }

 private:
  /// Adds what the table does not have of the sequence, at most learned_tokens.
  void learn(Running& running);
  static std::int32_t most_for(const Sequence& sequence, const Scheduler& scheduler);
  void look_up(const Running& running, std::int32_t most);

  DraftOptions options_;
  std::optional<NgramTable> table_;
  StepCost cost_;
  std::vector<std::int32_t> run_;  ///< the end of a sequence, and the tokens that were found behind it
  std::size_t known_ = 0;          ///< tokens of run_ that are the sequence's
  std::int64_t num_drafts_ = 0;
  std::int64_t drafted_tokens_ = 0;
  std::int64_t accepted_tokens_ = 0;
};

}  // namespace rocmforge
