#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge {

/// A token and the natural logarithm of its probability.
struct TokenLogprob {
  std::int32_t token = -1;
  float logprob = 0.0f;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// A token of a text, and the other tokens that were likely there.
struct TokenLogprobs {
  std::int32_t token = -1;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top{};  ///< the most likely ones first, of equal ones the lower id; may hold `token`
};

/// `logits` [vocab] as the model computed them; NaN counts as impossible. Lists the `top` most likely tokens, or, if
/// `wanted` is not empty, its tokens in their order.
TokenLogprobs token_logprobs(std::span<const float> logits, std::int32_t token, std::int32_t top,
                             std::span<const std::int32_t> wanted = {});

}  // namespace rocmforge
