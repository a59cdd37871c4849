// Expected values come from the definitions, written out here in double: the reference is tested along with the kernels of
// the device.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "conformance/harness.h"
#include "kernels/check/arguments/arguments.h"
#include "kernels/rows/reference/activation.h"
#include "tensor/quant/dequantize.h"

namespace rocmforge::test::experts_test {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// A call with gate and up, with up alone, or with down.
struct Problem {
  DType format = DType::f32;
  std::int64_t experts = 0;
  std::int64_t used = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t tokens = 0;
  bool gated = false;      ///< not down
  bool alone = false;      ///< up without a gate
  std::int64_t only = -1;  ///< the first expert of every token; -1: whichever
  Activation activation = Activation::silu;
  bool finished = false;   ///< products have biases and scales
  float factor = 1.0f;     ///< of the scales
  std::int64_t first = 0;  ///< the first token of this call within the values that all calls share
  bool again = false;      ///< the second of two calls that share the order of their slots

  [[nodiscard]] ExpertMatmul::Spec spec() const { return {format, experts, n, k, used, alone}; }
  [[nodiscard]] std::int64_t slots() const { return tokens * used; }
  [[nodiscard]] std::int64_t outputs() const { return gated ? slots() : tokens; }

  /// The call's part of values that each token draws `width` of.
  template <class T, class Draw>
  [[nodiscard]] std::vector<T> drawn(std::uint64_t seed, std::int64_t width, const Draw& draw) const {
    std::vector<T> all;
    for (std::int64_t t = first; t < first + tokens; ++t) {
      Random random(seed + 100 * at(t));
      const std::vector<T> own = draw(random, width);
      all.insert(all.end(), own.begin(), own.begin() + width);
    }
    return all;
  }
  [[nodiscard]] std::vector<std::int32_t> ids() const {
    return drawn<std::int32_t>(11, used, [&](Random& random, std::int64_t) {
      std::vector<std::int32_t> order = random.permutation(static_cast<std::int32_t>(experts));
      if (only >= 0) {
        std::swap(*std::ranges::find(order, static_cast<std::int32_t>(only)), order[0]);
      }
      return order;
    });
  }
  [[nodiscard]] std::vector<float> x() const {
    return drawn<float>(12, (gated ? 1 : used) * k,
                        [](Random& random, std::int64_t width) { return random.uniforms(width, -1.0f, 1.0f); });
  }
  [[nodiscard]] std::vector<float> shares() const {
    return drawn<float>(13, used, [](Random& random, std::int64_t width) { return random.uniforms(width, 0.1f, 1.0f); });
  }
  [[nodiscard]] std::vector<float> before() const {
    if (gated) {
      return poisoned(outputs() * n);
    }
    return drawn<float>(14, n, [](Random& random, std::int64_t width) { return random.normals(width); });
  }
  /// Rows [experts, n, k] of weight `i`.
  [[nodiscard]] std::vector<std::byte> rows(std::size_t i) const {
    Random random(15 + i);
    return random_rows(format, experts * n, k, random);
  }
  /// Elements between the biases of two experts in weight `i`: more than an expert has.
  [[nodiscard]] std::int64_t bias_stride() const { return n + 3; }
  [[nodiscard]] std::vector<float> biases(std::size_t i) const {
    Random random(25 + i);
    return random.normals(experts * bias_stride(), 5.0f);
  }
  [[nodiscard]] std::vector<float> scales(std::size_t i) const {
    Random random(35 + i);
    return random.uniforms(experts, 0.3f * factor, 1.5f * factor);
  }
};

/// [slots, n]
std::vector<double> products_of(const Problem& problem, std::size_t i) {
  const std::vector<std::byte> rows = problem.rows(i);
  const std::vector<std::int32_t> ids = problem.ids();
  const std::vector<float> x = problem.x();
  const std::size_t bytes = row_bytes(problem.format, problem.k);
  const std::vector<float> biases = problem.biases(i);
  const std::vector<float> scales = problem.scales(i);
  std::vector<float> weight(at(problem.k));
  std::vector<double> out(at(problem.slots() * problem.n));
  for (std::int64_t row = 0; row < problem.experts * problem.n; ++row) {
    dequantize_row(problem.format, rows.data() + at(row) * bytes, weight.data(), problem.k);
    for (std::int64_t slot = 0; slot < problem.slots(); ++slot) {
      if (ids[at(slot)] != row / problem.n) {
        continue;
      }
      const float* from = x.data() + (problem.gated ? slot / problem.used : slot) * problem.k;
      double sum = 0.0;
      for (std::size_t j = 0; j < weight.size(); ++j) {
        sum += double{from[j]} * double{weight[j]};
      }
      if (const std::int64_t e = row / problem.n; problem.finished) {
        sum = sum * double{scales[at(e)]} + double{biases[at(e * problem.bias_stride() + row % problem.n)]};
      }
      out[at(slot * problem.n + row % problem.n)] = sum;
    }
  }
  return out;
}

float deviation_of_products(const Problem& problem) {
  double squares = 0.0;
  const std::vector<double> products = products_of(problem, 0);
  for (const double product : products) {
    squares += product * product;
  }
  return static_cast<float>(std::sqrt(squares / static_cast<double>(products.size())));
}

double activated(Activation activation, double gate, double up) {
  if (activation != Activation::clamped_swiglu) {
    return activate(activation, gate) * up;
  }
  gate = gate > 7.0 ? 7.0 : gate;
  up = up > 7.0 ? 7.0 : up < -7.0 ? -7.0 : up;
  return gate * (1.0 / (1.0 + std::exp(-1.702f * gate))) * (up + 1.0);
}

std::vector<float> expected_of(const Problem& problem) {
  const std::vector<double> first = products_of(problem, 0);
  std::vector<float> out = problem.before();
  if (problem.alone) {
    for (std::size_t i = 0; i < first.size(); ++i) {
      out[i] = static_cast<float>(activate(problem.activation, first[i]));
    }
    return out;
  }
  if (problem.gated) {
    const std::vector<double> up = products_of(problem, 1);
    for (std::size_t i = 0; i < first.size(); ++i) {
      out[i] = static_cast<float>(activated(problem.activation, first[i], up[i]));
    }
    return out;
  }
  const std::vector<float> shares = problem.shares();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto t = static_cast<std::int64_t>(i) / problem.n;
    double sum = double{out[i]};
    for (std::int64_t slot = t * problem.used; slot < (t + 1) * problem.used; ++slot) {
      sum += double{shares[at(slot)]} * first[at(slot * problem.n + static_cast<std::int64_t>(i) % problem.n)];
    }
    out[i] = static_cast<float>(sum);
  }
  return out;
}

/// The weights of a call, packed for the kernel.
std::vector<ExpertWeight> weights_in(Arena& arena, const ExpertMatmulKernel& kernel, const Problem& problem) {
  const ExpertMatmul::Spec spec = problem.spec();
  std::vector<ExpertWeight> weights;
  for (std::size_t i = 0; i < (problem.gated && !problem.alone ? 2 : 1); ++i) {
    std::vector<std::byte> rows = problem.rows(i);
    std::size_t bytes = rows.size() / at(problem.experts);
    if (const std::size_t packed_bytes = kernel.packed_bytes(spec); packed_bytes > 0) {
      PoisonedBytes packed(packed_bytes * at(problem.experts));
      for (std::int64_t e = 0; e < problem.experts; ++e) {
        kernel.pack(spec, rows.data() + at(e) * bytes, packed.data() + at(e) * packed_bytes, harness().host.context);
      }
      EXPECT_TRUE(packed.intact());
      rows.assign(packed.bytes().begin(), packed.bytes().end());
      bytes = packed_bytes;
    }
    weights.push_back({problem.format, arena.in(rows), problem.n, static_cast<std::int64_t>(bytes)});
    if (problem.finished) {
      weights.back().bias = arena.in(problem.biases(i));
      weights.back().bias_stride = problem.bias_stride();
      weights.back().scale = arena.in(problem.scales(i));
    }
  }
  return weights;
}

ExpertMatmul::Args arguments_in(Arena& arena, const ExpertMatmulKernel& kernel, const Problem& problem,
                                std::span<const ExpertWeight> weights) {
  ExpertMatmul::Args args{.x = arena.in(problem.x()),
                          .tokens = problem.tokens,
                          .k = problem.k,
                          .used = problem.used,
                          .experts = problem.experts,
                          .ids = arena.in(problem.ids()),
                          .weights = weights};
  args.shares = problem.gated ? nullptr : arena.in(problem.shares());
  args.out = arena.in_out(problem.before());
  args.activation = problem.activation;
  args.alone = problem.alone;
  args.workspace = arena.workspace(kernel.workspace_bytes(problem.spec(), problem.tokens));
  return args;
}

std::vector<float> run_experts(const ExpertMatmulKernel& kernel, const Problem& problem) {
  Arena arena(harness().place_of(kernel));
  const std::vector<ExpertWeight> weights = weights_in(arena, kernel, problem);
  ExpertMatmul::Args args = arguments_in(arena, kernel, problem, weights);
  args.order = arena.workspace(kernel.order_bytes(problem.spec(), problem.tokens));
  const auto run = [&] { arena.run([&](ExecutionContext& context) { kernel.run(args, context); }); };
  if (problem.again) {
    run();
    args.before = {problem.k, problem.format, false};
    args.out = arena.in_out(problem.before());
  }
  run();
  return arena.read(args.out, problem.outputs() * problem.n);
}

void expect_products(Problem problem) {
  const Activation activation = problem.activation;
  struct Form {
    bool gated;
    bool alone;
    Activation activation;
    std::string_view what;
  };
  for (const Form& form : {Form{true, false, activation, " gate and up, "},
                           {true, true, Activation::relu_squared, " up alone, "},
                           {true, true, Activation::none, " the product of up, "},
                           {false, false, activation, " down, "}}) {
    const bool gated = form.gated;
    problem.gated = gated;
    problem.alone = form.alone;
    problem.activation = form.activation;
    const std::vector<float> expected = expected_of(problem);
    const std::string_view what = form.what;
    const auto expect = [&](const ExpertMatmulKernel& kernel) {
      // The error of few outputs may exceed the average that tolerance() is for, and an activation's product has two errors.
      EXPECT_LE(relative_error(run_experts(kernel, problem), expected), (gated ? 4 : 2) * tolerance(problem.format))
          << kernel.name() << what << problem.tokens << " tokens, only " << problem.only;
    };
    harness().for_each_kernel<ExpertMatmul>(problem.spec(), expect);
    if (!harness().is_gpu()) {
      expect(harness().reference<ExpertMatmul>(problem.spec()));
    }
  }
}

/// A call may reuse the order of slots from the call before it, and must give the same bits.
void expect_same_bits_again(Problem problem) {
  harness().for_each_kernel<ExpertMatmul>(problem.spec(), [&](const ExpertMatmulKernel& kernel) {
    problem.again = false;
    const std::vector<float> once = run_experts(kernel, problem);
    problem.again = true;
    EXPECT_TRUE(same_bits(run_experts(kernel, problem), once)) << kernel.name() << ", " << problem.tokens << " tokens";
  });
}
TEST(ExpertMatmulOrder, ThatOfTheCallBeforeServes) {
  for (const std::int64_t tokens : {3, 7, 20, 70}) {
    for (const bool gated : {true, false}) {
      expect_same_bits_again(
          {.format = DType::q4_k, .experts = 6, .used = 3, .n = 72, .k = 512, .tokens = tokens, .gated = gated});
    }
  }
}
/// Sorting so many slots takes longer than the product's launch, which must not read the order before it is complete.
TEST(ExpertMatmulOrder, ProductsWaitForIt) {
  for (const bool gated : {true, false}) {
    expect_same_bits_again(
        {.format = DType::q8_0, .experts = 128, .used = 8, .n = 40, .k = 256, .tokens = 120, .gated = gated});
  }
}

/// Down may use data that the call of gate and up has stored in its workspace.
TEST(ExpertMatmulOrder, DownAfterGateAndUpIsDownAlone) {
  const std::array<std::pair<DType, DType>, 5> formats = {{{DType::q4_k, DType::q6_k},
                                                           {DType::mxfp4, DType::mxfp4},
                                                           {DType::mxfp4, DType::q8_0},
                                                           {DType::q5_0, DType::mxfp4},
                                                           {DType::f32, DType::f32}}};
  for (const auto& [up_format, down_format] : formats) {
    for (const std::int64_t tokens : {3, 7, 20, 70}) {
      Problem up{.format = up_format,
                 .experts = 6,
                 .used = 3,
                 .n = up_format == DType::q4_k ? 512 : 352,
                 .k = 512,
                 .tokens = tokens,
                 .gated = true};
      Problem down{.format = down_format, .experts = 6, .used = 3, .n = 72, .k = up.n, .tokens = tokens};
      harness().for_each_kernel<ExpertMatmul>(up.spec(), [&](const ExpertMatmulKernel& kernel) {
        if (!kernel.supports(down.spec(), harness().device).ok) {
          return;
        }
        Arena arena(harness().place_of(kernel));
        const std::vector<ExpertWeight> up_weights = weights_in(arena, kernel, up);
        const std::vector<ExpertWeight> down_weights = weights_in(arena, kernel, down);
        ExpertMatmul::Args first = arguments_in(arena, kernel, up, up_weights);
        ExpertMatmul::Args second = arguments_in(arena, kernel, down, down_weights);
        const std::size_t bytes = std::max(kernel.order_bytes(up.spec(), tokens), kernel.order_bytes(down.spec(), tokens));
        second.x = first.out;
        const auto run = [&](const ExpertMatmul::Args& args) {
          arena.run([&](ExecutionContext& context) { kernel.run(args, context); });
        };
        first.order = second.order = arena.workspace(bytes);
        run(first);
        second.before = {up.k, up.format, true};
        run(second);
        const std::vector<float> after = arena.read(second.out, down.outputs() * down.n);
        second.out = arena.in_out(down.before());
        second.order = arena.workspace(bytes);
        second.before = {};
        run(second);
        EXPECT_TRUE(same_bits(after, arena.read(second.out, down.outputs() * down.n)))
            << kernel.name() << ", " << name(up.format) << " and " << name(down.format) << ", " << tokens << " tokens";
      });
    }
  }
}

class ExpertMatmulTiny : public testing::TestWithParam<DType> {};

TEST_P(ExpertMatmulTiny, FewTokens) {
  expect_products({.format = GetParam(), .experts = 4, .used = 2, .n = 40, .k = 256, .tokens = 1});
  expect_products({.format = GetParam(), .experts = 3, .used = 2, .n = 24, .k = 512, .tokens = 3});
}

TEST_P(ExpertMatmulTiny, ManyTokens) {
  expect_products({.format = GetParam(), .experts = 5, .used = 2, .n = 40, .k = 256, .tokens = 11});
}

/// gpt-oss: biases, and limits of gate and up. Some products exceed the limits and some do not.
TEST_P(ExpertMatmulTiny, BiasesScalesAndLimits) {
  for (const std::int64_t tokens : {2, 11}) {
    Problem problem{.format = GetParam(),
                    .experts = 4,
                    .used = 2,
                    .n = 40,
                    .k = 256,
                    .tokens = tokens,
                    .activation = Activation::clamped_swiglu};
    problem.factor = 4.0f / deviation_of_products(problem);
    problem.finished = true;
    Problem up = problem;
    up.gated = true;
    const std::vector<double> products = products_of(up, 1);
    const auto inside = std::ranges::count_if(products, [](double product) { return std::abs(product) < 7.0; });
    EXPECT_TRUE(inside > 0 && inside < std::ssize(products)) << inside << " of " << products.size();
    expect_products(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertMatmulTiny, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

class ExpertMatmulRows : public testing::TestWithParam<DType> {};

/// One expert has a row of every token, others may have none; tiles of rows are full and not.
TEST_P(ExpertMatmulRows, OfOneExpertOrOfAll) {
  for (const std::int64_t tokens : {1, 2, 33, 70}) {
    expect_products({.format = GetParam(), .experts = 9, .used = 4, .n = 136, .k = 256, .tokens = tokens});
    expect_products({.format = GetParam(), .experts = 6, .used = 1, .n = 48, .k = 256, .tokens = tokens, .only = 4});
    expect_products({.format = GetParam(),
                     .experts = 3,
                     .used = 3,
                     .n = 130,
                     .k = 256,
                     .tokens = tokens,
                     .only = 1,
                     .activation = Activation::gelu_tanh});
    Problem limited{.format = GetParam(),
                    .experts = 5,
                    .used = 2,
                    .n = 100,
                    .k = 256,
                    .tokens = tokens,
                    .activation = Activation::clamped_swiglu};
    limited.factor = 4.0f / deviation_of_products(limited);
    limited.finished = true;
    expect_products(limited);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertMatmulRows, testing::Values(DType::f32, DType::q8_0, DType::q4_k),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(ExpertMatmulOddK, PlainRowsMayHaveAnyLength) {
  for (const DType format : {DType::f32, DType::f16, DType::bf16}) {
    expect_products({.format = format, .experts = 4, .used = 2, .n = 19, .k = 77, .tokens = 1});
    expect_products({.format = format, .experts = 4, .used = 2, .n = 19, .k = 77, .tokens = 20});
  }
}

TEST(ExpertMatmulInvariance, ATokenGivesTheSameBitsInAnyCompany) {
  ROCMFORGE_CPU_ONLY("GPU kernels have one way for few tokens and one for many");
  for (const DType format : {DType::f32, DType::f16, DType::q4_0, DType::q6_k}) {
    for (const auto& [gated, alone] : {std::pair{true, false}, {true, true}, {false, false}}) {
      Problem whole{
          .format = format, .experts = 6, .used = 3, .n = 100, .k = 256, .tokens = 80, .gated = gated, .finished = true};
      whole.alone = alone;
      whole.activation = alone ? Activation::relu_squared : Activation::silu;
      harness().for_each_kernel<ExpertMatmul>(whole.spec(), [&](const ExpertMatmulKernel& kernel) {
        const std::vector<float> all = run_experts(kernel, whole);
        const std::size_t row = all.size() / at(whole.tokens);
        for (const auto& [first, count] : {std::pair{0, 1}, {7, 1}, {79, 1}, {3, 2}, {8, 70}}) {
          Problem part = whole;
          part.first = first;
          part.tokens = count;
          EXPECT_TRUE(same_bits(run_experts(kernel, part), std::span(all).subspan(at(first) * row, at(count) * row)))
              << count << " tokens from " << first;
        }
      });
    }
  }
}

/// Rows of all slots of a token that are more than a work-group of any GPU holds at once.
TEST(ExpertMatmulConformance, LongRowsOfManySlots) {
  for (const DType format : {DType::q8_0, DType::q4_k}) {
    for (const bool gated : {true, false}) {
      expect_products({.format = format, .experts = 9, .used = 8, .n = 24, .k = 24576, .tokens = 1, .gated = gated});
    }
    expect_products({.format = format, .experts = 9, .used = 8, .n = 24, .k = 24576, .tokens = 5});
  }
}

/// For checking drafts: up to 8 tokens at once must have the same bits as the tokens one by one.
TEST(ExpertMatmulInvariance, TinyUpToEightTokensGiveTheSameBitsAsOne) {
  for (const DType format : {DType::f32, DType::q8_0, DType::mxfp4, DType::q4_k, DType::q6_k}) {
    for (const bool gated : {true, false}) {
      const Problem whole{
          .format = format, .experts = 6, .used = 3, .n = 70, .k = 1280, .tokens = 8, .gated = gated, .finished = true};
      harness().for_each_kernel<ExpertMatmul>(whole.spec(), [&](const ExpertMatmulKernel& kernel) {
        const std::vector<float> all = run_experts(kernel, whole);
        const std::size_t row = all.size() / at(whole.tokens);
        for (const auto& [first, count] : {std::pair{0, 1}, {7, 1}, {3, 2}, {1, 3}, {2, 5}}) {
          Problem part = whole;
          part.first = first;
          part.tokens = count;
          EXPECT_TRUE(same_bits(run_experts(kernel, part), std::span(all).subspan(at(first) * row, at(count) * row)))
              << name(format) << ", " << count << " tokens from " << first;
        }
      });
    }
  }
}

std::string complaint(const auto& call) {
  try {
    call();
  } catch (const LogicError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(ExpertChecks, TinyArgumentsThatCannotBeAreNamed) {
  const std::vector<float> floats(64);
  std::vector<float> out(64);
  std::vector<std::int32_t> ids = {0, 1, 2, 1};
  std::vector<ExpertWeight> weights = {{DType::f32, floats.data(), 4, 64}};
  ExpertMatmul::Args args{
      .x = floats.data(), .tokens = 2, .k = 4, .used = 2, .experts = 3, .ids = ids.data(), .weights = weights};
  args.shares = floats.data();
  args.out = out.data();
  const auto check_it = [&] { check_arguments(args); };
  EXPECT_EQ(complaint(check_it), "no complaint");
  ids[2] = 3;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("id 3 of slot 2 is not one of 3 experts"));
  EXPECT_EQ(complaint([&] { check_arguments(args, DeviceKind::cuda); }), "no complaint");
  ids[2] = 0;
  args.shares = nullptr;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("shares is null"));
  args.alone = true;
  EXPECT_EQ(complaint(check_it), "no complaint");
  args.activation = Activation::clamped_swiglu;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("clamped_swiglu needs a gate"));
  args.activation = Activation::silu;
  args.alone = false;
  args.shares = floats.data();
  weights[0].bias = floats.data();
  weights[0].bias_stride = 3;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("bias_stride 3 is less than n 4"));
  weights[0].bias = nullptr;
  weights.push_back({DType::f32, floats.data(), 5, 80});
  args.weights = weights;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("a gate of n 4 for n 5"));
  args.activation = Activation::none;
  EXPECT_THAT(complaint(check_it), testing::HasSubstr("an activation of none has no gate"));
  EXPECT_EQ(check_spec(RouteTokens::Spec{.experts = 4, .used = 5}).reason, "5 of 4 experts are used");
  EXPECT_EQ(check_spec(RouteTokens::Spec{.experts = 4, .used = 1, .groups = 3}).reason, "4 experts are not 3 equal groups");
  EXPECT_EQ(check_spec(RouteTokens::Spec{.experts = 8, .used = 3, .groups = 4, .groups_used = 1}).reason,
            "1 of 4 groups of 2 experts can't give 3");
  EXPECT_EQ(check_spec(GatedActivation::Spec{Activation::clamped_swiglu, 8}).reason, "clamped_swiglu is for experts");
  EXPECT_EQ(check_spec(GatedActivation::Spec{Activation::none, 8}).reason, "an activation of none is for experts");
  EXPECT_EQ(check_spec(ExpertMatmul::Spec{DType::q4_k, 4, 8, 300, 2}).reason,
            "rows of 300 elements are not a multiple of the 256 of a Q4_K block");
}

}  // namespace
}  // namespace rocmforge::test::experts_test
