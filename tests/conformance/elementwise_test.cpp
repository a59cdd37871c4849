#include <algorithm>
#include <cmath>

#include "conformance/harness.h"
#include "kernels/check/arguments/arguments.h"

namespace rocmforge::test {
namespace {

std::vector<float> run_rms_norm(const OpKernel<RmsNorm>& kernel, const RmsNorm::Spec& spec, std::span<const float> x,
                                std::span<const float> weight, bool in_place) {
  Arena arena(harness().place_of(kernel));
  const auto count = static_cast<std::int64_t>(x.size());
  float* out = in_place ? arena.in_out(x) : arena.out<float>(count);
  RmsNorm::Args args{in_place ? out : arena.in(x), count / spec.dim, arena.in(weight), out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return arena.read(out, count);
}

void expect_rms_norm(std::int64_t dim, std::int64_t rows, float deviation) {
  const RmsNorm::Spec spec{dim, 1e-5f};
  Random random(static_cast<std::uint64_t>(dim));
  const std::vector<float> x = random.normals(rows * dim, deviation);
  const std::vector<float> weight = random.uniforms(dim, -2.0f, 2.0f);
  const std::vector<float> expected = run_rms_norm(harness().reference<RmsNorm>(spec), spec, x, weight, false);
  harness().for_each_kernel<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
    const std::vector<float> out = run_rms_norm(kernel, spec, x, weight, false);
    EXPECT_LE(relative_error(out, expected), 1e-6);
    EXPECT_TRUE(same_bits(run_rms_norm(kernel, spec, x, weight, true), out)) << "in place";
    const auto last = std::span(x).last(static_cast<std::size_t>(dim));
    EXPECT_TRUE(
        same_bits(run_rms_norm(kernel, spec, last, weight, false), std::span(out).last(static_cast<std::size_t>(dim))))
        << "a row depends on its batch";
  });
}

TEST(RmsNormConformance, TinyEqualsTheReference) {
  for (const std::int64_t dim : {1, 33, 64, 257}) {
    expect_rms_norm(dim, 3, 1.0f);
  }
}

TEST(RmsNormConformance, EqualsTheReference) {
  for (const std::int64_t dim : {1, 8, 33, 64, 257, 2048, 5000, 8192}) {
    for (const float deviation : {1e-4f, 1.0f, 300.0f}) {
      expect_rms_norm(dim, dim > 1000 ? 40 : 5, deviation);
    }
  }
}

TEST(RmsNormConformance, TinyTheMeanIsNotRemoved) {
  const RmsNorm::Spec spec{4, 0.0f};
  const std::vector<float> x = {3.0f, 3.0f, 3.0f, 3.0f};
  const std::vector<float> weight = {1.0f, 2.0f, 1.0f, 1.0f};
  harness().for_each_kernel_or_reference<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
    const std::vector<float> out = run_rms_norm(kernel, spec, x, weight, false);
    EXPECT_NEAR(out[0], 1.0f, 1e-6f);
    EXPECT_NEAR(out[1], 2.0f, 1e-6f);
  });
}

TEST(RmsNormConformance, TinyIsAddedToAResidual) {
  for (const std::int64_t dim : {1, 24, 65, 640}) {
    for (const std::int64_t stride : {dim, dim + 4}) {
      for (const float factor : {1.0f, 0.22f}) {
        const RmsNorm::Spec spec{dim, 1e-5f};
        constexpr std::int64_t rows = 5;
        Random random(static_cast<std::uint64_t>(dim + stride));
        const std::vector<float> x = random.normals(rows * stride);
        const std::vector<float> weight = random.uniforms(dim, 0.5f, 2.0f);
        const std::vector<float> residual = random.normals(rows * stride);
        std::vector<float> expected = residual;
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::vector<float> own(x.begin() + r * stride, x.begin() + r * stride + dim);
          const std::vector<float> norm = run_rms_norm(harness().reference<RmsNorm>(spec), spec, own, weight, false);
          std::transform(norm.begin(), norm.end(), expected.begin() + r * stride, expected.begin() + r * stride,
                         [&](float value, float sum) { return (sum + factor * value) * (1.5f - factor); });
        }
        harness().for_each_kernel_or_reference<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
          Arena arena(harness().place_of(kernel));
          float* sums = arena.in_out(residual);
          const RmsNorm::Args args{arena.in(x), rows, arena.in(weight), sums, stride, sums, factor, 1.5f - factor};
          arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
          EXPECT_LE(relative_error(arena.read(sums, rows * stride), expected), tolerance(DType::f32));
        });
      }
    }
  }
}

TEST(RmsNormConformance, TinyGroupsHaveTheirOwnWeights) {
  for (const std::int64_t dim : {8, 33}) {
    const RmsNorm::Spec spec{dim, 1e-5f, 3};
    Random random(5);
    const std::vector<float> x = random.normals(4 * spec.groups * dim);
    const std::vector<float> weight = random.uniforms(spec.groups * dim, 0.5f, 2.0f);
    std::vector<float> expected;
    for (std::int64_t row = 0; row < 4 * spec.groups; ++row) {
      const auto part = [&](const std::vector<float>& all, std::int64_t first) {
        return std::span(all).subspan(static_cast<std::size_t>(first * dim), static_cast<std::size_t>(dim));
      };
      const RmsNorm::Spec one{dim, spec.eps};
      const std::span<const float> own = part(weight, row % spec.groups);
      const std::vector<float> out =
          run_rms_norm(harness().reference<RmsNorm>(one), one, part(x, row), {own.begin(), own.end()}, false);
      expected.insert(expected.end(), out.begin(), out.end());
    }
    harness().for_each_kernel_or_reference<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
      EXPECT_LE(relative_error(run_rms_norm(kernel, spec, x, weight, true), expected), tolerance(DType::f32));
    });
  }
}

/// Rows that lie in wider ones, as Q and K do in those of a fused product: what stands between them stays.
TEST(RmsNormConformance, TinyRowsAtAStride) {
  for (const std::int64_t dim : {1, 24, 64, 65}) {
    for (const std::int64_t stride : {dim, dim + 4, 3 * dim + 1}) {
      const RmsNorm::Spec spec{dim, 1e-5f};
      constexpr std::int64_t rows = 5;
      Random random(static_cast<std::uint64_t>(dim + stride));
      const std::vector<float> x = random.normals(rows * stride);
      const std::vector<float> weight = random.uniforms(dim, 0.5f, 2.0f);
      std::vector<float> expected = x;
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto row = expected.begin() + r * stride;
        const std::vector<float> own(row, row + dim);
        std::ranges::copy(run_rms_norm(harness().reference<RmsNorm>(spec), spec, own, weight, false), row);
      }
      harness().for_each_kernel_or_reference<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
        Arena arena(harness().place_of(kernel));
        float* all = arena.in_out(x);
        const RmsNorm::Args args{all, rows, arena.in(weight), all, stride};
        arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
        const std::vector<float> out = arena.read(all, rows * stride);
        EXPECT_LE(relative_error(out, expected), 1e-6);
        for (std::int64_t i = 0; i < rows * stride; ++i) {
          if (i % stride >= dim) {
            ASSERT_EQ(out[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i)]) << i;
          }
        }
      });
    }
  }
}

std::vector<float> run_layer_norm(const OpKernel<LayerNorm>& kernel, const LayerNorm::Spec& spec, std::span<const float> x,
                                  std::span<const float> weight, std::span<const float> bias, bool in_place) {
  Arena arena(harness().place_of(kernel));
  const auto count = static_cast<std::int64_t>(x.size());
  float* out = in_place ? arena.in_out(x) : arena.out<float>(count);
  const LayerNorm::Args args{in_place ? out : arena.in(x), count / spec.dim, arena.in(weight),
                             spec.bias ? arena.in(bias) : nullptr, out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return arena.read(out, count);
}

void expect_layer_norm(std::int64_t dim, std::int64_t rows, bool has_bias) {
  const LayerNorm::Spec spec{dim, 1e-5f, has_bias};
  Random random(static_cast<std::uint64_t>(dim));
  std::vector<float> x = random.normals(rows * dim);
  for (float& value : x) {
    value += 3.0f;  // a mean to remove
  }
  const std::vector<float> weight = random.uniforms(dim, -2.0f, 2.0f);
  const std::vector<float> bias = random.uniforms(dim, -2.0f, 2.0f);
  std::vector<float> expected(x.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::span row = std::span(x).subspan(static_cast<std::size_t>(r * dim), static_cast<std::size_t>(dim));
    double mean = 0.0;
    for (const float value : row) {
      mean += double{value} / static_cast<double>(dim);
    }
    double variance = 0.0;
    for (const float value : row) {
      variance += (double{value} - mean) * (double{value} - mean) / static_cast<double>(dim);
    }
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double value = (double{row[i]} - mean) / std::sqrt(variance + 1e-5) * double{weight[i]};
      expected[static_cast<std::size_t>(r * dim) + i] = static_cast<float>(value + (has_bias ? double{bias[i]} : 0.0));
    }
  }
  harness().for_each_kernel_or_reference<LayerNorm>(spec, [&](const OpKernel<LayerNorm>& kernel) {
    const std::vector<float> out = run_layer_norm(kernel, spec, x, weight, bias, false);
    EXPECT_LE(relative_error(out, expected), 1e-5);
    EXPECT_TRUE(same_bits(run_layer_norm(kernel, spec, x, weight, bias, true), out)) << "in place";
    const auto last = std::span(x).last(static_cast<std::size_t>(dim));
    EXPECT_TRUE(same_bits(run_layer_norm(kernel, spec, last, weight, bias, false),
                          std::span(out).last(static_cast<std::size_t>(dim))))
        << "a row depends on its batch";
  });
}

TEST(LayerNormConformance, TinyEqualsTheFormula) {
  for (const std::int64_t dim : {8, 33, 257}) {
    expect_layer_norm(dim, 3, false);
    expect_layer_norm(dim, 3, true);
  }
}

TEST(LayerNormConformance, EqualsTheFormula) {
  for (const std::int64_t dim : {64, 2048, 5000, 12288}) {
    expect_layer_norm(dim, 40, true);
  }
}

/// Heads within longer rows, each with weights of its own: as rows of one head, one after another.
void expect_layer_norm_of_heads(std::int64_t heads, std::int64_t dim, std::int64_t rows, std::int64_t between) {
  const std::int64_t stride = heads * dim + between;
  Random random(static_cast<std::uint64_t>(dim));
  const std::vector<float> x = random.normals(rows * stride, 2.0f);
  const std::vector<float> weight = random.uniforms(heads * dim, -2.0f, 2.0f);
  const std::vector<float> bias = random.uniforms(heads * dim, -2.0f, 2.0f);
  const LayerNorm::Spec one{.dim = dim, .eps = 1e-5f, .bias = true};
  LayerNorm::Spec spec = one;
  spec.groups = heads;
  harness().for_each_kernel_or_reference<LayerNorm>(spec, [&](const OpKernel<LayerNorm>& kernel) {
    Arena arena(harness().place_of(kernel));
    float* out = arena.in_out(x);
    const LayerNorm::Args args{out, rows, arena.in(weight), arena.in(bias), out, stride};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    std::vector<float> expected = x;
    const auto part = [&](const std::vector<float>& of, std::int64_t at) {
      return std::span(of).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(dim));
    };
    for (std::int64_t i = 0; i < rows * heads; ++i) {
      const std::int64_t head = i % heads;
      const std::int64_t at = i / heads * stride + head * dim;
      const std::vector<float> alone =
          run_layer_norm(kernel, one, part(x, at), part(weight, head * dim), part(bias, head * dim), false);
      std::ranges::copy(alone, expected.begin() + at);
    }
    EXPECT_TRUE(same_bits(arena.read(out, rows * stride), expected)) << heads << " heads of " << dim;
  });
}

TEST(LayerNormConformance, TinyHeadsOfARow) {
  expect_layer_norm_of_heads(1, 8, 3, 5);
  expect_layer_norm_of_heads(3, 20, 4, 0);
  expect_layer_norm_of_heads(6, 33, 2, 64);
  expect_layer_norm_of_heads(12, 128, 5, 1024);
}

std::vector<float> run_gated(const OpKernel<GatedActivation>& kernel, const GatedActivation::Spec& spec,
                             std::span<const float> rows, std::int64_t tokens, std::int64_t stride) {
  Arena arena(harness().place_of(kernel));
  const float* gate = arena.in(rows);
  auto* out = arena.out<float>(tokens * spec.width);
  const GatedActivation::Args args{spec.gated ? gate : nullptr, spec.gated ? gate + spec.width : gate, tokens, stride, out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return arena.read(out, tokens * spec.width);
}

void expect_gated(Activation activation, std::int64_t width, std::int64_t tokens, bool gated = true) {
  const GatedActivation::Spec spec{activation, width, gated};
  const std::int64_t stride = 2 * width + 3;
  Random random(static_cast<std::uint64_t>(width));
  std::vector<float> rows = random.normals(tokens * stride, 3.0f);
  for (std::int64_t i = 0; i < tokens * stride; i += 7) {
    rows[static_cast<std::size_t>(i)] *= 40.0f;  // far into both tails
  }
  const auto expected = run_gated(harness().reference<GatedActivation>(spec), spec, rows, tokens, stride);
  harness().for_each_kernel<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
    const std::vector<float> out = run_gated(kernel, spec, rows, tokens, stride);
    EXPECT_LE(relative_error(out, expected), 1e-6);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 2e-6f * (std::abs(expected[i]) + 1.0f));
    }
  });
}

TEST(GatedActivationConformance, TinyEqualsTheReference) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu, Activation::gelu_quick}) {
    expect_gated(activation, 33, 3);
    expect_gated(activation, 1, 2);
    expect_gated(activation, 33, 3, false);
    expect_gated(activation, 64, 2, false);
  }
}

/// The rows of up may have another stride than those of the gate.
TEST(GatedActivationConformance, TinyRowsOfGateAndUpMayDiffer) {
  constexpr std::int64_t tokens = 5;
  for (const std::int64_t width : {12, 32}) {
    const GatedActivation::Spec spec{Activation::gelu_tanh, width};
    Random random(static_cast<std::uint64_t>(width));
    const std::vector<float> gate = random.normals(tokens * width);
    const std::vector<float> up = random.normals(tokens * 3 * width);
    const auto run = [&](const OpKernel<GatedActivation>& kernel) {
      Arena arena(harness().place_of(kernel));
      auto* out = arena.out<float>(tokens * width);
      const GatedActivation::Args args{arena.in(gate), arena.in(up) + width, tokens, width, out, 3 * width};
      arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
      return arena.read(out, tokens * width);
    };
    const std::vector<float> expected = run(harness().reference<GatedActivation>(spec));
    const float x = gate[static_cast<std::size_t>(width)];  // of the second row
    const float gelu = 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    EXPECT_NEAR(expected[static_cast<std::size_t>(width)], gelu * up[static_cast<std::size_t>(4 * width)], 1e-5f);
    harness().for_each_kernel<GatedActivation>(
        spec, [&](const OpKernel<GatedActivation>& kernel) { EXPECT_LE(relative_error(run(kernel), expected), 1e-6); });
  }
}

TEST(GatedActivationConformance, TinyReluSquaredStandsWithoutAGate) {
  expect_gated(Activation::relu_squared, 33, 3, false);
  expect_gated(Activation::relu_squared, 64, 2, false);
  EXPECT_EQ(check_spec(GatedActivation::Spec{Activation::relu_squared, 8}).reason, "relu_squared has no gate");
  const GatedActivation::Spec spec{Activation::relu_squared, 2, false};
  harness().for_each_kernel_or_reference<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
    const std::vector<float> out = run_gated(kernel, spec, std::vector<float>{3.0f, -2.0f}, 1, 2);
    EXPECT_EQ(out[0], 9.0f);
    EXPECT_EQ(out[1], 0.0f);
  });
}

TEST(GatedActivationConformance, EqualsTheReference) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu, Activation::gelu_quick}) {
    for (const std::int64_t width : {1, 33, 64, 257, 5632}) {
      expect_gated(activation, width, 9);
    }
  }
}

TEST(GatedActivationConformance, TinyQuickGeluHasASteeperSigmoid) {
  const GatedActivation::Spec spec{Activation::gelu_quick, 1, false};
  harness().for_each_kernel_or_reference<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
    EXPECT_NEAR(run_gated(kernel, spec, std::vector<float>{2.0f}, 1, 1)[0], 2.0f / (1.0f + std::exp(-3.404f)), 1e-6f);
  });
}

TEST(GatedActivationConformance, TinyWithoutAGateTheOutputIsActivated) {
  const GatedActivation::Spec spec{Activation::silu, 1, false};
  harness().for_each_kernel_or_reference<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
    EXPECT_NEAR(run_gated(kernel, spec, std::vector<float>{2.0f}, 1, 1)[0], 2.0f / (1.0f + std::exp(-2.0f)), 1e-6f);
  });
}

TEST(GatedActivationConformance, TinyActivatesTheGateAndNotTheOther) {
  const GatedActivation::Spec spec{Activation::silu, 1};
  harness().for_each_kernel_or_reference<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
    const std::vector<float> rows = {2.0f, -3.0f};
    EXPECT_NEAR(run_gated(kernel, spec, rows, 1, 2)[0], 2.0f / (1.0f + std::exp(-2.0f)) * -3.0f, 1e-6f);
  });
}

std::vector<float> run_embedding(const OpKernel<EmbeddingRows>& kernel, const EmbeddingRows::Spec& spec,
                                 const std::vector<std::byte>& table, const std::vector<std::int32_t>& ids, float scale) {
  Arena arena(harness().place_of(kernel));
  const auto tokens = static_cast<std::int64_t>(ids.size());
  auto* out = arena.out<float>(tokens * spec.hidden);
  const EmbeddingRows::Args args{arena.in(ids), tokens, arena.in(table), scale, out};
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  return arena.read(out, tokens * spec.hidden);
}

class EmbeddingConformanceTiny : public testing::TestWithParam<DType> {};

TEST_P(EmbeddingConformanceTiny, EqualsTheReference) {
  const EmbeddingRows::Spec spec{GetParam(), 50, 512};
  Random random(17);
  const auto table = random_rows(spec.table, spec.vocab, spec.hidden, random);
  const std::vector<std::int32_t> ids = {0, 49, 7, 7, 23};
  const std::vector<float> expected = run_embedding(harness().reference<EmbeddingRows>(spec), spec, table, ids, 2.5f);
  EXPECT_GT(relative_error(std::vector<float>(expected.size()), expected), 0.5) << "the test's rows are all zero";
  harness().for_each_kernel<EmbeddingRows>(spec, [&](const OpKernel<EmbeddingRows>& kernel) {
    EXPECT_LE(relative_error(run_embedding(kernel, spec, table, ids, 2.5f), expected), 1e-7);
  });
}

/// Tokens that an earlier step has drawn and the host does not know yet.
TEST(EmbeddingConformance, TinyRowsAreAddedToWhatIsThere) {
  for (const DType dtype : {DType::f32, DType::q8_0}) {
    const EmbeddingRows::Spec spec{dtype, 30, 96};
    Random random(31);
    const std::vector<std::byte> table = random_rows(dtype, spec.vocab, spec.hidden, random);
    const std::vector<std::int32_t> ids = {7, 29, 0};
    const std::vector<float> before = random.normals(3 * spec.hidden, 1.0f);
    const std::vector<float> rows = run_embedding(harness().reference<EmbeddingRows>(spec), spec, table, ids, 1.5f);
    harness().for_each_kernel_or_reference<EmbeddingRows>(spec, [&](const OpKernel<EmbeddingRows>& kernel) {
      Arena arena(harness().place_of(kernel));
      float* out = arena.in_out(before);
      const EmbeddingRows::Args args{
          .ids = arena.in(ids), .tokens = 3, .table = arena.in(table), .scale = 1.5f, .out = out, .add = true};
      arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
      const std::vector<float> sums = arena.read(out, 3 * spec.hidden);
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_NEAR(sums[i], before[i] + rows[i], 1e-6f * (1.0f + std::abs(rows[i]))) << i;
      }
    });
  }
}

TEST(EmbeddingConformance, TinyDrawnTokens) {
  const EmbeddingRows::Spec spec{DType::f16, 20, 72};
  Random random(19);
  const auto table = random_rows(spec.table, spec.vocab, spec.hidden, random);
  const std::vector<std::int32_t> ids = {EmbeddingRows::drawn_token(2), 5, EmbeddingRows::drawn_token(0),
                                         EmbeddingRows::drawn_token(1)};
  const std::vector<std::int32_t> drawn = {19, -1, 7};
  const std::vector<std::int32_t> meant = {7, 5, 19};
  const std::vector<float> expected = run_embedding(harness().reference<EmbeddingRows>(spec), spec, table, meant, 1.0f);
  harness().for_each_kernel_or_reference<EmbeddingRows>(spec, [&](const OpKernel<EmbeddingRows>& kernel) {
    Arena arena(harness().place_of(kernel));
    auto* out = arena.out<float>(4 * spec.hidden);
    const EmbeddingRows::Args args{arena.in(ids), 4, arena.in(table), 1.0f, out, arena.in(drawn)};
    arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
    const std::vector<float> rows = arena.read(out, 4 * spec.hidden);
    const auto known = static_cast<std::size_t>(3 * spec.hidden);
    EXPECT_TRUE(same_bits(std::span(rows).first(known), expected));
    EXPECT_TRUE(std::all_of(rows.begin() + std::ptrdiff_t(known), rows.end(), [](float value) { return std::isnan(value); }))
        << "no token was drawn";
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, EmbeddingConformanceTiny, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(EmbeddingConformance, AVocabularyOf151936) {
  const EmbeddingRows::Spec spec{DType::q4_0, 151936, 64};
  Random random(18);
  const auto table = random_rows(spec.table, spec.vocab, spec.hidden, random);
  std::vector<std::int32_t> ids = {0, 151935, 151934, 65536, 32768};
  for (int i = 0; i < 2000; ++i) {
    ids.push_back(random.below(151936));
  }
  const std::vector<float> expected = run_embedding(harness().reference<EmbeddingRows>(spec), spec, table, ids, 1.0f);
  harness().for_each_kernel<EmbeddingRows>(spec, [&](const OpKernel<EmbeddingRows>& kernel) {
    EXPECT_TRUE(same_bits(run_embedding(kernel, spec, table, ids, 1.0f), expected));
  });
}

}  // namespace
}  // namespace rocmforge::test
