#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/logprobs.h"
#include "engine/model_runner.h"
#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "ops/batch_plan.h"
#include "schedule/sequence.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// What the engine keeps for one request besides its Sequence: how its tokens are drawn and become text, what else was asked
/// for, and when.
class Answer {
 public:
  using Clock = std::chrono::steady_clock;

  Answer(const Request& request, std::shared_ptr<const Tokenizer> tokenizer);

  /// Works on the mask of the next draw for about `units`: true when it is ready, or when the constraint can't go on.
  bool prepare_mask(std::uint64_t units, std::int32_t vocab);
  /// What prepare_mask() would say without more work.
  [[nodiscard]] bool mask_is_settled() const { return constraint_ == nullptr || mask_is_ready_ || !failure_.empty(); }
  /// Units of work that the constraint has taken since the last call.
  std::uint64_t take_work();

  /// The next draw, for the model's kernel; see Sampler::next. Appends its adjustments and its mask, which is ready, to the
  /// step.
  SampleTokens::Row next(const Sequence& sequence, std::int32_t vocab, BatchPlan& step);
  /// The last draw came to nothing: the next one is the same, its random number included.
  void draw_again() { draws_again_ = has_drawn_; }
  /// The sequence is part of a step that is about to be computed.
  void started();
  /// A token came of it, or the end of a prompt that was all there is to compute.
  void computed();
  /// Text that `token` completes: whole characters, nothing that may be the start of a stop string.
  std::string add(std::int32_t token);
  /// Text that was held back, at the end of the answer.
  std::string finish();

  /// Takes log probabilities and hidden states of the prompt; before the chunk is committed.
  void take_prompt(const ScheduledChunk& chunk, const ChunkResult& result, ThreadPool& pool);
  /// What take_prompt has gathered; empty afterwards.
  std::vector<TokenLogprobs> prompt_logprobs();
  [[nodiscard]] std::vector<float> embedding() const;

  /// A stop string was found or the constraint allows nothing more.
  [[nodiscard]] bool stopped() const;
  /// The stop string that was found, "" without one.
  [[nodiscard]] const std::string& stop_string() const { return stop_.seen(); }
  /// Why the constraint can't go on, else "".
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// The reason is that there was no memory.
  [[nodiscard]] bool lacks_memory() const { return failure_ == no_memory; }

  static constexpr const char* no_memory = "no memory left";  ///< short: it takes none itself
  [[nodiscard]] double queue_seconds() const;
  [[nodiscard]] double prompt_seconds() const;
  [[nodiscard]] double decode_seconds() const;
  [[nodiscard]] double age_seconds() const;

 private:
  Sampler sampler_;
  std::unique_ptr<TokenConstraint> constraint_;
  std::vector<std::uint32_t> mask_;  ///< of the next draw, when `mask_is_ready_`
  bool mask_is_ready_ = false;
  SampleTokens::Row row_;  ///< of the last draw, with its adjustments
  std::vector<SampleTokens::Adjustment> adjustments_;
  bool has_drawn_ = false;  ///< row_ is complete
  bool draws_again_ = false;
  std::uint64_t taken_work_ = 0;
  std::string failure_;
  std::optional<StreamDecoder> decoder_;
  StopStrings stop_;
  std::vector<TokenLogprobs> prompt_logprobs_;
  std::vector<double> hidden_sum_;  ///< [hidden]
  std::int32_t hidden_rows_ = 0;
  Clock::time_point submitted_;
  std::optional<Clock::time_point> started_;
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_;
};

}  // namespace rocmforge
