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

/// The engine's state of one request beside its Sequence: how its tokens are drawn and decoded, other requested results,
/// and times.
class Answer {
 public:
  using Clock = std::chrono::steady_clock;

  Answer(const Request& request, std::shared_ptr<const Tokenizer> tokenizer);

  /// Works on the mask of the next draw for about `units` of work. True when the mask is ready, or when the constraint has
  /// failed.
  bool prepare_mask(std::uint64_t units, std::int32_t vocab);
  /// The result of prepare_mask() without more work.
  [[nodiscard]] bool mask_is_settled() const { return constraint_ == nullptr || mask_is_ready_ || !failure_.empty(); }
  /// Units of work that the constraint has used since the last call.
  std::uint64_t take_work();

  /// Begins to look for drafts of a constrained answer with about `units` of work; false where the mask of the next draw
  /// needs more. Drafts that were found before are forgotten.
  bool begin_drafts(std::uint64_t units, std::int32_t vocab);
  /// The only token that may come behind the drafts found so far; -1 where several may.
  [[nodiscard]] std::int32_t forced_token() const;
  /// Whether `token` may come behind the drafts found so far. Then it is one of them, and the mask of the draw behind it is
  /// ready. False also where that mask needs more work than begin_drafts() has left, and for a token that ends the answer.
  bool add_draft(std::int32_t token);

  /// The parameters of the next draw for SampleTokens; see Sampler::next. Several in a row are those of a token and its
  /// drafts, or of a step ahead. Appends its adjustments and its mask, which must be ready, to the step.
  SampleTokens::Row next(const Sequence& sequence, std::int32_t vocab, BatchPlan& step);
  /// Call when the result of the last draw was lost: the next draw repeats it, with the same random numbers.
  void draw_again() { --open_draws_; }
  /// Call when `draws` draws have been read, of which the first `kept` gave tokens of the sequence. `probability`: see
  /// Sampler::advance.
  void settle(std::size_t draws, std::size_t kept, float probability);
  /// Call before a step with this sequence is computed.
  void started();
  /// Call when the step has drawn a token, or has computed the whole prompt of a request that draws none.
  void computed();
  /// The text that `token` completes: whole characters, without text that may be the start of a stop string.
  std::string add(std::int32_t token);
  /// Text that was held back; call at the end of the answer.
  std::string finish();

  /// Adds log probabilities and hidden states of the prompt; call before the chunk is committed.
  void take_prompt(const ScheduledChunk& chunk, const ChunkResult& result, ThreadPool& pool);
  /// Returns what take_prompt has gathered, and clears it.
  std::vector<TokenLogprobs> prompt_logprobs();
  [[nodiscard]] std::vector<float> embedding() const;

  /// Whether a stop string was found, or the constraint is finished.
  [[nodiscard]] bool stopped() const;
  /// The stop string that was found; "" without one.
  [[nodiscard]] const std::string& stop_string() const { return stop_.seen(); }
  /// Why the constraint has failed; "" if it has not.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Whether the constraint has failed for lack of memory.
  [[nodiscard]] bool lacks_memory() const { return failure_ == no_memory; }

  static constexpr const char* no_memory = "no memory left";  ///< short, so that it needs no allocation
  [[nodiscard]] double queue_seconds() const;
  [[nodiscard]] double prompt_seconds() const;
  [[nodiscard]] double decode_seconds() const;
  [[nodiscard]] double age_seconds() const;

 private:
  /// Of the draw behind the drafts found so far.
  [[nodiscard]] std::span<const std::uint32_t> newest_mask() const;

  Sampler sampler_;
  std::unique_ptr<TokenConstraint> constraint_;
  std::vector<std::uint32_t> mask_;         ///< of the next draw, when `mask_is_ready_`
  std::unique_ptr<TokenConstraint> ahead_;  ///< behind the drafts; null before the first
  std::vector<std::uint32_t> draft_masks_;  ///< of the draws behind each draft, one after another
  std::uint64_t draft_units_ = 0;           ///< of work that is left for drafts
  std::uint64_t draft_work_ = 0;            ///< done for drafts since the last take_work()
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool mask_is_ready_ = false;
  std::size_t open_draws_ = 0;  ///< whose results were not read
  std::uint64_t taken_work_ = 0;
  std::string failure_;
  std::optional<StreamDecoder> decoder_;
  std::int64_t tokens_before_stops_;  ///< tokens whose text no stop string ends
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
