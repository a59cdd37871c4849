#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace rocmforge {

namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();

/// The value of a logit in a draw: NaN becomes -inf, +inf the largest finite number.
float clean(float logit) { return logit == logit ? std::min(logit, std::numeric_limits<float>::max()) : impossible; }

/// The `count` largest logits with their ids, sorted. `count` is small: each new one is inserted in its place.
std::vector<TokenLogprob> largest(std::span<const float> logits, std::size_t count) {
  std::vector<TokenLogprob> best;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const float logit = clean(logits[id]);
    if (best.size() == count && (count == 0 || !(logit > best.back().logprob))) {
      continue;
    }
    if (best.size() == count) {
      best.pop_back();
    }
    const auto place = std::ranges::upper_bound(best, logit, std::ranges::greater(), &TokenLogprob::logprob);
    best.insert(place, {static_cast<std::int32_t>(id), logit});
  }
  return best;
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, std::int32_t token, std::int32_t top,
                             std::span<const std::int32_t> wanted) {
  check(token >= 0 && static_cast<std::size_t>(token) < logits.size(), "the token has a logit");
  float maximum = impossible;
  for (const float logit : logits) {
    maximum = std::max(maximum, clean(logit));
  }
  double sum = 0.0;
  for (const float logit : logits) {
    sum += double{std::exp(clean(logit) - maximum)};
  }
  const double log_sum = double{maximum} + std::log(sum);
  const auto logprob = [&](float logit) {
    return logit == impossible ? impossible : static_cast<float>(double{logit} - log_sum);
  };
  TokenLogprobs result{token, logprob(clean(logits[static_cast<std::size_t>(token)])), {}};
  for (const std::int32_t id : wanted) {
    result.top.push_back({id, clean(logits[static_cast<std::size_t>(id)])});
  }
  if (wanted.empty()) {
    result.top = largest(logits, static_cast<std::size_t>(std::max(top, 0)));
  }
  for (TokenLogprob& other : result.top) {
    other.logprob = logprob(other.logprob);
  }
  return result;
}

}  // namespace rocmforge
