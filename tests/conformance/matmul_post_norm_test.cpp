// Products that fuse the norm after an earlier product and its sum with the residual stream (MatmulPostNorm), compared with
// the separate operations in double: the sums that they write, and their outputs.

#include <algorithm>
#include <array>

#include "conformance/harness.h"
#include "conformance/matmul_products.h"
#include "kernels/rows/reference/activation.h"

namespace rocmforge::test::matmul_post_norm_test {
namespace {

constexpr float norm_eps = 1e-5f;
constexpr double allowed_of_sums = 2e-6;  // sums are float for every weight format

struct Call {
  std::vector<DType> formats;  ///< of the outputs
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
  std::int64_t tokens = 0;
  bool norm = true;  ///< of the sums, before they are multiplied
  bool gated = false;
  bool bias = false;
  std::int64_t extra = 0;  ///< columns between rows
  float eps = 1e-6f;
  float factor = 1.0f;
  float scale = 1.0f;
  float amplitude = 1.0f;  ///< of y

  [[nodiscard]] std::size_t written() const { return gated ? 1 : n.size(); }
  [[nodiscard]] std::int64_t stride() const { return k + extra; }
  [[nodiscard]] std::vector<float> x() const { return Random(11).uniforms(tokens * stride(), -1.0f, 1.0f); }
  [[nodiscard]] std::vector<float> y() const { return Random(13).uniforms(tokens * stride(), -amplitude, amplitude); }
  [[nodiscard]] std::vector<float> post_weight() const { return Random(17).uniforms(k, 0.5f, 1.5f); }
  [[nodiscard]] std::vector<float> norm_weight() const { return Random(19).uniforms(k, 0.5f, 1.5f); }
  [[nodiscard]] std::vector<std::byte> rows(std::size_t i) const {
    Random random(31 + i);
    return random_rows(formats[i], n[i], k, random);
  }
  [[nodiscard]] std::vector<float> bias_of(std::size_t i) const { return Random(41 + i).normals(n[i]); }
};

/// All of it dense: the sums [tokens, k], and the written outputs one after another.
struct Result {
  std::vector<float> sums;
  std::vector<float> outputs;
};

double inverse_root_mean_square(std::span<const double> row, float eps) {
  double sum = 0.0;
  for (const double value : row) {
    sum += value * value;
  }
  return 1.0 / std::sqrt(sum / static_cast<double>(row.size()) + double{eps});
}

std::vector<double> sums_of(const Call& call) {
  const std::vector<float> x = call.x();
  const std::vector<float> y = call.y();
  const std::vector<float> weight = call.post_weight();
  std::vector<double> sums;
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    const auto first = y.begin() + t * call.stride();
    const std::vector<double> row(first, first + call.k);
    const double root = inverse_root_mean_square(row, call.eps);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double normed = row[i] * root * double{weight[i]};
      sums.push_back((double{x[static_cast<std::size_t>(t * call.stride()) + i]} + double{call.factor} * normed) *
                     double{call.scale});
    }
  }
  return sums;
}

std::vector<double> normed(const Call& call, std::vector<double> rows) {
  const std::vector<float> weight = call.norm_weight();
  const auto k = static_cast<std::size_t>(call.k);
  for (std::size_t first = 0; call.norm && first < rows.size(); first += k) {
    const double root = inverse_root_mean_square({rows.data() + first, k}, norm_eps);
    for (std::size_t i = 0; i < k; ++i) {
      rows[first + i] *= root * double{weight[i]};
    }
  }
  return rows;
}

Result expected_of(const Call& call) {
  const std::vector<double> sums = sums_of(call);
  const std::vector<double> x = normed(call, sums);
  Result result{{sums.begin(), sums.end()}, {}};
  for (std::size_t i = 0; i < call.written(); ++i) {
    std::vector<double> products = products_of(call, x, i);
    if (call.gated) {
      const std::vector<double> up = products_of(call, x, 1);
      for (std::size_t j = 0; j < up.size(); ++j) {
        products[j] = activate(Activation::gelu_tanh, products[j]) * up[j];
      }
    }
    result.outputs.insert(result.outputs.end(), products.begin(), products.end());
  }
  return result;
}

/// Rows of `width` without the columns between them, which must be as they were.
std::vector<float> dense_rows(Arena& arena, const float* from, const Call& call, std::int64_t width) {
  const std::int64_t stride = width + call.extra;
  const std::vector<float> all = arena.read(from, call.tokens * stride);
  const std::vector<float> between = poisoned(call.extra);
  std::vector<float> rows;
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    const auto row = all.begin() + t * stride;
    rows.insert(rows.end(), row, row + width);
    EXPECT_TRUE(same_bits({all.data() + t * stride + width, between.size()}, between)) << "wrote beyond a row";
  }
  return rows;
}

Result run_call(const MatmulKernel& kernel, const Call& call) {
  Arena arena(harness().place_of(kernel));
  std::vector<MatmulOutput> outputs;
  for (std::size_t i = 0; i < call.n.size(); ++i) {
    const Matmul::Spec spec{call.formats[i], call.n[i], call.k};
    std::vector<std::byte> rows = call.rows(i);
    if (PoisonedBytes packed(kernel.packed_bytes(spec)); !packed.bytes().empty()) {
      kernel.pack(spec, rows.data(), packed.data(), harness().host.context);
      rows.assign(packed.bytes().begin(), packed.bytes().end());
    }
    MatmulOutput output{spec.weight, arena.in(rows), spec.n};
    output.bias = call.bias ? arena.in(call.bias_of(i)) : nullptr;
    output.stride = call.n[i] + call.extra;
    output.out = i < call.written() ? arena.in_out(poisoned(call.tokens * output.stride)) : nullptr;
    outputs.push_back(output);
  }
  const MatmulPostNorm post{.y = arena.in(call.y()),
                            .y_stride = call.stride(),
                            .weight = arena.in(call.post_weight()),
                            .eps = call.eps,
                            .factor = call.factor,
                            .scale = call.scale,
                            .out = arena.in_out(poisoned(call.tokens * call.stride())),
                            .out_stride = call.stride()};
  Matmul::Args args{arena.in(call.x()), call.tokens, call.k, call.stride(), outputs};
  args.workspace = arena.workspace(kernel.workspace_bytes(call.tokens, call.k));
  args.post_norm = &post;
  args.norm_weight = call.norm ? arena.in(call.norm_weight()) : nullptr;
  args.norm_eps = norm_eps;
  args.gated = call.gated;
  args.activation = Activation::gelu_tanh;
  arena.run([&](ExecutionContext& context) { kernel.run(args, context); });

  Result result{dense_rows(arena, post.out, call, call.k), {}};
  for (std::size_t i = 0; i < call.written(); ++i) {
    const std::vector<float> rows = dense_rows(arena, outputs[i].out, call, call.n[i]);
    result.outputs.insert(result.outputs.end(), rows.begin(), rows.end());
  }
  return result;
}

/// Calls test(kernel) for every kernel of the device that fuses a post-norm and supports the format with rows of k.
template <class Test>
void for_each_kernel(DType format, std::int64_t k, const Test& test) {
  int count = 0;
  for (const auto& kernel : harness().registry.all<Matmul>()) {
    if (kernel->device() == harness().device.kind && kernel->fusions().post_norm_tokens > 0 &&
        kernel->supports({format, 64, k}, harness().device).ok) {
      SCOPED_TRACE(std::string(kernel->name()) + " " + std::string(name(format)) + " k " + std::to_string(k));
      test(*kernel);
      ++count;
    }
  }
  if (count == 0) {
    GTEST_SKIP() << "no kernel of this device takes a post-norm into its product of " << name(format);
  }
}

void expect_chain(const MatmulKernel& kernel, Call call) {
  double allowed = 0.0;
  for (const DType format : call.formats) {
    allowed = std::max(allowed, (call.gated ? 8 : 4) * tolerance(format));  // as the other fusions, of single calls
  }
  for (const std::int64_t tokens : {1, 2, 3, 4, 5, 8, 11}) {
    if (tokens <= kernel.fusions().post_norm_tokens) {
      call.tokens = tokens;
      const Result want = expected_of(call);
      const Result got = run_call(kernel, call);
      EXPECT_LE(relative_error(got.sums, want.sums), allowed_of_sums) << tokens << " tokens";
      EXPECT_LE(relative_error(got.outputs, want.outputs), allowed) << tokens << " tokens";
    }
  }
}

class MatmulFusionsPostNormTiny : public testing::TestWithParam<DType> {};

std::string format_name(const testing::TestParamInfo<DType>& test) { return std::string(name(test.param)); }

TEST_P(MatmulFusionsPostNormTiny, EqualsTheChainOfOperations) {
  const DType format = GetParam();
  for_each_kernel(format, 512, [&](const MatmulKernel& kernel) {
    expect_chain(kernel, {.formats = {format}, .n = {33}, .k = 512});
    expect_chain(kernel, {.formats = {format, format, format}, .n = {64, 17, 32}, .k = 256, .bias = true, .extra = 4});
    expect_chain(kernel, {.formats = {format}, .n = {40}, .k = 768, .norm = false, .extra = 3});
    expect_chain(kernel, {.formats = {format, format}, .n = {65, 65}, .k = 768, .gated = true, .bias = true, .extra = 1});
  });
}

/// A factor of the norm, a scale of the sum and an epsilon that all change the result.
TEST_P(MatmulFusionsPostNormTiny, TakesTheNumbersOfTheSum) {
  const DType format = GetParam();
  for_each_kernel(format, 512, [&](const MatmulKernel& kernel) {
    expect_chain(kernel, {.formats = {format}, .n = {33}, .k = 512, .eps = 0.5f, .factor = 0.22f, .scale = 1.75f});
    expect_chain(kernel, {.formats = {format}, .n = {33}, .k = 512, .norm = false, .scale = 0.125f, .amplitude = 3e4f});
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulFusionsPostNormTiny, testing::ValuesIn(computing_types()), format_name);

/// Widths of models, of which a thread has more than one part, and those that end within one.
TEST(MatmulFusionsPostNorm, LongAndUnevenRows) {
  using enum DType;
  for (const auto& [format, k] : std::vector<std::pair<DType, std::int64_t>>{{q4_k, 3840},
                                                                             {q4_k, 5376},
                                                                             {q6_k, 3840},
                                                                             {q6_k, 8448},
                                                                             {q8_0, 160},
                                                                             {q8_0, 4192},
                                                                             {f16, 136},
                                                                             {f16, 4104},
                                                                             {bf16, 2200}}) {
    for_each_kernel(format, k, [&, format = format, k = k](const MatmulKernel& kernel) {
      expect_chain(kernel, {.formats = {format}, .n = {48}, .k = k});
      expect_chain(kernel, {.formats = {format, format}, .n = {48, 48}, .k = k, .gated = true, .extra = 1});
    });
  }
}

TEST(MatmulFusionsPostNorm, GroupsOfSeveralFormats) {
  for (const bool gated : {false, true}) {
    for_each_kernel(DType::q4_k, 512, [&](const MatmulKernel& kernel) {
      expect_chain(kernel, {.formats = {DType::q4_k, DType::q6_k}, .n = {48, 48}, .k = 512, .gated = gated});
    });
  }
  for_each_kernel(DType::f16, 512, [&](const MatmulKernel& kernel) {
    expect_chain(kernel, {.formats = {DType::f16, DType::bf16}, .n = {48, 48}, .k = 512});
  });
}

/// Sums and outputs of a token have the same bits in calls with any number of tokens.
TEST(MatmulFusionsPostNorm, ATokensResultDoesNotDependOnTheBatch) {
  for (const DType format : {DType::q4_k, DType::q6_k, DType::q8_0, DType::f16, DType::bf16}) {
    for_each_kernel(format, 5376, [&](const MatmulKernel& kernel) {
      Call call{.formats = {format}, .n = {48}, .k = 5376};
      call.tokens = std::min<std::int64_t>({8, kernel.few_tokens(), kernel.fusions().post_norm_tokens});
      const Result all = run_call(kernel, call);
      for (; call.tokens > 0; --call.tokens) {  // inputs of the first tokens are the same
        const Result some = run_call(kernel, call);
        EXPECT_TRUE(same_bits(some.sums, std::span(all.sums).first(some.sums.size()))) << call.tokens << " tokens";
        EXPECT_TRUE(same_bits(some.outputs, std::span(all.outputs).first(some.outputs.size()))) << call.tokens << " tokens";
      }
    });
  }
}

TEST(MatmulFusionsPostNorm, TinyWhatCantBeDoneIsRefused) {
  const Matmul::Spec spec{DType::q8_0, 8, 64};
  for (const auto& kernel : harness().registry.all<Matmul>()) {
    if (kernel->device() != harness().device.kind || !kernel->supports(spec, harness().device).ok) {
      continue;
    }
    SCOPED_TRACE(std::string(kernel->name()));
    const std::int64_t limit = kernel->fusions().post_norm_tokens;
    EXPECT_TRUE(limit == 0 || limit >= kernel->few_tokens()) << "calls of few tokens would not round alike";
    Arena arena(harness().place_of(*kernel));
    auto* data = arena.out<float>(1024);
    const MatmulOutput output{spec.weight, data, 8, nullptr, data, 8, false};
    const MatmulPostNorm good{.y = data + 64, .y_stride = 64, .weight = data, .out = data + 128, .out_stride = 64};
    const auto refuses = [&](const MatmulPostNorm& post, std::int64_t tokens, std::string_view words) {
      const Matmul::Args args{
          .x = data, .tokens = tokens, .k = 64, .x_stride = 64, .outputs = {&output, 1}, .post_norm = &post};
      try {
        kernel->run(args, harness().place_of(*kernel).context);
        ADD_FAILURE() << "not refused: " << words;
      } catch (const LogicError& error) {
        EXPECT_NE(std::string_view(error.what()).find(words), std::string_view::npos) << error.what();
      }
    };
    if (limit < std::numeric_limits<std::int64_t>::max()) {
      refuses(good, limit + 1, "tokens with a post-norm");
    }
    if (limit > 0) {
      MatmulPostNorm post = good;
      post.y = nullptr;
      refuses(post, 1, "post_norm.y is null");
      post = good;
      post.weight = nullptr;
      refuses(post, 1, "post_norm.weight is null");
      post = good;
      post.out = nullptr;
      refuses(post, 1, "post_norm.out is null");
      post = good;
      post.out_stride = 63;
      refuses(post, 1, "post_norm strides 64 and 63 are less than k 64");
      post = good;
      post.out = data;
      refuses(post, 1, "post_norm.out is an input");
    }
  }
}

}  // namespace
}  // namespace rocmforge::test::matmul_post_norm_test
