#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/harness.h"
#include "conformance/sample_definition.h"

// Calls of SampleTokens by every kernel of the device under test.

namespace rocmforge::test::sampling {

using Problem = SampleProblem;

struct Result {
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;         ///< after the call
  std::vector<float> probabilities;  ///< of the tokens of rows that ask for it
};

inline Result run(const OpKernel<SampleTokens>& kernel, const Problem& problem, bool all_greedy = false) {
  Arena arena(harness().place_of(kernel));
  const SampleTokens::Spec spec{problem.vocab};
  const auto num_rows = static_cast<std::int64_t>(problem.rows.size());
  SampleTokens::Args args;
  args.logits = arena.in_out(problem.logits);
  args.num_rows = num_rows;
  args.rows = arena.in(problem.rows);
  args.adjustments = problem.adjustments.empty() ? nullptr : arena.in(problem.adjustments);
  args.masks = problem.masks.empty() ? nullptr : arena.in(problem.masks);
  args.all_greedy = all_greedy;
  args.out = arena.out<std::int32_t>(num_rows);
  args.workspace = arena.workspace(static_cast<std::size_t>(num_rows) * sample_workspace_bytes(spec.vocab));
  if (std::ranges::any_of(problem.rows, tells_probability)) {
    args.probabilities = arena.out<float>(num_rows);
  }
  arena.run([&](ExecutionContext& context) { kernel.run(spec, args, context); });
  Result result{arena.read(args.out, num_rows), arena.read<float>(args.logits, num_rows * problem.vocab), {}};
  if (args.probabilities != nullptr) {
    result.probabilities = arena.read<float>(args.probabilities, num_rows);
  }
  return result;
}

template <class Test>
void for_each_sampler(std::int64_t vocab, const Test& test) {
  harness().for_each_kernel_or_reference<SampleTokens>({vocab}, test);
}

inline std::string describe(const SampleRow& row) {
  std::string order;
  for (const SampleStage stage : row.stages) {
    order += std::to_string(static_cast<int>(stage));
  }
  return "temperature " + std::to_string(row.temperature) + " top_k " + std::to_string(row.top_k) + " typical_p " +
         std::to_string(row.typical_p) + " top_p " + std::to_string(row.top_p) + " min_p " + std::to_string(row.min_p) +
         " top_n_sigma " + std::to_string(row.top_n_sigma) + " xtc " + std::to_string(row.xtc_threshold) + " range " +
         std::to_string(row.temperature_range) + " surprise " + std::to_string(row.most_surprise) + " target " +
         std::to_string(row.target_probability) + " min_keep " + std::to_string(row.min_keep) + " order " + order +
         " uniform " + std::to_string(row.uniform);
}

inline void expect_as_defined(const Problem& problem) {
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const Result result = run(kernel, problem);
    for (std::size_t r = 0; r < problem.rows.size(); ++r) {
      const ExpectedDraw expected = expected_draw(problem, r);
      EXPECT_EQ(result.tokens[r], expected.token) << "row " << r << ": " << describe(problem.rows[r]);
      if (tells_probability(problem.rows[r])) {
        EXPECT_NEAR(result.probabilities[r], expected.probability, 1e-6) << "row " << r << ": " << describe(problem.rows[r]);
      }
    }
  });
}

/// Everything off: the plain distribution.
inline SampleRow plain(double uniform, float temperature = 1.0f) {
  SampleRow row;
  row.uniform = uniform;
  row.temperature = temperature;
  return row;
}

}  // namespace rocmforge::test::sampling
