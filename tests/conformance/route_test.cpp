// The choice of experts. Expected values come from the definitions, written out here in double: the reference is tested
// along with the kernels of the device.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "conformance/harness.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge::test {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct Routes {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

std::vector<double> softmax(std::vector<double> values) {
  double sum = 0.0;
  for (double& value : values) {
    sum += value = std::exp(value);
  }
  std::ranges::transform(values, values.begin(), [sum](double value) { return value / sum; });
  return values;
}

/// Indices of `values`, largest first, the lower first of equal ones.
std::vector<std::size_t> ranked(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
}

/// The experts of the groups that remain.
std::set<std::size_t> in_groups(const RouteTokens::Spec& spec, const std::vector<double>& choice) {
  const std::size_t size = choice.size() / at(spec.groups);
  std::vector<double> sums;
  for (std::size_t first = 0; first < choice.size(); first += size) {
    std::vector<double> own(choice.begin() + std::ptrdiff_t(first), choice.begin() + std::ptrdiff_t(first + size));
    std::ranges::sort(own, std::greater());
    sums.push_back(size > 1 && spec.group_best == 2 ? own[0] + own[1] : own[0]);
  }
  std::set<std::size_t> experts;
  const std::vector<std::size_t> order = ranked(sums);
  for (std::int32_t i = 0; i < spec.groups_used; ++i) {
    for (std::size_t e = 0; e < size; ++e) {
      experts.insert(order[at(i)] * size + e);
    }
  }
  return experts;
}

Routes expected_routes(const RouteTokens::Spec& spec, const std::vector<float>& logits, const std::vector<float>& bias) {
  Routes routes;
  for (auto row = logits.begin(); row != logits.end(); row += spec.logits()) {
    const std::vector<double> x(row, row + spec.experts);
    std::vector<double> scores = spec.score == RouteScore::softmax ? softmax(x) : x;
    if (spec.score == RouteScore::sigmoid) {
      std::ranges::transform(x, scores.begin(), [](double value) { return 1.0 / (1.0 + std::exp(-value)); });
    }
    std::vector<double> choice = scores;
    for (std::size_t e = 0; spec.bias && e < choice.size(); ++e) {
      choice[e] += double{bias[e]};
    }
    const std::set<std::size_t> allowed = in_groups(spec, choice);
    std::vector<double> chosen;
    for (const std::size_t e : ranked(choice)) {
      if (allowed.contains(e) && chosen.size() < at(spec.used)) {
        routes.ids.push_back(static_cast<std::int32_t>(e));
        chosen.push_back(scores[e]);
      }
    }
    if (spec.score == RouteScore::chosen_softmax) {
      chosen = softmax(chosen);
    } else if (spec.score == RouteScore::chosen_sigmoid) {
      std::ranges::transform(chosen, chosen.begin(), [](double value) { return 1.0 / (1.0 + std::exp(-value)); });
    }
    const double sum = spec.normalise ? std::accumulate(chosen.begin(), chosen.end(), 0.0) : 1.0;
    for (const double weight : chosen) {
      routes.weights.push_back(static_cast<float>(weight / sum * double{spec.scale}));
    }
    for (std::int32_t i = 0; i < spec.shared; ++i) {
      const double gate = spec.shared_gates ? 1.0 / (1.0 + std::exp(-double{row[spec.experts + i]})) : 1.0;
      routes.ids.push_back(spec.experts + i);
      routes.weights.push_back(static_cast<float>(gate * double{spec.shared_scale}));
    }
  }
  return routes;
}

Routes run_route(const OpKernel<RouteTokens>& kernel, const RouteTokens::Spec& spec, const std::vector<float>& logits,
                 const std::vector<float>& bias) {
  Arena arena(harness().place_of(kernel));
  const auto tokens = static_cast<std::int64_t>(logits.size()) / spec.logits();
  RouteTokens::Args args{.logits = arena.in(logits), .tokens = tokens, .bias = spec.bias ? arena.in(bias) : nullptr};
  const std::int64_t taken = tokens * spec.taken();
  args.ids = arena.out<std::int32_t>(taken);
  args.weights = arena.out<float>(taken);
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return {arena.read(args.ids, taken), arena.read(args.weights, taken)};
}

void expect_routes(const RouteTokens::Spec& spec, std::int64_t tokens) {
  Random random(at(tokens * 31 + spec.experts));
  const std::vector<float> logits = random.normals(tokens * spec.logits(), 2.0f);
  const std::vector<float> bias = random.normals(spec.experts, 0.2f);
  const Routes expected = expected_routes(spec, logits, bias);
  harness().for_each_kernel_or_reference<RouteTokens>(spec, [&](const OpKernel<RouteTokens>& kernel) {
    const Routes actual = run_route(kernel, spec, logits, bias);
    EXPECT_EQ(actual.ids, expected.ids) << tokens << " tokens";
    EXPECT_LE(relative_error(actual.weights, expected.weights), 1e-5) << tokens << " tokens";
  });
}

TEST(RouteTokens, TinyEveryScoreWithAndWithoutTheRest) {
  for (const RouteScore score :
       {RouteScore::softmax, RouteScore::sigmoid, RouteScore::chosen_softmax, RouteScore::chosen_sigmoid}) {
    const std::vector<RouteTokens::Spec> specs = {
        {.experts = 8, .used = 2, .score = score},
        {.experts = 60, .used = 4, .score = score, .bias = true, .normalise = true},
        {.experts = 64, .used = 8, .score = score, .bias = true, .scale = 2.5f, .groups = 8, .groups_used = 3},
        {.experts = 64, .used = 6, .score = score, .scale = 16.0f, .groups = 8, .groups_used = 3, .group_best = 1},
        {.experts = 130, .used = 6, .score = score, .normalise = true, .scale = 0.5f},
        {.experts = 3, .used = 3, .score = score},
        {.experts = 1, .used = 1, .score = score},
        {.experts = 20, .used = 4, .score = score, .normalise = true, .scale = 2.0f, .shared = 1, .shared_scale = 0.5f},
        {.experts = 64,
         .used = 6,
         .score = score,
         .bias = true,
         .groups = 8,
         .groups_used = 3,
         .shared = 2,
         .shared_gates = true},
    };
    for (const RouteTokens::Spec& spec : specs) {
      for (const std::int64_t tokens : {1, 5}) {
        expect_routes(spec, tokens);
      }
    }
  }
}

/// Also checks that each token alone gives the same bits. The router's rows repeat with `period` experts.
void expect_rows(const RouteRows::Spec& spec, std::int64_t tokens, bool router_bias,
                 std::int64_t period = std::numeric_limits<std::int64_t>::max()) {
  Random random(at(tokens * 31 + spec.route.experts + spec.hidden));
  const std::int64_t experts = spec.route.experts;
  const std::int64_t rows = spec.route.logits();
  const std::vector<float> x = random.normals(tokens * spec.hidden, 3.0f);
  const std::vector<float> norm = random.normals(spec.hidden, 1.0f);
  std::vector<float> router = random.normals(rows * spec.hidden, 2.0f / std::sqrt(float(spec.hidden)));
  for (std::int64_t i = period; i < experts; ++i) {
    std::copy_n(router.begin() + (i - period) * spec.hidden, spec.hidden, router.begin() + i * spec.hidden);
  }
  const std::vector<float> product_bias = random.normals(experts, router_bias ? 0.5f : 0.0f);
  const std::vector<float> bias = random.normals(experts, 0.2f);
  std::vector<float> normed;
  std::vector<float> logits;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* row = x.data() + t * spec.hidden;
    double squares = 0.0;
    for (std::int64_t i = 0; i < spec.hidden; ++i) {
      squares += double{row[i]} * double{row[i]};
    }
    const double root = std::sqrt(squares / double(spec.hidden) + double{spec.eps});
    for (std::int64_t i = 0; i < spec.hidden; ++i) {
      normed.push_back(static_cast<float>(double{row[i]} / root * double{norm[at(i)]}));
    }
    for (std::int64_t e = 0; e < rows; ++e) {
      double sum = e < experts ? double{product_bias[at(e)]} : 0.0;
      for (std::int64_t i = 0; i < spec.hidden; ++i) {
        sum += double{router[at(e * spec.hidden + i)]} * double{row[i]} / root * double{norm[at(i)]};
      }
      logits.push_back(static_cast<float>(sum));
    }
  }
  const Routes expected = expected_routes(spec.route, logits, bias);
  harness().for_each_kernel_or_reference<RouteRows>(spec, [&](const RouteRowsKernel& kernel) {
    if (tokens > kernel.most_tokens()) {
      return;
    }
    Arena arena(harness().place_of(kernel));
    const auto gates = router.begin() + std::ptrdiff_t(experts * spec.hidden);
    RouteRows::Args args{
        .x = arena.in(x), .norm = arena.in(norm), .router = arena.in(std::vector(router.begin(), gates)), .tokens = tokens};
    args.shared_gates = rows > experts ? arena.in(std::vector(gates, router.end())) : nullptr;
    args.router_bias = router_bias ? arena.in(product_bias) : nullptr;
    args.bias = spec.route.bias ? arena.in(bias) : nullptr;
    args.normed = arena.out<float>(tokens * spec.hidden);
    const std::int64_t taken = tokens * spec.route.taken();
    args.ids = arena.out<std::int32_t>(taken);
    args.weights = arena.out<float>(taken);
    args.workspace = arena.workspace(kernel.workspace_bytes(spec, tokens));
    args.state = arena.state(kernel.state_bytes(spec));
    const std::int64_t numbers = tokens * spec.hidden;
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    const std::vector<float> first_normed = arena.read(args.normed, numbers);
    const std::vector<float> first_weights = arena.read(args.weights, taken);
    EXPECT_LE(relative_error(first_normed, normed), 1e-5) << tokens << " tokens";
    EXPECT_EQ(arena.read(args.ids, taken), expected.ids) << tokens << " tokens";
    EXPECT_LE(relative_error(first_weights, expected.weights), 1e-4) << tokens << " tokens";
    RouteRows::Args alone = args;
    alone.tokens = 1;
    alone.normed = arena.out<float>(numbers);
    alone.ids = arena.out<std::int32_t>(taken);
    alone.weights = arena.out<float>(taken);
    const RouteRows::Args second = alone;
    for (std::int64_t t = 0; t < tokens; ++t) {
      alone.x = args.x + t * spec.hidden;
      alone.normed = second.normed + t * spec.hidden;
      alone.ids = second.ids + t * spec.route.taken();
      alone.weights = second.weights + t * spec.route.taken();
      arena.run([&](ExecutionContext& context) { kernel.run(spec, alone, context); });
    }
    EXPECT_EQ(arena.read(second.normed, numbers), first_normed) << "one by one";
    EXPECT_EQ(arena.read(second.ids, taken), expected.ids) << "one by one";
    EXPECT_EQ(arena.read(second.weights, taken), first_weights) << "one by one";
  });
}

TEST(RouteRows, TinyTheNormTheProductAndTheChoice) {
  KernelRegistry& registry = harness().registry;
  const RouteRows::Spec any{.route = {.experts = 8, .used = 2}, .hidden = 64};
  if (registry.candidates<RouteRows>(any, harness().device).able.empty()) {
    GTEST_SKIP() << "the three are operations of their own on this device";
  }
  for (const std::int32_t hidden : {4, 100, 2048, 2880}) {
    for (const std::int64_t tokens : {1, 3, 8}) {
      expect_rows({.route = {.experts = 8, .used = 2}, .hidden = hidden}, tokens, false);
      expect_rows({.route = {.experts = 60, .used = 4, .bias = true, .normalise = true}, .hidden = hidden}, tokens, true);
    }
  }
  expect_rows({.route = {.experts = 1, .used = 1, .score = RouteScore::sigmoid}, .hidden = 512}, 2, false);
  expect_rows({.route = {.experts = 64, .used = 4, .shared = 1, .shared_scale = 0.5f}, .hidden = 2048}, 3, true);
  expect_rows({.route = {.experts = 256, .used = 8, .normalise = true, .shared = 1, .shared_gates = true}, .hidden = 2048},
              2, true);
  expect_rows({.route = {.experts = 5, .used = 2, .shared = 2, .shared_gates = true}, .hidden = 100}, 1, false);
  expect_rows({.route = {.experts = 128, .used = 8, .normalise = true}, .hidden = 2048, .eps = 1e-6f}, 64, false);
  expect_rows({.route = {.experts = 32, .used = 4, .score = RouteScore::chosen_softmax}, .hidden = 2880}, 2, true);
  expect_rows({.route = {.experts = 300, .used = 10}, .hidden = 7168}, 1, false);
  expect_rows({.route = {.experts = 100, .used = 12}, .hidden = 64}, 2, false, 7);
  expect_rows({.route = {.experts = 700, .used = 40, .score = RouteScore::chosen_softmax, .shared = 1}, .hidden = 16}, 2,
              false, 50);
  expect_rows(router_of_deepseek_v3(), 2, false);
}

/// For logits that are NaN or infinite.
TEST(RouteRows, TinyIdsAreDistinctAndValidWhateverXIs) {
  const RouteRows::Spec spec{.route = {.experts = 70, .used = 33, .shared = 1}, .hidden = 16};
  for (const auto& kernel : harness().registry.candidates<RouteRows>(spec, harness().device).able) {
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity(), 3e38f, 0.0f}) {
      Arena arena(harness().place_of(*kernel));
      const std::vector<float> x(16, value);
      RouteRows::Args args{.x = arena.in(x),
                           .norm = arena.in(std::vector<float>(16, 1.0f)),
                           .router = arena.in(std::vector<float>(70 * 16, 1.0f)),
                           .tokens = 1};
      args.normed = arena.out<float>(16);
      args.ids = arena.out<std::int32_t>(34);
      args.weights = arena.out<float>(34);
      args.workspace = arena.workspace(kernel->workspace_bytes(spec, 1));
      args.state = arena.state(kernel->state_bytes(spec));
      arena.run([&](ExecutionContext& context) { kernel->run(spec, args, context); });
      const std::vector<std::int32_t> ids = arena.read(args.ids, 34);
      for (std::int32_t i = 0; i < 33; ++i) {
        EXPECT_EQ(ids[at(i)], i) << kernel->name() << ", x = " << value;  // they are equal: the lower one is chosen
      }
      EXPECT_EQ(ids[33], 70) << kernel->name() << ", x = " << value;
    }
  }
}

TEST(RouteTokens, ManyTokens) {
  expect_routes({.experts = 128, .used = 8, .normalise = true}, 513);
  expect_routes({.experts = 512, .used = 10, .score = RouteScore::sigmoid, .bias = true, .groups = 8, .groups_used = 4},
                300);
}

TEST(RouteTokens, TinyOfEqualScoresTheLowerIndexIsChosen) {
  const RouteTokens::Spec spec{.experts = 8, .used = 3, .score = RouteScore::sigmoid, .groups = 4, .groups_used = 2};
  const std::vector<float> logits = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3};
  harness().for_each_kernel_or_reference<RouteTokens>(spec, [&](const OpKernel<RouteTokens>& kernel) {
    EXPECT_EQ(run_route(kernel, spec, logits, {}).ids, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 2, 6, 7, 0}));
  });
}

TEST(RouteTokens, TinyIdsAreDistinctAndValidWhateverTheLogitsAre) {
  const RouteTokens::Spec spec{.experts = 8, .used = 4, .score = RouteScore::softmax, .groups = 4, .groups_used = 3};
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {nan, nan, nan,  nan,  nan,  nan,  nan,  nan,  1,      2,     nan, nan, 3, 4, 5, 6,
                                     inf, inf, -inf, -inf, -inf, -inf, -inf, -inf, -3e38f, 3e38f, 0,   0,   0, 0, 0, 0};
  harness().for_each_kernel_or_reference<RouteTokens>(spec, [&](const OpKernel<RouteTokens>& kernel) {
    const std::vector<std::int32_t> ids = run_route(kernel, spec, logits, {}).ids;
    for (auto row = ids.begin(); row != ids.end(); row += spec.used) {
      const std::set<std::int32_t> distinct(row, row + spec.used);
      EXPECT_EQ(distinct.size(), at(spec.used));
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), spec.experts);
    }
  });
}

}  // namespace
}  // namespace rocmforge::test
