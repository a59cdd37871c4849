#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/sample_stage.h"

namespace rocmforge {

/// How the next token is drawn. The defaults are llama.cpp's; the chain runs in its order:
/// logit bias, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, temperature, draw.
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
  std::int32_t repeat_last_n = 64;      ///< tokens the penalties look at, prompt included; 0: none, -1: all
  float repeat_penalty = 1.0f;          ///< positive logits are divided by it, negative ones multiplied
  float frequency_penalty = 0.0f;       ///< subtracted once per occurrence
  float presence_penalty = 0.0f;        ///< subtracted once
  float dry_multiplier = 0.0f;          ///< of the penalty of tokens that go on with a repetition; 0: off
  float dry_base = 1.75f;               ///< the penalty grows by it with each token of the repetition
  std::int32_t dry_allowed_length = 2;  ///< tokens of a repetition that may be followed as before without a penalty
  std::int32_t dry_last_n = -1;         ///< tokens in which repetitions are looked for, prompt included; -1: all
  std::vector<std::string> dry_breakers{"\n", ":", "\"", "*"};  ///< texts that no repetition goes across
  /// The order of the filters and the temperature; what is not in it is off.
  std::vector<SampleStage> stages{SampleStage::top_n_sigma, SampleStage::top_k, SampleStage::typical_p,  SampleStage::top_p,
                                  SampleStage::min_p,       SampleStage::xtc,   SampleStage::temperature};
  std::map<std::int32_t, float> logit_bias{};  ///< added to the logits; -inf forbids
  /// Each is not drawn whole: its last token is forbidden where the tokens before it stand.
  std::vector<std::vector<std::int32_t>> bad_words{};
  std::int32_t min_tokens = 0;          ///< before so many tokens nothing ends the answer
  std::optional<std::uint64_t> seed{};  ///< unset: a random one

  /// Whether a draw depends on the tokens before it.
  [[nodiscard]] bool looks_back() const {
    const bool counts = repeat_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
    return (repeat_last_n != 0 && counts) || has_dry() || !bad_words.empty() || min_tokens > 0;
  }
  [[nodiscard]] bool has_dry() const { return dry_multiplier > 0.0f && dry_last_n != 0; }
  /// Empty when valid, else one line naming the parameter ("top_p is 1.5, must be in (0, 1]").
  [[nodiscard]] std::string validate() const;
};

}  // namespace rocmforge
