#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace rocmforge {

namespace {

constexpr float forbidden = -std::numeric_limits<float>::infinity();

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// A total order, so that results do not depend on how a standard library sorts.
constexpr auto more_likely = [](const auto& a, const auto& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
};

}  // namespace

Sampler::Sampler(const SamplingParams& params)
    : params_(params), seed_(params.seed ? *params.seed : random_seed()), random_(seed_) {}

std::int32_t Sampler::sample(std::span<const float> logits, std::span<const std::int32_t> history) {
  adjust(logits, history);
  if (params_.temperature <= 0.0f) {
    return greedy();
  }
  collect();
  if (candidates_.empty()) {
    return -1;
  }
  keep_typical();
  keep_top();
  keep_min();
  return draw();
}

void Sampler::adjust(std::span<const float> logits, std::span<const std::int32_t> history) {
  logits_.assign(logits.begin(), logits.end());
  for (const auto& [token, bias] : params_.logit_bias) {
    if (token >= 0 && static_cast<std::size_t>(token) < logits_.size()) {
      logits_[static_cast<std::size_t>(token)] += bias;
    }
  }
  add_penalties(history);
  for (float& logit : logits_) {
    logit = logit == logit ? std::min(logit, std::numeric_limits<float>::max()) : forbidden;
  }
}

void Sampler::add_penalties(std::span<const std::int32_t> history) {
  const bool none = params_.repeat_penalty == 1.0f && params_.frequency_penalty == 0.0f && params_.presence_penalty == 0.0f;
  if (none || params_.repeat_last_n == 0) {
    return;
  }
  const auto window = static_cast<std::size_t>(params_.repeat_last_n);  // -1 becomes larger than any history
  std::unordered_map<std::int32_t, std::int32_t> counts;
  for (const std::int32_t token : history.last(std::min(history.size(), window))) {
    ++counts[token];
  }
  for (const auto& [token, count] : counts) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits_.size()) {
      continue;
    }
    float& logit = logits_[static_cast<std::size_t>(token)];
    logit = logit > 0.0f ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty;
  }
}

std::int32_t Sampler::greedy() const {
  const auto best = std::ranges::max_element(logits_);  // the first of equals
  return best == logits_.end() || *best == forbidden ? -1 : static_cast<std::int32_t>(best - logits_.begin());
}

// All tokens that may be drawn, or the top_k most likely of them. The buffer is cut back to top_k whenever it is full, which
// raises the bar for the rest: linear time, and for a peaked distribution hardly more than reading the logits.
void Sampler::collect() {
  candidates_.clear();
  const std::size_t top_k = params_.top_k > 0 ? static_cast<std::size_t>(params_.top_k) : logits_.size();
  const std::size_t capacity = std::max<std::size_t>(2 * top_k, 256);
  const auto cut = [&] {
    if (candidates_.size() > top_k) {
      const auto kth = candidates_.begin() + static_cast<std::ptrdiff_t>(top_k) - 1;
      std::nth_element(candidates_.begin(), kth, candidates_.end(), more_likely);
      candidates_.resize(top_k);
    }
  };
  float bar = forbidden;
  for (std::size_t id = 0; id < logits_.size(); ++id) {
    if (logits_[id] <= bar) {
      continue;  // an equal logit with a higher id comes later in the order
    }
    candidates_.push_back({static_cast<std::int32_t>(id), logits_[id], 0.0});
    if (candidates_.size() == capacity) {
      cut();
      bar = candidates_[top_k - 1].logit;
    }
  }
  cut();
}

// Returns log(sum(exp(logit))) - max(logit).
double Sampler::normalise() {
  const double best = std::ranges::min(candidates_, more_likely).logit;
  double sum = 0.0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp(candidate.logit - best);
    sum += candidate.probability;
  }
  for (Candidate& candidate : candidates_) {
    candidate.probability /= sum;
  }
  return std::log(sum);
}

// Keeps the shortest start of the order `before` whose probabilities reach `mass`. Sorts no further than needed.
template <class Before>
void Sampler::keep_mass(double mass, Before before) {
  double sum = 0.0;
  std::size_t sorted = 0;
  for (std::size_t kept = 0; kept < candidates_.size(); ++kept) {
    if (kept == sorted) {
      sorted = std::min(candidates_.size(), std::max<std::size_t>(64, 4 * sorted));
      const auto first = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
      const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      if (last != candidates_.end()) {
        std::nth_element(first, last, candidates_.end(), before);
      }
      std::sort(first, last, before);
    }
    sum += candidates_[kept].probability;
    if (sum >= mass) {
      candidates_.resize(kept + 1);
      return;
    }
  }
}

// Locally typical sampling (Meister and others 2022): closest to the entropy first.
void Sampler::keep_typical() {
  if (params_.typical_p >= 1.0f) {
    return;
  }
  const double log_sum = normalise();
  const double best = std::ranges::min(candidates_, more_likely).logit;
  const auto surprise = [&](const Candidate& candidate) { return log_sum - (candidate.logit - best); };
  double entropy = 0.0;
  for (const Candidate& candidate : candidates_) {
    entropy += candidate.probability * surprise(candidate);
  }
  keep_mass(params_.typical_p, [&](const Candidate& a, const Candidate& b) {
    const double distance_a = std::abs(surprise(a) - entropy);
    const double distance_b = std::abs(surprise(b) - entropy);
    return distance_a != distance_b ? distance_a < distance_b : more_likely(a, b);
  });
}

void Sampler::keep_top() {
  if (params_.top_p < 1.0f) {
    normalise();
    keep_mass(params_.top_p, more_likely);
  }
}

void Sampler::keep_min() {
  if (params_.min_p > 0.0f) {
    const double best = std::ranges::min(candidates_, more_likely).logit;
    std::erase_if(candidates_, [&](const Candidate& candidate) { return std::exp(candidate.logit - best) < params_.min_p; });
  }
}

// Walks the candidates from the most likely one, or in the order of ids where no filter has moved them: sorting a whole
// vocabulary would cost more than the rest. The temperature acts on what the filters left.
std::int32_t Sampler::draw() {
  if (params_.top_k > 0 || params_.typical_p < 1.0f || params_.top_p < 1.0f) {
    std::ranges::sort(candidates_, more_likely);
  }
  const double best = std::ranges::min(candidates_, more_likely).logit;
  double sum = 0.0;
  for (Candidate& candidate : candidates_) {
    candidate.probability = std::exp((candidate.logit - best) / params_.temperature);
    sum += candidate.probability;
  }
  // 53 random bits make a number in [0, 1): the standard leaves its own distributions to the implementation.
  double left = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.probability;
    if (left < 0.0) {
      return candidate.id;
    }
  }
  return std::ranges::min(candidates_, more_likely).id;  // rounding used the sum up
}

}  // namespace rocmforge
