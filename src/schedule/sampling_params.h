#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace rocmforge {

/// How the next token is drawn. The defaults are llama.cpp's; the chain runs in its order:
/// logit bias, penalties, top-k, typical-p, top-p, min-p, temperature, draw.
struct SamplingParams {
  float temperature = 0.8f;                    ///< <= 0: greedy
  std::int32_t top_k = 40;                     ///< 0: off
  float top_p = 0.95f;                         ///< 1: off
  float min_p = 0.05f;                         ///< 0: off
  float typical_p = 1.0f;                      ///< 1: off
  std::int32_t repeat_last_n = 64;             ///< tokens the penalties look at, prompt included; 0: none, -1: all
  float repeat_penalty = 1.0f;                 ///< positive logits are divided by it, negative ones multiplied
  float frequency_penalty = 0.0f;              ///< subtracted once per occurrence
  float presence_penalty = 0.0f;               ///< subtracted once
  std::map<std::int32_t, float> logit_bias{};  ///< added to the logits; -inf forbids
  std::optional<std::uint64_t> seed{};         ///< unset: a random one

  /// Whether a draw depends on the tokens before it.
  [[nodiscard]] bool penalises() const {
    return repeat_last_n != 0 && (repeat_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f);
  }
  /// Empty when valid, else one line naming the parameter ("top_p is 1.5, must be in (0, 1]").
  [[nodiscard]] std::string validate() const;
};

}  // namespace rocmforge
