#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedule/sampler_order.h"

namespace rocmforge {

/// How the next token is drawn. The defaults are llama.cpp's; the chain runs in its order:
/// logit bias, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, adaptive-p, draw.
struct SamplingParams {
  float temperature = 0.8f;      ///< <= 0: greedy
  std::int32_t top_k = 40;       ///< 0: off
  float top_p = 0.95f;           ///< 1: off
  float min_p = 0.05f;           ///< 0: off
  float typical_p = 1.0f;        ///< 1: off
  float top_n_sigma = -1.0f;     ///< keep logits this many standard deviations below the largest; <= 0: off
  float xtc_probability = 0.0f;  ///< how often the most likely tokens are excluded; 0: off
  float xtc_threshold = 0.1f;    ///< of these tokens; above 0.5: off
  float dynatemp_range = 0.0f;   ///< the temperature varies by it with the entropy; 0: off
  float dynatemp_exponent = 1.0f;
  /// 1 and 2: after the temperature Mirostat of that version cuts what is drawn, and the filters do nothing; 0: off.
  std::int32_t mirostat = 0;
  float mirostat_tau = 5.0f;            ///< the surprise it aims at, bits
  float mirostat_eta = 0.1f;            ///< how fast its cut follows the surprise of the drawn tokens
  float adaptive_target = -1.0f;        ///< adaptive-p: the probability it aims at; below 0: off
  float adaptive_decay = 0.9f;          ///< of the weight of earlier tokens in that average
  std::int32_t min_keep = 0;            ///< tokens that top-p, min-p, typical-p and XTC leave at least
  std::int32_t repeat_last_n = 64;      ///< tokens the penalties look at, prompt included; 0: none, -1: all
  float repeat_penalty = 1.0f;          ///< positive logits are divided by it, negative ones multiplied
  float frequency_penalty = 0.0f;       ///< subtracted once per occurrence
  float presence_penalty = 0.0f;        ///< subtracted once
  float dry_multiplier = 0.0f;          ///< of the penalty of tokens that go on with a repetition; 0: off
  float dry_base = 1.75f;               ///< the penalty grows by it with each token of the repetition
  std::int32_t dry_allowed_length = 2;  ///< tokens of a repetition that may be followed as before without a penalty
  std::int32_t dry_last_n = -1;         ///< tokens in which repetitions are looked for, prompt included; -1: all
  std::vector<std::string> dry_breakers{"\n", ":", "\"", "*"};  ///< texts that no repetition goes across
  SamplerOrder order{};
  std::map<std::int32_t, float> logit_bias{};  ///< added to the logits; -inf forbids
  /// Each is not drawn whole: its last token is forbidden where the tokens before it stand.
  std::vector<std::vector<std::int32_t>> bad_words{};
  std::int32_t min_tokens = 0;          ///< before so many tokens nothing ends the answer
  std::optional<std::uint64_t> seed{};  ///< unset: a random one

  /// Whether a draw depends on the tokens before it.
  [[nodiscard]] bool looks_back() const {
    const bool counts = repeat_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    return (repeat_last_n != 0 && counts) || has_dry() || !bad_words.empty() || min_tokens > 0 || learns();
  }
  /// Whether a draw depends on the probabilities of the tokens drawn before it.
  [[nodiscard]] bool learns() const { return temperature > 0.0f && (mirostat != 0 || adaptive_target >= 0.0f); }
  /// With what `order` does not name turned off.
  [[nodiscard]] SamplingParams only_named() const;
  [[nodiscard]] bool has_dry() const { return dry_multiplier > 0.0f && dry_last_n != 0; }
  /// Empty when valid, else one line naming the parameter ("top_p is 1.5, must be in (0, 1]").
  [[nodiscard]] std::string validate() const;
};

}  // namespace rocmforge
