#include "schedule/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "schedule/sampling_numbers.h"

namespace rocmforge {

std::string SamplingParams::validate() const {
  for (const SamplingNumber& number : sampling_numbers()) {
    if (std::string problem = number.problem(*this); !problem.empty()) {
      return problem;
    }
  }
  if (mirostat != 0 && adaptive_target >= 0.0f) {
    return "mirostat and adaptive_target cannot both be on";
  }
  if (std::ranges::any_of(dry_breakers, &std::string::empty)) {
    return "a text of dry_sequence_breakers is empty";
  }
  if (min_tokens < 0) {
    return fmt::format("min_tokens is {}, must be 0 or more", min_tokens);
  }
  if (std::ranges::any_of(bad_words, &std::vector<std::int32_t>::empty)) {
    return "a text of bad_words has no tokens";
  }
  for (const auto& [token, bias] : logit_bias) {
    if (token < 0) {
      return fmt::format("logit_bias names token {}, ids start at 0", token);
    }
    if (!(bias < std::numeric_limits<float>::infinity())) {
      return fmt::format("logit_bias of token {} is {}, must be a finite number or -inf", token, bias);
    }
  }
  return {};
}

SamplingParams SamplingParams::only_named() const {
  SamplingParams params = *this;
  params.repeat_last_n = order.penalties ? repeat_last_n : 0;
  params.dry_multiplier = order.dry ? dry_multiplier : 0.0f;
  params.adaptive_target = order.adaptive_p ? adaptive_target : -1.0f;
  params.temperature = order.names(SampleStage::temperature) ? temperature : 1.0f;
  return params;
}

}  // namespace rocmforge
