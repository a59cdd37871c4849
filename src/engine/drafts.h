#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/draft_depth.h"
#include "engine/draft_model.h"
#include "engine/draft_order.h"
#include "engine/engine.h"
#include "engine/mtp_drafts.h"
#include "engine/ngram_table.h"
#include "engine/running.h"
#include "schedule/scheduler.h"

namespace rocmforge {

/// Speculative decoding: proposes the tokens that may follow those of running sequences. The model computes them in one step
/// with the last token and draws at each of them what it would have drawn without; drafts are accepted while they equal that
/// (Leviathan, Kalman and Matias 2023, for drafts without probabilities). So drafts change the number of steps, and no
/// token.
///
/// Drafts are tokens that a constraint forces, then those that followed where the last tokens stood before; a draft model or
/// the model's MTP block, EAGLE3 draft or assistant is asked for sequences without any.
class Drafts {
 public:
  /// `model` may be null. With `mtp` none is asked.
  Drafts(const DraftOptions& options, std::int32_t vocab, std::unique_ptr<Engine> model, std::optional<MtpDrafts> mtp);

  [[nodiscard]] bool are_on() const { return table_.has_value() || asks_model(); }
  /// Sets the drafts of the running sequences for the scheduler's next step.
  void propose(Scheduler& scheduler);
  /// Whether a sequence of the running step is likely to have drafts in the step after it, which can then not be started
  /// before the tokens of the running one are known.
  [[nodiscard]] bool are_likely(std::span<const ScheduledChunk> running, const Scheduler& scheduler);
  /// The step of `plan` has been read, and its chunks are not committed yet.
  void take_step(const BatchPlan& plan, std::span<const ScheduledChunk> chunks, std::span<const ChunkResult> results) {
    if (mtp_) {
      mtp_->take_step(plan, chunks, results);
    }
  }
  /// The step of `plan` runs, and the step after it is about to be started ahead.
  void follow(const BatchPlan& plan, std::span<const ScheduledChunk> chunks) {
    if (mtp_) {
      mtp_->follow(plan, chunks);
    }
  }
  /// Of the chunk's drafts the first `accepted` were drawn. Allocates nothing.
  void take(Running& running, const ScheduledChunk& chunk, std::int32_t accepted);
  /// The time of a step of these chunks. Allocates nothing.
  void take_time(std::span<const ScheduledChunk> step, double seconds);
  /// See Engine::watch_steps.
  void watch_steps(const std::function<void(const std::string& line)>& on_timeout);

  // Totals.
  [[nodiscard]] std::int64_t num_drafts() const { return num_drafts_; }
  [[nodiscard]] std::int64_t drafted_tokens() const { return drafted_tokens_; }
  [[nodiscard]] std::int64_t accepted_tokens() const { return accepted_tokens_; }

 private:
  static constexpr double usual_weight = 1.0 / 32;

  /// Adds what the table does not have of the sequence, at most learned_tokens.
  void learn(Running& running);
  [[nodiscard]] std::int32_t depth(DraftDepth& depth, const AcceptedRate& usual, std::int32_t most) const;
  /// Sets run_ to the end of the sequence and what is drafted behind it: at most `most` tokens.
  void find(Running& running, std::int32_t most);
  /// Whether there is a draft model or an MTP block.
  [[nodiscard]] bool asks_model() const { return model_.has_value() || mtp_.has_value(); }
  /// Lets it draft for the sequences of orders_.
  void ask_model(Scheduler& scheduler);
  void set(Running& running, std::span<const std::int32_t> drafted) const;

  DraftOptions options_;
  std::int32_t vocab_;
  std::optional<NgramTable> table_;
  std::optional<DraftModel> model_;
  std::optional<MtpDrafts> mtp_;
  StepCost cost_;
  // Of all sequences, whose drafts a new one's begin with: so a source that does not pay costs little in short answers too.
  AcceptedRate table_rate_{usual_weight};
  AcceptedRate model_rate_{usual_weight};
  double least_rate_ = 0.0;        ///< of tokens that pay in the next step
  std::uint64_t units_each_ = 0;   ///< of work for the masks of one sequence's drafts
  std::vector<std::int32_t> run_;  ///< the end of a sequence, and the tokens that were found behind it
  std::size_t known_ = 0;          ///< tokens of run_ that are the sequence's
  std::vector<DraftOrder> orders_;
  std::int64_t num_drafts_ = 0;
  std::int64_t drafted_tokens_ = 0;
  std::int64_t accepted_tokens_ = 0;
};

}  // namespace rocmforge
