#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/text_match.h"
#include "schedule/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// Penalties of tokens that would go on with a repetition (DRY, "don't repeat yourself"). Where the last L tokens stood
/// before, the token that followed there loses multiplier * base^(L - allowed_length), for its greatest L of at least
/// allowed_length. The last tokens reach back at most to the last breaker, and breakers are not penalised.
class Dry {
 public:
  struct Penalty {
    std::int32_t token = 0;
    float amount = 0.0f;  ///< above 0
  };

  /// Without a tokenizer there are no breakers.
  Dry(const SamplingParams& params, std::shared_ptr<const Tokenizer> tokenizer);

  /// The penalties of the next token, by ascending tokens. `history` is the sequence so far: that of the last call with more
  /// tokens behind it, or a new one. Time and memory are those of sorting the part of it that params.dry_last_n names.
  std::span<const Penalty> next(std::span<const std::int32_t> history);

 private:
  void look_for_breakers(std::span<const std::int32_t> history);
  [[nodiscard]] bool holds_breaker(std::int32_t token) const;
  void measure(std::span<const std::int32_t> window, std::size_t most);
  [[nodiscard]] float amount_of(std::size_t length) const;

  float multiplier_;
  float base_;
  std::size_t allowed_length_;
  std::int32_t last_n_;
  std::vector<TextMatch> breakers_;
  std::shared_ptr<const Tokenizer> tokenizer_;

  std::size_t seen_ = 0;              ///< tokens of the history in which breakers were looked for
  std::int32_t newest_ = -1;          ///< the last of these
  std::size_t behind_breaker_ = 0;    ///< where the tokens behind the last breaker begin
  std::vector<std::size_t> lengths_;  ///< [window]: of the last tokens that stand before here as well
  std::vector<Penalty> penalties_;
};

}  // namespace rocmforge
