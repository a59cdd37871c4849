#include "conformance/harness.h"

namespace rocmforge::test {
namespace {

/// A weight as the file stores it and as a kernel wants it.
struct Weight {
  Matmul::Spec spec;
  std::vector<std::byte> rows;
  PoisonedBytes packed;

  Weight(const MatmulKernel& kernel, const Matmul::Spec& weight_spec, std::uint64_t seed)
      : spec(weight_spec), packed(kernel.packed_bytes(weight_spec)) {
    Random random(seed);
    rows = random_rows(spec.weight, spec.n, spec.k, random);
    if (!packed.bytes().empty()) {
      kernel.pack(spec, rows.data(), packed.data(), harness().context);
      EXPECT_TRUE(packed.intact()) << "pack wrote past the end";
    }
  }
  [[nodiscard]] const void* data() { return packed.bytes().empty() ? static_cast<const void*>(rows.data()) : packed.data(); }
};

struct Problem {
  std::int64_t tokens;
  std::int64_t k;
  std::vector<float> x;
  std::vector<float> bias;
  bool accumulate = false;
};

/// One output [tokens, n + 3]; the columns after n must stay as they were.
std::vector<float> run_matmul(const MatmulKernel& kernel, const Matmul::Spec& spec, const Problem& problem) {
  Weight weight(kernel, spec, 5);
  const std::int64_t stride = spec.n + 3;
  Random random(6);
  std::vector<float> out = problem.accumulate ? random.normals(problem.tokens * stride) : poisoned(problem.tokens * stride);
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    std::fill_n(out.begin() + t * stride + spec.n, 3, 12345.0f);
  }
  PoisonedBytes workspace(kernel.workspace_bytes(problem.tokens, spec.k));
  const MatmulOutput output{
      spec.weight, weight.data(),     spec.n, problem.bias.empty() ? nullptr : problem.bias.data(), out.data(),
      stride,      problem.accumulate};
  Matmul::Args args;
  args.x = problem.x.data();
  args.tokens = problem.tokens;
  args.k = problem.k;
  args.x_stride = problem.k;
  args.outputs = {&output, 1};
  args.workspace = workspace.data();
  kernel.run(args, harness().context);
  EXPECT_TRUE(workspace.intact()) << "wrote past the end of the workspace";
  std::vector<float> dense;
  for (std::int64_t t = 0; t < problem.tokens; ++t) {
    dense.insert(dense.end(), out.begin() + t * stride, out.begin() + t * stride + spec.n);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(out[static_cast<std::size_t>(t * stride + spec.n + i)], 12345.0f) << "wrote beyond n";
    }
  }
  return dense;
}

Problem make_problem(std::int64_t tokens, const Matmul::Spec& spec, bool bias, bool accumulate) {
  Random random(static_cast<std::uint64_t>(tokens * 131 + spec.n));
  return {tokens, spec.k, random.uniforms(tokens * spec.k, -1.0f, 1.0f),
          bias ? random.normals(spec.n) : std::vector<float>(), accumulate};
}

/// All problems as one: a few outputs alone are too small a sample of the error of 8-bit activations.
void expect_reference(const Matmul::Spec& spec, std::span<const Problem> problems) {
  const auto run_all = [&](const MatmulKernel& kernel) {
    std::vector<float> all;
    for (const Problem& problem : problems) {
      const std::vector<float> out = run_matmul(kernel, spec, problem);
      all.insert(all.end(), out.begin(), out.end());
    }
    return all;
  };
  const std::vector<float> expected = run_all(harness().reference<Matmul>(spec));
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    EXPECT_LE(relative_error(run_all(kernel), expected), tolerance(spec.weight));
  });
}

class MatmulConformance : public testing::TestWithParam<DType> {};

TEST_P(MatmulConformance, EqualsTheReference) {
  for (const std::int64_t n : {33, 64, 257}) {
    const Matmul::Spec spec{GetParam(), n, 512};
    std::vector<Problem> problems;
    for (const std::int64_t tokens : {1, 2, 5, 16, 17}) {
      problems.push_back(make_problem(tokens, spec, tokens % 2 == 0, tokens == 5));
    }
    expect_reference(spec, problems);
  }
}

TEST_P(MatmulConformance, RowsOfAnyNumberOfBlocks) {
  for (const std::int64_t k : {256, 768, 2816}) {
    const Matmul::Spec spec{GetParam(), 48, k};
    expect_reference(spec, std::vector{make_problem(1, spec, false, false), make_problem(9, spec, true, true)});
  }
}

TEST_P(MatmulConformance, ATokensResultDoesNotDependOnTheBatch) {
  const Matmul::Spec spec{GetParam(), 96, 512};
  const Problem many = make_problem(37, spec, true, false);
  harness().for_each_kernel<Matmul>(spec, [&](const MatmulKernel& kernel) {
    const std::vector<float> together = run_matmul(kernel, spec, many);
    for (const std::int64_t t : {0, 15, 16, 36}) {
      Problem one = many;
      one.tokens = 1;
      one.x.assign(many.x.begin() + t * spec.k, many.x.begin() + (t + 1) * spec.k);
      const auto row = std::span(together).subspan(static_cast<std::size_t>(t * spec.n), static_cast<std::size_t>(spec.n));
      EXPECT_TRUE(same_bits(run_matmul(kernel, spec, one), row)) << "token " << t;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, MatmulConformance, testing::ValuesIn(computing_types()),
                         [](const auto& test) { return std::string(name(test.param)); });

TEST(MatmulConformance, AGroupEqualsItsParts) {
  const Matmul::Spec q{DType::q4_k, 128, 256};
  const Matmul::Spec k{DType::q4_k, 32, 256};
  const Matmul::Spec v{DType::q6_k, 32, 256};
  const Problem problem = make_problem(7, q, false, false);
  harness().for_each_kernel<Matmul>(q, [&](const MatmulKernel& kernel) {
    if (!kernel.supports(v, harness().device).ok) {
      return;
    }
    std::vector<Weight> weights;
    std::vector<std::vector<float>> outs;
    std::vector<MatmulOutput> outputs;
    for (const Matmul::Spec& spec : {q, k, v}) {
      weights.emplace_back(kernel, spec, 5);
      outs.push_back(poisoned(7 * spec.n));
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Matmul::Spec& spec = weights[i].spec;
      outputs.push_back({spec.weight, weights[i].data(), spec.n, nullptr, outs[i].data(), spec.n, false});
    }
    PoisonedBytes workspace(kernel.workspace_bytes(7, 256));
    kernel.run({problem.x.data(), 7, 256, 256, outputs, workspace.data()}, harness().context);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(same_bits(outs[i], run_matmul(kernel, weights[i].spec, problem))) << "output " << i;
    }
  });
}

}  // namespace
}  // namespace rocmforge::test
