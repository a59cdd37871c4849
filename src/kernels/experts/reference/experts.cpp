#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/experts/kernels.h"
#include "kernels/launch/parallel.h"
#include "kernels/launch/reference_kernel.h"
#include "kernels/rows/reference/activation.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge {
namespace {

/// In place.
void softmax(std::vector<double>& values) {
  const double largest = *std::ranges::max_element(values);
  double sum = 0.0;
  for (double& value : values) {
    value = std::exp(value - largest);
    sum += value;
  }
  for (double& value : values) {
    value /= sum;
  }
}

/// The index of the largest value that is not taken; of equal ones, and where all are NaN, the lowest.
std::size_t largest_of(const std::vector<double>& values, const std::vector<bool>& taken) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!taken[i] &&
        (best == values.size() || values[i] > values[best] || (std::isnan(values[best]) && !std::isnan(values[i])))) {
      best = i;
    }
  }
  return best;
}

/// True for experts whose group is not among the chosen groups.
std::vector<bool> outside_groups(const RouteTokens::Spec& spec, const std::vector<double>& scores) {
  std::vector<bool> out(scores.size(), spec.groups > 1);
  if (spec.groups == 1) {
    return out;
  }
  const auto group = static_cast<std::ptrdiff_t>(spec.experts / spec.groups);
  std::vector<double> sums;
  for (auto first = scores.begin(); first != scores.end(); first += group) {
    std::vector<double> own(first, first + group);
    std::ranges::sort(own, std::greater());
    sums.push_back(group > 1 && spec.group_best == 2 ? own[0] + own[1] : own[0]);
  }
  std::vector<bool> chosen(sums.size(), false);
  for (std::int32_t i = 0; i < spec.groups_used; ++i) {
    const std::size_t best = largest_of(sums, chosen);
    chosen[best] = true;
    std::fill_n(out.begin() + static_cast<std::ptrdiff_t>(best) * group, group, false);
  }
  return out;
}

/// `scores`: a token's logits; `ids` and `weights` are its own.
void route(const RouteTokens::Spec& spec, std::vector<double> scores, const float* bias, std::int32_t* ids, float* to) {
  for (std::int32_t j = 0; j < spec.shared; ++j) {
    const auto expert = static_cast<std::size_t>(spec.experts + j);
    ids[spec.used + j] = static_cast<std::int32_t>(expert);
    to[spec.used + j] = static_cast<float>(double{spec.shared_scale} * (spec.shared_gates ? sigmoid(scores[expert]) : 1.0));
  }
  scores.resize(static_cast<std::size_t>(spec.experts));
  if (spec.score == RouteScore::softmax) {
    softmax(scores);
  } else if (spec.score == RouteScore::sigmoid) {
    std::ranges::transform(scores, scores.begin(), sigmoid);
  }
  std::vector<double> choice = scores;
  for (std::size_t e = 0; spec.bias && e < choice.size(); ++e) {
    choice[e] += double{bias[e]};
  }
  std::vector<bool> taken = outside_groups(spec, choice);
  std::vector<double> weights;
  for (std::int32_t j = 0; j < spec.used; ++j) {
    const std::size_t best = largest_of(choice, taken);
    taken[best] = true;
    ids[j] = static_cast<std::int32_t>(best);
    weights.push_back(scores[best]);
  }
  if (spec.score == RouteScore::chosen_softmax) {
    softmax(weights);
  } else if (spec.score == RouteScore::chosen_sigmoid) {
    std::ranges::transform(weights, weights.begin(), sigmoid);
  }
  double sum = 0.0;
  for (const double weight : weights) {
    sum += weight;
  }
  const double factor = double{spec.scale} / (spec.normalise ? std::max(sum, double{least_route_sum}) : 1.0);
  for (std::size_t j = 0; j < weights.size(); ++j) {
    to[j] = static_cast<float>(weights[j] * factor);
  }
}

class ReferenceRouteTokens final : public AnyReference<RouteTokens> {
 public:
  void run(const RouteTokens::Spec& spec, const RouteTokens::Args& args, ExecutionContext& context) const override {
    check_arguments(spec, args);
    for_each_range(context, args.tokens, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        const float* logits = args.logits + t * spec.logits();
        route(spec, {logits, logits + spec.logits()}, args.bias, args.ids + t * spec.taken(),
              args.weights + t * spec.taken());
      }
    });
  }
};

class ReferenceRouteRows final : public AnyReference<RouteRows> {
 public:
  [[nodiscard]] std::int64_t most_tokens() const override { return std::numeric_limits<std::int64_t>::max(); }
  void run(const RouteRows::Spec& spec, const RouteRows::Args& args, ExecutionContext&) const override {
    check_arguments(spec, args, *this);
    for (std::int64_t t = 0; t < args.tokens; ++t) {
      const float* x = args.x + t * spec.hidden;
      float* normed = args.normed + t * spec.hidden;
      double squares = 0.0;
      for (std::int64_t i = 0; i < spec.hidden; ++i) {
        squares += double{x[i]} * double{x[i]};
      }
      const double factor = 1.0 / std::sqrt(squares / static_cast<double>(spec.hidden) + double{spec.eps});
      const auto experts = static_cast<std::size_t>(spec.route.experts);
      std::vector<double> logits(static_cast<std::size_t>(spec.route.logits()));
      for (std::size_t e = 0; e < experts; ++e) {
        logits[e] = args.router_bias != nullptr ? double{args.router_bias[e]} : 0.0;
      }
      for (std::int64_t i = 0; i < spec.hidden; ++i) {
        const double value = double{x[i]} * factor * double{args.norm[i]};
        normed[i] = static_cast<float>(value);
        for (std::size_t e = 0; e < logits.size(); ++e) {
          const float* row = e < experts ? args.router + static_cast<std::int64_t>(e) * spec.hidden
                                         : args.shared_gates + static_cast<std::int64_t>(e - experts) * spec.hidden;
          logits[e] += value * double{row[i]};
        }
      }
      route(spec.route, std::move(logits), args.bias, args.ids + t * spec.route.taken(),
            args.weights + t * spec.route.taken());
    }
  }
};

/// Expands each row of each expert to float and takes its product with the input of every slot that chose the expert.
class ReferenceExpertMatmul final : public AnyReference<ExpertMatmul> {
 public:
  void run(const ExpertMatmul::Args& args, ExecutionContext& context) const override {
    check_arguments(args);
    std::vector<std::vector<std::int64_t>> slots(static_cast<std::size_t>(args.experts));
    for (std::int64_t slot = 0; slot < args.tokens * args.used; ++slot) {
      slots[static_cast<std::size_t>(args.ids[slot])].push_back(slot);
    }
    const std::int64_t n = args.weights[0].n;
    for_each_range(context, n, 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::vector<double> first = products(args, args.weights[0], slots, row);
        if (args.alone) {
          for (std::size_t slot = 0; slot < first.size(); ++slot) {
            args.out[static_cast<std::int64_t>(slot) * n + row] = static_cast<float>(activate(args.activation, first[slot]));
          }
          continue;
        }
        if (!args.down()) {
          const std::vector<double> up = products(args, args.weights[1], slots, row);
          for (std::size_t slot = 0; slot < first.size(); ++slot) {
            args.out[static_cast<std::int64_t>(slot) * n + row] =
                static_cast<float>(activate(args.activation, first[slot], up[slot]));
          }
          continue;
        }
        for (std::int64_t t = 0; t < args.tokens; ++t) {
          double sum = double{args.out[t * n + row]};
          for (std::int64_t slot = t * args.used; slot < (t + 1) * args.used; ++slot) {
            sum += double{args.shares[slot]} * first[static_cast<std::size_t>(slot)];
          }
          args.out[t * n + row] = static_cast<float>(sum);
        }
      }
    });
  }

 private:
  /// Products of row `row` with the input of every slot, with the scale and the bias of its expert.
  static std::vector<double> products(const ExpertMatmul::Args& args, const ExpertWeight& weight,
                                      const std::vector<std::vector<std::int64_t>>& slots, std::int64_t row) {
    std::vector<double> sums(static_cast<std::size_t>(args.tokens * args.used));
    std::vector<float> values(static_cast<std::size_t>(args.k));
    const auto* at =
        static_cast<const std::byte*>(weight.data) + row * static_cast<std::int64_t>(row_bytes(weight.dtype, args.k));
    for (std::size_t e = 0; e < slots.size(); ++e) {
      const std::vector<std::int64_t>& own = slots[e];
      const double scale = weight.scale != nullptr ? double{weight.scale[e]} : 1.0;
      const double bias =
          weight.bias != nullptr ? double{weight.bias[static_cast<std::int64_t>(e) * weight.bias_stride + row]} : 0.0;
      if (!own.empty()) {
        dequantize_row(weight.dtype, at, values.data(), args.k);
      }
      for (const std::int64_t slot : own) {
        const float* x = args.x + (args.down() ? slot : slot / args.used) * args.k;
        double sum = 0.0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          sum += double{x[i]} * double{values[i]};
        }
        sums[static_cast<std::size_t>(slot)] = scale * sum + bias;
      }
      at += weight.expert_bytes;
    }
    return sums;
  }
};

}  // namespace

std::unique_ptr<OpKernel<RouteTokens>> make_reference_route_tokens() { return std::make_unique<ReferenceRouteTokens>(); }
std::unique_ptr<RouteRowsKernel> make_reference_route_rows() { return std::make_unique<ReferenceRouteRows>(); }

std::unique_ptr<ExpertMatmulKernel> make_reference_expert_matmul() { return std::make_unique<ReferenceExpertMatmul>(); }

}  // namespace rocmforge
