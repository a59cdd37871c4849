#include "schedule/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace rocmforge {

std::string SamplingParams::validate() const {
  const auto out_of_range = [](const char* parameter, auto value, const char* range) {
    return fmt::format("{} is {}, must be {}", parameter, value, range);
  };
  // The comparisons are written so that NaN fails them.
  if (!std::isfinite(temperature)) {
    return out_of_range("temperature", temperature, "a finite number");
  }
  if (top_k < 0) {
    return out_of_range("top_k", top_k, "0 (off) or more");
  }
  if (!(top_p > 0.0f && top_p <= 1.0f)) {
    return out_of_range("top_p", top_p, "in (0, 1]");
  }
  if (!(min_p >= 0.0f && min_p <= 1.0f)) {
    return out_of_range("min_p", min_p, "in [0, 1]");
  }
  if (!(typical_p > 0.0f && typical_p <= 1.0f)) {
    return out_of_range("typical_p", typical_p, "in (0, 1]");
  }
  if (!std::isfinite(top_n_sigma)) {
    return out_of_range("top_n_sigma", top_n_sigma, "a finite number");
  }
  if (!(xtc_probability >= 0.0f && xtc_probability <= 1.0f)) {
    return out_of_range("xtc_probability", xtc_probability, "in [0, 1]");
  }
  if (!(xtc_threshold >= 0.0f && xtc_threshold <= 1.0f)) {
    return out_of_range("xtc_threshold", xtc_threshold, "in [0, 1]");
  }
  if (!(dynatemp_range >= 0.0f && std::isfinite(dynatemp_range))) {
    return out_of_range("dynatemp_range", dynatemp_range, "a finite number of at least 0");
  }
  if (!(dynatemp_exponent >= 0.0f && std::isfinite(dynatemp_exponent))) {
    return out_of_range("dynatemp_exponent", dynatemp_exponent, "a finite number of at least 0");
  }
  if (mirostat < 0 || mirostat > 2) {
    return out_of_range("mirostat", mirostat, "0 (off), 1 or 2");
  }
  if (!(mirostat_tau >= 0.0f && std::isfinite(mirostat_tau))) {
    return out_of_range("mirostat_tau", mirostat_tau, "a finite number of at least 0");
  }
  if (!(mirostat_eta >= 0.0f && std::isfinite(mirostat_eta))) {
    return out_of_range("mirostat_eta", mirostat_eta, "a finite number of at least 0");
  }
  if (!(adaptive_target <= 1.0f)) {
    return out_of_range("adaptive_target", adaptive_target, "at most 1; below 0: off");
  }
  if (!(adaptive_decay >= 0.0f && adaptive_decay <= 0.99f)) {
    return out_of_range("adaptive_decay", adaptive_decay, "in [0, 0.99]");
  }
  if (mirostat != 0 && adaptive_target >= 0.0f) {
    return "mirostat and adaptive_target cannot both be on";
  }
  if (min_keep < 0) {
    return out_of_range("min_keep", min_keep, "0 or more");
  }
  if (repeat_last_n < -1) {
    return out_of_range("repeat_last_n", repeat_last_n, "-1 (all), 0 (none) or more");
  }
  if (!(repeat_penalty > 0.0f && std::isfinite(repeat_penalty))) {
    return out_of_range("repeat_penalty", repeat_penalty, "a finite number above 0");
  }
  if (!std::isfinite(frequency_penalty)) {
    return out_of_range("frequency_penalty", frequency_penalty, "a finite number");
  }
  if (!std::isfinite(presence_penalty)) {
    return out_of_range("presence_penalty", presence_penalty, "a finite number");
  }
  if (!(dry_multiplier >= 0.0f && std::isfinite(dry_multiplier))) {
    return out_of_range("dry_multiplier", dry_multiplier, "a finite number of at least 0");
  }
  if (!(dry_base >= 1.0f && std::isfinite(dry_base))) {
    return out_of_range("dry_base", dry_base, "a finite number of at least 1");
  }
  if (dry_allowed_length < 0) {
    return out_of_range("dry_allowed_length", dry_allowed_length, "0 or more");
  }
  if (dry_last_n < -1) {
    return out_of_range("dry_penalty_last_n", dry_last_n, "-1 (all), 0 (none) or more");
  }
  if (std::ranges::any_of(dry_breakers, &std::string::empty)) {
    return "a text of dry_sequence_breakers is empty";
  }
  if (min_tokens < 0) {
    return out_of_range("min_tokens", min_tokens, "0 or more");
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
