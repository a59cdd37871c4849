#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

TEST(RmsNormConformance, EqualsTheReference) {
  for (const std::int64_t dim : {1, 8, 33, 64, 257, 2048, 5000}) {
    for (const float deviation : {1e-4f, 1.0f, 300.0f}) {
      const RmsNorm::Spec spec{dim, 1e-5f};
      const std::int64_t rows = dim > 1000 ? 40 : 5;
      Random random(static_cast<std::uint64_t>(dim));
      const std::vector<float> x = random.normals(rows * dim, deviation);
      const std::vector<float> weight = random.uniforms(dim, -2.0f, 2.0f);
      std::vector<float> expected = poisoned(rows * dim);
      harness().reference<RmsNorm>(spec).run(spec, {x.data(), rows, weight.data(), expected.data()}, harness().context);
      harness().for_each_kernel<RmsNorm>(spec, [&](const OpKernel<RmsNorm>& kernel) {
        std::vector<float> out = poisoned(rows * dim);
        kernel.run(spec, {x.data(), rows, weight.data(), out.data()}, harness().context);
        EXPECT_LE(relative_error(out, expected), 1e-6);

        std::vector<float> in_place = x;
        kernel.run(spec, {in_place.data(), rows, weight.data(), in_place.data()}, harness().context);
        EXPECT_TRUE(same_bits(in_place, out));

        std::vector<float> last = poisoned(dim);
        kernel.run(spec, {x.data() + (rows - 1) * dim, 1, weight.data(), last.data()}, harness().context);
        EXPECT_TRUE(same_bits(last, std::span(out).last(static_cast<std::size_t>(dim)))) << "a row depends on its batch";
      });
    }
  }
}

TEST(RmsNormConformance, TheMeanIsNotRemoved) {
  const RmsNorm::Spec spec{4, 0.0f};
  const std::vector<float> x = {3.0f, 3.0f, 3.0f, 3.0f};
  const std::vector<float> weight = {1.0f, 2.0f, 1.0f, 1.0f};
  for (const auto& kernel : harness().registry.all<RmsNorm>()) {
    if (kernel->supports(spec, harness().device).ok) {
      std::vector<float> out = poisoned(4);
      kernel->run(spec, {x.data(), 1, weight.data(), out.data()}, harness().context);
      EXPECT_NEAR(out[0], 1.0f, 1e-6f) << kernel->name();
      EXPECT_NEAR(out[1], 2.0f, 1e-6f) << kernel->name();
    }
  }
}

TEST(GatedActivationConformance, EqualsTheReference) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    for (const std::int64_t width : {1, 33, 64, 257, 5632}) {
      const GatedActivation::Spec spec{activation, width};
      const std::int64_t tokens = 9;
      const std::int64_t stride = 2 * width + 3;
      Random random(static_cast<std::uint64_t>(width));
      std::vector<float> rows = random.normals(tokens * stride, 3.0f);
      for (std::int64_t i = 0; i < tokens * stride; i += 7) {
        rows[static_cast<std::size_t>(i)] *= 40.0f;  // far into both tails
      }
      const GatedActivation::Args args{rows.data(), rows.data() + width, tokens, stride, nullptr};
      const auto run = [&](const OpKernel<GatedActivation>& kernel) {
        std::vector<float> out = poisoned(tokens * width);
        GatedActivation::Args with_out = args;
        with_out.out = out.data();
        kernel.run(spec, with_out, harness().context);
        return out;
      };
      const std::vector<float> expected = run(harness().reference<GatedActivation>(spec));
      harness().for_each_kernel<GatedActivation>(spec, [&](const OpKernel<GatedActivation>& kernel) {
        const std::vector<float> out = run(kernel);
        EXPECT_LE(relative_error(out, expected), 1e-6);
        for (std::size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected[i], 2e-6f * (std::abs(expected[i]) + 1.0f));
        }
      });
    }
  }
}

TEST(GatedActivationConformance, ActivatesTheGateAndNotTheOther) {
  const GatedActivation::Spec spec{Activation::silu, 1};
  const float gate = 2.0f;
  const float up = -3.0f;
  for (const auto& kernel : harness().registry.all<GatedActivation>()) {
    if (kernel->supports(spec, harness().device).ok) {
      float out = std::nanf("");
      kernel->run(spec, {&gate, &up, 1, 1, &out}, harness().context);
      EXPECT_NEAR(out, 2.0f / (1.0f + std::exp(-2.0f)) * -3.0f, 1e-6f) << kernel->name();
    }
  }
}

TEST(EmbeddingConformance, EveryFormat) {
  for (const DType type : computing_types()) {
    const EmbeddingRows::Spec spec{type, 50, 512};
    Random random(17);
    const auto table = random_rows(type, spec.vocab, spec.hidden, random);
    const std::vector<std::int32_t> ids = {0, 49, 7, 7, 23};
    const EmbeddingRows::Args args{ids.data(), 5, table.data(), 2.5f, nullptr};
    const auto run = [&](const OpKernel<EmbeddingRows>& kernel) {
      std::vector<float> out = poisoned(5 * spec.hidden);
      EmbeddingRows::Args with_out = args;
      with_out.out = out.data();
      kernel.run(spec, with_out, harness().context);
      return out;
    };
    const std::vector<float> expected = run(harness().reference<EmbeddingRows>(spec));
    EXPECT_GT(relative_error(std::vector<float>(expected.size()), expected), 0.5) << "the test's rows are all zero";
    harness().for_each_kernel<EmbeddingRows>(
        spec, [&](const OpKernel<EmbeddingRows>& kernel) { EXPECT_LE(relative_error(run(kernel), expected), 1e-7); });
  }
}

TEST(EmbeddingConformance, AVocabularyOf151936) {
  const EmbeddingRows::Spec spec{DType::q4_0, 151936, 64};
  Random random(18);
  const auto table = random_rows(spec.table, spec.vocab, spec.hidden, random);
  std::vector<std::int32_t> ids = {0, 151935, 151934, 65536, 32768};
  for (int i = 0; i < 2000; ++i) {
    ids.push_back(random.below(151936));
  }
  const auto tokens = static_cast<std::int64_t>(ids.size());
  std::vector<float> expected = poisoned(tokens * spec.hidden);
  harness().reference<EmbeddingRows>(spec).run(spec, {ids.data(), tokens, table.data(), 1.0f, expected.data()},
                                               harness().context);
  harness().for_each_kernel<EmbeddingRows>(spec, [&](const OpKernel<EmbeddingRows>& kernel) {
    std::vector<float> out = poisoned(tokens * spec.hidden);
    kernel.run(spec, {ids.data(), tokens, table.data(), 1.0f, out.data()}, harness().context);
    EXPECT_TRUE(same_bits(out, expected));
  });
}

}  // namespace
}  // namespace rocmforge::test
