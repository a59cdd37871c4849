#include <algorithm>

#include "conformance/harness.h"

namespace rocmforge::test::matmul_test {
namespace {

/// A weight in the kernel's layout, in host memory: packed, or the file's rows.
std::vector<std::byte> weight_for(const MatmulKernel& kernel, const Matmul::Spec& spec, std::span<const std::byte> rows) {
  PoisonedBytes packed(kernel.packed_bytes(spec));
  if (packed.bytes().empty()) {
    return {rows.begin(), rows.end()};
  }
  kernel.pack(spec, rows.data(), packed.data(), harness().host.context);
  EXPECT_TRUE(packed.intact()) << "pack wrote past the end";
  return {packed.bytes().begin(), packed.bytes().end()};
}

struct Output {
  Matmul::Spec spec;
  bool bias = false;
  bool accumulate = false;
  float scale = 1.0f;  ///< of the whole weight
};

/// Layers that share an input, with everything a call needs in host memory.
struct Problem {
  std::int64_t tokens;
  std::int64_t k;
  std::vector<Output> outputs;
  float amplitude = 1.0f;  ///< of the activations
  std::int64_t x_extra = 0;
  std::int64_t first_rows_of = 0;  ///< if larger than n: the weights are the first n rows of matrices of this many rows

  [[nodiscard]] std::vector<float> x() const {
    Random random(static_cast<std::uint64_t>(tokens * 131 + k));
    return random.uniforms(tokens * (k + x_extra), -amplitude, amplitude);
  }
  [[nodiscard]] std::vector<std::byte> rows(std::size_t i) const {
    Random random(5 + i);
    const Matmul::Spec& spec = outputs[i].spec;
    std::vector<std::byte> rows = random_rows(spec.weight, std::max(spec.n, first_rows_of), k, random);
    rows.resize(row_bytes(spec.weight, k) * static_cast<std::size_t>(spec.n));
    return rows;
  }
};

constexpr std::int64_t extra_columns = 3;
constexpr float untouched = 12345.0f;

/// The output [tokens, n + 3] before a call; the columns after n must stay as they are.
std::vector<float> before_call(const Problem& problem, std::size_t i) {
  const Output& output = problem.outputs[i];
  const std::int64_t stride = output.spec.n + extra_columns;
  Random random(6 + i);
  std::vector<float> out = output.accumulate ? random.normals(problem.tokens * stride) : poisoned(problem.tokens * stride);
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    std::fill_n(out.begin() + t * stride + output.spec.n, extra_columns, untouched);
  }
  return out;
}

/// [tokens, n] of [tokens, n + 3].
std::vector<float> without_extra(std::span<const float> out, std::int64_t tokens, std::int64_t n) {
  std::vector<float> dense;
  const std::int64_t stride = n + extra_columns;
  for (std::int64_t t = 0; t < tokens; ++t) {
    dense.insert(dense.end(), out.begin() + t * stride, out.begin() + t * stride + n);
    EXPECT_TRUE(std::all_of(out.begin() + t * stride + n, out.begin() + (t + 1) * stride, [](float value) {
      return value == untouched;
    })) << "wrote beyond n";
  }
  return dense;
}

/// Each output, dense. `x` replaces the problem's own input.
std::vector<std::vector<float>> run_matmul(const MatmulKernel& kernel, const Problem& problem,
                                           std::span<const float> x = {}) {
  Arena arena(harness().place_of(kernel));
  const std::vector<float> own = x.empty() ? problem.x() : std::vector<float>(x.begin(), x.end());
  std::vector<MatmulOutput> outputs;
  for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
    const Output& output = problem.outputs[i];
    Random random(77 + i);
    const float* bias = output.bias ? arena.in(random.normals(output.spec.n, problem.amplitude)) : nullptr;
    const void* weight = arena.in(weight_for(kernel, output.spec, problem.rows(i)));
    float* out = arena.in_out(before_call(problem, i));
    outputs.push_back({output.spec.weight, weight, output.spec.n, bias, out, output.spec.n + extra_columns,
                       output.accumulate, output.scale});
  }
  Matmul::Args args{arena.in(own), problem.tokens, problem.k, problem.k + problem.x_extra, outputs, nullptr};
  args.workspace = arena.workspace(kernel.workspace_bytes(problem.tokens, problem.k));
  arena.run([&](ExecutionContext& context) { kernel.run(args, context); });
  std::vector<std::vector<float>> results;
  for (const MatmulOutput& output : outputs) {
    const auto all = arena.read<float>(output.out, problem.tokens * output.stride);
    results.push_back(without_extra(all, problem.tokens, output.n));
  }
  return results;
}

/// All problems together, because few outputs are too small a sample of the error of 8-bit activations.
void expect_reference(const Matmul::Spec& spec, std::span<const Problem> problems) {
  const auto run_all = [&](const MatmulKernel& kernel) {
    std::vector<float> all;
    for (const Problem& problem : problems) {
      for (const auto& out : run_matmul(kernel, problem)) {
        all.insert(all.end(), out.begin(), out.end());
      }
    }
    return all;
  };
  const std::vector<float> expected = run_all(harness().reference<Matmul>(spec));
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    EXPECT_LE(relative_error(run_all(kernel), expected), tolerance(spec.weight));
  });
}

Problem one_output(std::int64_t tokens, const Matmul::Spec& spec, bool bias = false, bool accumulate = false) {
  return {tokens, spec.k, {{spec, bias, accumulate}}};
}

std::string format_name(const testing::TestParamInfo<DType>& test) { return std::string(name(test.param)); }

class MatmulConformanceTiny : public testing::TestWithParam<DType> {};

TEST_P(MatmulConformanceTiny, EqualsTheReference) {
  const Matmul::Spec spec{GetParam(), 33, 512};
  std::vector<Problem> problems;
  for (const std::int64_t tokens : {1, 2, 5, 17}) {
    problems.push_back(one_output(tokens, spec, tokens % 2 == 0, tokens == 5));
  }
  expect_reference(spec, problems);
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulConformanceTiny, testing::ValuesIn(computing_types()), format_name);

/// NVFP4's tensors have a scale of their own: it multiplies the sum, but neither the bias nor the previous value of the
/// output.
TEST(MatmulConformance, TinyScaleOfTheWholeWeight) {
  const Matmul::Spec spec{DType::nvfp4, 33, 512};
  std::vector<Problem> problems;
  for (const std::int64_t tokens : {1, 2, 17}) {
    problems.push_back({tokens, spec.k, {{spec, true, tokens == 2, 0.0078125f}, {spec, false, true, -3.0f}}});
  }
  expect_reference(spec, problems);
}

class MatmulConformance : public testing::TestWithParam<DType> {};

TEST_P(MatmulConformance, EqualsTheReference) {
  for (const std::int64_t n : {33, 64, 257}) {
    const Matmul::Spec spec{GetParam(), n, 512};
    std::vector<Problem> problems;
    const std::int64_t most = harness().is_gpu() ? 100 : 17;
    for (const std::int64_t tokens : {1, 2, 3, 5, 8, 9, 16, 17, 33, 64, 100}) {
      if (tokens > most) {
        break;
      }
      problems.push_back(one_output(tokens, spec, tokens % 2 == 0, tokens == 5));
    }
    expect_reference(spec, problems);
  }
}

TEST_P(MatmulConformance, AnyNumberOfRows) {
  for (const std::int64_t n : {1, 7, 96}) {
    const Matmul::Spec spec{GetParam(), n, 256};
    expect_reference(spec, std::vector{one_output(1, spec), one_output(33, spec, true), one_output(70, spec, false, true)});
  }
}

TEST_P(MatmulConformance, RowsOfAnyNumberOfBlocks) {
  for (const std::int64_t k : {256, 768, 1280, 2048, 2816, 5120}) {
    const Matmul::Spec spec{GetParam(), 48, k};
    expect_reference(spec, std::vector{one_output(1, spec), one_output(9, spec, true, true), one_output(40, spec)});
  }
}

/// A row of zeros among activations far beyond what half precision holds: neither may overflow or divide by zero.
TEST_P(MatmulConformance, LargeActivationsAndZeros) {
  const Matmul::Spec spec{GetParam(), 64, 512};
  std::vector<Problem> problems;
  for (const std::int64_t tokens : {1, 8, 40}) {
    problems.push_back(one_output(tokens, spec));
    problems.back().amplitude = 1e5f;
  }
  expect_reference(spec, problems);
  const Problem zeros = one_output(33, spec, true);
  const std::vector<float> x(33 * 512, 0.0f);
  const auto expected = run_matmul(harness().reference<Matmul>(spec), zeros, x);
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    EXPECT_TRUE(same_bits(run_matmul(kernel, zeros, x)[0], expected[0])) << "zeros times weights plus bias is the bias";
  });
}

TEST_P(MatmulConformance, ATokensResultDoesNotDependOnTheBatch) {
  const Matmul::Spec spec{GetParam(), 96, 512};
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    const auto tokens = std::min<std::int64_t>(37, kernel.few_tokens());
    const Problem many = one_output(tokens, spec, true);
    const std::vector<float> x = many.x();
    const std::vector<float> together = run_matmul(kernel, many)[0];
    for (const std::int64_t t : {std::int64_t{0}, tokens / 2, tokens - 1}) {
      const auto input = std::span(x).subspan(static_cast<std::size_t>(t * spec.k), static_cast<std::size_t>(spec.k));
      const auto row = std::span(together).subspan(static_cast<std::size_t>(t * spec.n), static_cast<std::size_t>(spec.n));
      EXPECT_TRUE(same_bits(run_matmul(kernel, one_output(1, spec, true), input)[0], row)) << "token " << t;
    }
  });
}

/// Rows longer than a kernel holds at a time, more rows than it sums at a time, and an odd number of tiles.
TEST(MatmulConformance, TinyFewTokensOfLongRows) {
  const Matmul::Spec spec{DType::q4_k, 72 * std::clamp(harness().device.compute_units, 1, 8) + 5, 4352};
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    const auto tokens = std::min<std::int64_t>(8, kernel.few_tokens());
    const std::vector<float> x = one_output(tokens, spec).x();
    const std::vector<float> alone =
        run_matmul(kernel, one_output(1, spec), std::span(x).first(static_cast<std::size_t>(spec.k)))[0];
    for (const std::int64_t count : {std::int64_t{2}, std::int64_t{3}, std::int64_t{6}, tokens}) {
      if (count <= tokens) {
        const auto input = std::span(x).first(static_cast<std::size_t>(count * spec.k));
        const std::vector<float> together = run_matmul(kernel, one_output(count, spec), input)[0];
        EXPECT_TRUE(same_bits(std::span(together).first(alone.size()), alone)) << count << " tokens";
      }
    }
  });
}

/// A launch may be split differently for a matrix of many rows, but the order of sums is the same.
TEST_P(MatmulConformanceTiny, ARowsResultDoesNotDependOnTheNumberOfRows) {
  const std::int64_t many = harness().device.compute_units > 8 ? 20'000 : 300;
  const Matmul::Spec small{GetParam(), 20, 256};
  const Matmul::Spec large{GetParam(), many, 256};
  const auto first_rows = [&](const std::vector<float>& out, std::int64_t tokens, std::int64_t n) {
    std::vector<float> first;
    for (std::int64_t t = 0; t < tokens; ++t) {
      first.insert(first.end(), out.begin() + t * n, out.begin() + t * n + small.n);
    }
    return first;
  };
  for (const std::int64_t tokens : {1, 2}) {
    Problem few = one_output(tokens, small);
    few.first_rows_of = many;
    harness().for_each_kernel<Matmul>(large, [&](const MatmulKernel& kernel) {
      const auto all = run_matmul(kernel, one_output(tokens, large))[0];
      EXPECT_TRUE(same_bits(first_rows(all, tokens, many), run_matmul(kernel, few)[0])) << tokens << " tokens";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulConformance, testing::ValuesIn(computing_types()), format_name);

class MatmulOfLargeWeights : public testing::TestWithParam<DType> {};

TEST_P(MatmulOfLargeWeights, LongRowsAndManyTokens) {
  const Matmul::Spec spec{GetParam(), 320, 14336};
  expect_reference(spec, std::vector{one_output(1, spec), one_output(7, spec), one_output(9, spec), one_output(40, spec),
                                     one_output(100, spec), one_output(512, spec, true)});
}

TEST_P(MatmulOfLargeWeights, AVocabularyOf151936) {
  const Matmul::Spec spec{GetParam(), 151936, 256};
  expect_reference(spec, std::vector{one_output(1, spec), one_output(3, spec), one_output(20, spec)});
}

INSTANTIATE_TEST_SUITE_P(HugeFormats, MatmulOfLargeWeights,
                         testing::Values(DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q8_0, DType::q4_k,
                                         DType::q6_k, DType::mxfp4),
                         format_name);

/// Groups of layers with one input: each output is the same bits as when its layer is called alone.
void expect_parts(std::span<const DType> formats, std::int64_t tokens, std::int64_t x_extra, std::int64_t k = 512) {
  constexpr std::int64_t rows[] = {96, 33, 32, 130};
  Problem group{tokens, k, {}};
  group.x_extra = x_extra;
  for (std::size_t i = 0; i < formats.size(); ++i) {
    group.outputs.push_back({{formats[i], rows[i], k}, i % 2 == 1, i == 2});
  }
  const Matmul::Spec& first = group.outputs[0].spec;
  const auto expected = run_matmul(harness().reference<Matmul>(first), group);
  harness().for_each_kernel<Matmul>(first, [&](const MatmulKernel& kernel) {
    const auto served = [&](const Output& output) { return kernel.supports(output.spec, harness().device).ok; };
    if (!std::ranges::all_of(group.outputs, served)) {
      return;
    }
    const auto together = run_matmul(kernel, group);
    for (std::size_t i = 0; i < together.size(); ++i) {
      EXPECT_LE(relative_error(together[i], expected[i]), 2 * tolerance(formats[i])) << "output " << i;
    }
    Problem alone = group;
    alone.outputs.resize(1);
    EXPECT_TRUE(same_bits(run_matmul(kernel, alone)[0], together[0])) << "the group changed its first output";
  });
}

TEST(MatmulConformance, TinyGroupsOfLayers) {
  const DType formats[] = {DType::q4_k, DType::q4_k, DType::q6_k, DType::q8_0};
  for (const std::size_t count : {2, 3, 4}) {
    expect_parts(std::span(formats).first(count), 3, 5);
  }
}

/// Rows that are cut into segments, the last one a shorter one.
TEST(MatmulConformance, GroupsOfLongRows) {
  const DType formats[] = {DType::q4_k, DType::q4_k, DType::q6_k};
  const DType other_formats[] = {DType::q6_k, DType::q5_k, DType::q6_k, DType::q5_k};
  for (const std::int64_t tokens : {12, 48, 100}) {
    expect_parts(formats, tokens, 0, 2304);
    expect_parts(other_formats, tokens, 0, 2304);
  }
}

TEST(MatmulConformance, GroupsOfLayers) {
  const DType quantised[] = {DType::q4_k, DType::q4_k, DType::q6_k, DType::q5_0};
  const DType plain[] = {DType::f16, DType::f16, DType::f16};
  const DType mixed[] = {DType::q4_0, DType::f32, DType::bf16, DType::q4_1};
  for (const std::int64_t tokens : {1, 7, 33, 100}) {
    for (const auto formats :
         {std::span<const DType>(quantised), std::span<const DType>(plain), std::span<const DType>(mixed)}) {
      expect_parts(formats, tokens, 0);
      expect_parts(formats.first(2), tokens, 64);
    }
  }
}

}  // namespace
}  // namespace rocmforge::test::matmul_test
