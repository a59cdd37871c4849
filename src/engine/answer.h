#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "engine/stop_strings.h"
#include "schedule/scheduler.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// What the engine keeps for one request besides its Sequence: how its tokens are drawn and become text, and when.
class Answer {
 public:
  Answer(const Request& request, std::shared_ptr<const Tokenizer> tokenizer);

  /// The next draw, for the model's kernel; see Sampler::next. Then drawn(), once its token is known.
  SampleTokens::Row next(std::span<const std::int32_t> history, std::vector<SampleTokens::Adjustment>& adjustments) {
    return sampler_.next(history, adjustments);
  }
  void drawn();
  /// Both in one, from logits in host memory; -1 when every token is forbidden.
  std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> history);
  /// Text that `token` completes: whole characters, nothing that may be the start of a stop string.
  std::string add(std::int32_t token);
  /// Text that was held back, at the end of the answer.
  std::string finish();

  [[nodiscard]] bool stopped() const { return stop_.stopped(); }
  [[nodiscard]] double prompt_seconds() const;
  [[nodiscard]] double decode_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  Sampler sampler_;
  std::optional<StreamDecoder> decoder_;
  StopStrings stop_;
  Clock::time_point submitted_;
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_;
};

}  // namespace rocmforge
