// The choice of experts as plain as it can be written: a thread goes through a token's experts again and again; scores are
// in double and computed where they are needed. Formulas: ops/experts.h.

#include "kernels/check/check_code.h"
#include "kernels/check/route_args.h"

namespace rocmforge::check_kernels {
namespace {

/// A NaN is less than everything.
__device__ bool is_better(double a, double b) { return a > b || (b != b && a == a); }

/// The index of the largest value(i) that is not taken; of equal ones the lowest.
template <class Value, class Taken>
__device__ int largest_of(int count, const Value& value, const Taken& taken) {
  int best = -1;
  double most = 0.0;
  for (int i = 0; i < count; ++i) {
    if (taken(i)) {
      continue;
    }
    const double one = value(i);
    if (best < 0 || is_better(one, most)) {
      best = i;
      most = one;
    }
  }
  return best;
}

__device__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/// A token's logits and what is made of them.
struct TokenScores {
  const RouteCheckArgs& args;
  std::int64_t token;
  double largest = 0.0;
  double total = 1.0;

  __device__ TokenScores(const RouteCheckArgs& call, std::int64_t t) : args(call), token(t) {
    if (args.spec.score != RouteScore::softmax) {
      return;
    }
    largest = -infinite;
    for (int e = 0; e < args.spec.experts; ++e) {
      largest = fmax(largest, logit(e));
    }
    total = 0.0;
    for (int e = 0; e < args.spec.experts; ++e) {
      total += exp(logit(e) - largest);
    }
  }
  [[nodiscard]] __device__ double logit(int e) const {
    const std::int64_t at = token * args.all + e;
    return args.logits != nullptr ? static_cast<double>(args.logits[at]) : args.exact_logits[at];
  }
  [[nodiscard]] __device__ double score(int e) const {
    switch (args.spec.score) {
      case RouteScore::softmax:
        return exp(logit(e) - largest) / total;
      case RouteScore::sigmoid:
        return sigmoid(logit(e));
      default:
        return logit(e);
    }
  }
  /// What the choice is made by.
  [[nodiscard]] __device__ double choice(int e) const {
    return score(e) + (args.bias != nullptr ? static_cast<double>(args.bias[e]) : 0.0);
  }
  /// Of the experts of a group.
  [[nodiscard]] __device__ double group_choice(int group, int size) const {
    const auto value = [&](int e) { return choice(group * size + e); };
    const int first = largest_of(size, value, [](int) { return false; });
    if (size == 1 || args.spec.group_best == 1) {
      return value(first);
    }
    return value(first) + value(largest_of(size, value, [&](int e) { return e == first; }));
  }
  /// The groups that remain, a bit for each.
  [[nodiscard]] __device__ std::uint64_t chosen_groups() const {
    const int groups = args.spec.groups;
    const int size = args.spec.experts / groups;
    std::uint64_t chosen = 0;
    for (int i = 0; groups > 1 && i < args.spec.groups_used; ++i) {
      const int best = largest_of(
          groups, [&](int group) { return group_choice(group, size); },
          [&](int group) { return (chosen >> group & 1u) != 0; });
      chosen |= std::uint64_t{1} << best;
    }
    return groups > 1 ? chosen : 1u;
  }
};

/// The ids of a token's experts, the shared ones last.
__device__ void choose(const RouteCheckArgs& args, const TokenScores& scores, std::int32_t* ids) {
  const std::uint64_t groups = scores.chosen_groups();
  const int group_size = args.spec.experts / args.spec.groups;
  for (int j = 0; j < args.spec.used; ++j) {
    ids[j] = largest_of(
        args.spec.experts, [&](int e) { return scores.choice(e); },
        [&](int e) {
          bool taken = (groups >> e / group_size & 1u) == 0;
          for (int before = 0; before < j; ++before) {
            taken = taken || ids[before] == e;
          }
          return taken;
        });
  }
  for (int j = 0; j < args.spec.shared; ++j) {
    ids[args.spec.used + j] = args.spec.experts + j;
  }
}

__device__ void weigh(const RouteCheckArgs& args, const TokenScores& scores, const std::int32_t* ids, float* weights) {
  const auto& spec = args.spec;
  double largest = -infinite;
  for (int j = 0; j < spec.used; ++j) {
    largest = fmax(largest, scores.logit(ids[j]));
  }
  const bool softmax = spec.score == RouteScore::chosen_softmax;
  const auto weight = [&](int j) {
    if (spec.score == RouteScore::chosen_sigmoid) {
      return sigmoid(scores.logit(ids[j]));
    }
    return softmax ? exp(scores.logit(ids[j]) - largest) : scores.score(ids[j]);
  };
  double total = 0.0;
  for (int j = 0; j < spec.used; ++j) {
    total += weight(j);
  }
  double factor = softmax ? 1.0 / total : 1.0;
  if (spec.normalise) {
    factor /= fmax(total * factor, static_cast<double>(least_route_sum));
  }
  for (int j = 0; j < spec.used; ++j) {
    weights[j] = static_cast<float>(weight(j) * factor * static_cast<double>(spec.scale));
  }
  for (int j = 0; j < spec.shared; ++j) {
    const double gate = spec.shared_gates ? sigmoid(scores.logit(spec.experts + j)) : 1.0;
    weights[spec.used + j] = static_cast<float>(gate * static_cast<double>(spec.shared_scale));
  }
}

}  // namespace

ROCMFORGE_CHECK_KERNEL check_route(RouteCheckArgs args) {
  for_each_element(args.tokens, [&](std::int64_t t) {
    const TokenScores scores(args, t);
    choose(args, scores, args.ids + t * args.taken);
    weigh(args, scores, args.ids + t * args.taken, args.weights + t * args.taken);
  });
}

ROCMFORGE_CHECK_KERNEL check_router(RouterCheckArgs args) {
  const std::int64_t width = args.hidden + args.all;
  for_each_element(args.tokens * width, [&](std::int64_t index) {
    const std::int64_t t = index / width;
    const std::int64_t column = index % width;
    const auto normed = [&](std::int64_t i) {
      return static_cast<double>(args.x[t * args.hidden + i]) * args.factors[t] * static_cast<double>(args.norm[i]);
    };
    if (column < args.hidden) {
      args.normed[t * args.hidden + column] = static_cast<float>(normed(column));
      return;
    }
    const std::int64_t e = column - args.hidden;
    const bool routed = e < args.experts;
    const float* const row = routed ? args.router + e * args.hidden : args.shared_gates + (e - args.experts) * args.hidden;
    double sum = routed && args.router_bias != nullptr ? static_cast<double>(args.router_bias[e]) : 0.0;
    for (std::int64_t i = 0; i < args.hidden; ++i) {
      sum += normed(i) * static_cast<double>(row[i]);
    }
    args.logits[t * args.all + e] = sum;
  });
}

}  // namespace rocmforge::check_kernels
