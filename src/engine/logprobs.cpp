#include "engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace rocmforge {

namespace {

constexpr float impossible = -std::numeric_limits<float>::infinity();

/// As draws see a logit: NaN is -inf, +inf the largest number.
float clean(float logit) { return logit == logit ? std::min(logit, std::numeric_limits<float>::max()) : impossible; }

std::vector<std::int32_t> most_likely(std::span<const float> logits, std::int32_t count) {
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](std::int32_t a, std::int32_t b) {
    const float of_a = clean(logits[static_cast<std::size_t>(a)]);
    const float of_b = clean(logits[static_cast<std::size_t>(b)]);
    return of_a != of_b ? of_a > of_b : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, std::int32_t token, std::int32_t top) {
  check(token >= 0 && static_cast<std::size_t>(token) < logits.size(), "the token has a logit");
  float largest = impossible;
  for (const float logit : logits) {
    largest = std::max(largest, clean(logit));
  }
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(double{clean(logit)} - double{largest});  // NaN only when all are impossible
  }
  const double log_sum = double{largest} + std::log(sum);
  const auto logprob = [&](std::int32_t id) {
    const float logit = clean(logits[static_cast<std::size_t>(id)]);
    return logit == impossible ? impossible : static_cast<float>(double{logit} - log_sum);
  };
  TokenLogprobs result{token, logprob(token), {}};
  if (top > 0) {
    for (const std::int32_t id : most_likely(logits, top)) {
      result.top.push_back({id, logprob(id)});
    }
  }
  return result;
}

}  // namespace rocmforge
