#include "checks/route_logits.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"

namespace rocmforge {
namespace {

constexpr double least_distance = 2e-6;
constexpr int most_tries = 1000;

/// What the choice of a token is made by. Without a bias the logits have the order of their scores.
std::vector<double> choices(const RouteTokens::Spec& spec, std::span<const float> bias, std::span<const float> logits) {
  std::vector<double> values(logits.begin(), logits.begin() + spec.experts);
  if (bias.empty() || spec.score == RouteScore::chosen_softmax || spec.score == RouteScore::chosen_sigmoid) {
    // The logits themselves.
  } else if (spec.score == RouteScore::sigmoid) {
    std::ranges::transform(values, values.begin(), [](double x) { return 1.0 / (1.0 + std::exp(-x)); });
  } else {
    double sum = 0.0;
    for (double& value : values) {
      value = std::exp(value);
      sum += value;
    }
    std::ranges::transform(values, values.begin(), [sum](double x) { return x / sum; });
  }
  for (std::size_t e = 0; e < bias.size(); ++e) {
    values[e] += double{bias[e]};
  }
  return values;
}

bool are_separate(std::vector<double> values) {
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values, [](double a, double b) { return b - a < least_distance; }) == values.end();
}

std::vector<double> group_choices(const RouteTokens::Spec& spec, std::vector<double> values) {
  const auto size = static_cast<std::ptrdiff_t>(spec.experts / spec.groups);
  std::vector<double> sums;
  for (auto first = values.begin(); first != values.end(); first += size) {
    std::sort(first, first + size, std::greater());
    sums.push_back(*first + (size > 1 && spec.group_best == 2 ? *(first + 1) : 0.0));
  }
  return sums;
}

}  // namespace

std::vector<float> separate_logits(const RouteTokens::Spec& spec, std::span<const float> bias, std::int64_t tokens,
                                   Random& random) {
  std::vector<float> all;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float> logits;
    std::vector<double> values;
    int tries = 0;
    do {
      check(tries++ < most_tries, "separate_logits: no logits are far enough from each other");
      logits = random.normals(spec.logits(), 2.0f);
      values = choices(spec, bias, logits);
    } while (!are_separate(values) || !are_separate(group_choices(spec, values)));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

}  // namespace rocmforge
