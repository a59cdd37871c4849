#include <algorithm>
#include <cmath>

#include "conformance/attention_cases.h"

namespace rocmforge::test::attention_test {
namespace {

/// For some specs the CPU has only the reference, which has tests of its own.
#define SKIP_WHERE_ONLY_THE_REFERENCE_SERVES(spec, dense)                             \
  if (!harness().is_gpu() && ((dense) || !harness().serves<Attention>(spec))) {       \
    GTEST_SKIP() << "on the CPU only the reference serves this: " << to_string(spec); \
  }

class AttentionConformance : public testing::TestWithParam<AttentionCase> {};

std::string case_name(const testing::TestParamInfo<AttentionCase>& test) { return test.param.name; }

TEST_P(AttentionConformance, EqualsTheReference) {
  const AttentionCase& c = GetParam();
  SKIP_WHERE_ONLY_THE_REFERENCE_SERVES(c.spec, c.call.dense);
  const AttentionProblem problem(c.spec, c.shapes, 7);
  const std::vector<float> expected = problem.run_reference(c.call);
  harness().for_each_kernel<Attention>(c.spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> actual = problem.run(kernel, c.call);
    EXPECT_LE(relative_error(actual, expected), attention_tolerance(c.spec, kernel.device()));
    EXPECT_TRUE(same_bits(problem.run(kernel, c.call), actual)) << "the same call gave other bits";
  });
}

INSTANTIATE_TEST_SUITE_P(Tiny, AttentionConformance, testing::ValuesIn(tiny_attention_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionConformance, testing::ValuesIn(attention_cases()), case_name);

class AttentionOfLongSequences : public testing::TestWithParam<AttentionCase> {};

/// The reference needs seconds for a row of all heads, so of causal attention it computes only some rows.
TEST_P(AttentionOfLongSequences, EqualsTheReference) {
  const AttentionCase& c = GetParam();
  const AttentionProblem problem(c.spec, c.shapes, 7);
  const bool all = c.call.dense || c.spec.has_single_rows() || !c.spec.causal;
  constexpr std::int32_t rows = 9;
  const std::vector<float> expected = all ? problem.run_reference(c.call) : problem.run_reference_of_rows(rows);
  harness().for_each_kernel<Attention>(c.spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> actual = problem.run(kernel, c.call);
    EXPECT_TRUE(std::ranges::all_of(actual, [](float value) { return std::isfinite(value); }));
    EXPECT_LE(relative_error(all ? actual : problem.pick(actual, rows), expected),
              attention_tolerance(c.spec, kernel.device()));
  });
}

INSTANTIATE_TEST_SUITE_P(Huge, AttentionOfLongSequences, testing::ValuesIn(huge_attention_cases()), case_name);

TEST(AttentionConformance, TinyBlocksInAnyOrder) {
  const Attention::Spec spec = heads(4, 2, 64);
  const std::vector<SequenceShape> shapes = {{80, 80}};  // three blocks of 32, the last in part
  const AttentionProblem problem(spec, shapes, 11);
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    KvLayout layout = kernel.layout(spec);
    layout.block_tokens = 32;
    PagedCache cache(layout, {{2, 0, 1}});
    cache.write(problem.kv, 0, 0, 80);
    const auto actual = run_attention(kernel, problem, cache, shapes, problem.q);
    EXPECT_LE(relative_error(actual, expected), attention_tolerance(spec, kernel.device()));
  });
}

/// q, K and V as sin and cos times 100: scores in the tens of thousands. What is stored is exact in every type, so that no
/// rounding of inputs decides which key wins.
void expect_large_scores_right(const Attention::Spec& spec, std::int32_t length) {
  AttentionProblem problem(spec, {{length, length}}, 3);
  for (std::size_t i = 0; i < problem.q.size(); ++i) {
    problem.q[i] = 100.0f * std::sin(0.37f * static_cast<float>(i % 1009));
  }
  for (std::size_t i = 0; i < problem.kv.k[0].size(); ++i) {
    problem.kv.k[0][i] = 100.0f * std::cos(0.73f * static_cast<float>(i % 2003));
    problem.kv.v[0][i] = 100.0f * std::sin(0.11f * static_cast<float>(i % 4001));
  }
  round_all(spec.kv_dtype.k, problem.q);
  round_all(spec.kv_dtype.k, problem.kv.k[0]);
  round_all(spec.kv_dtype.v, problem.kv.v[0]);
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    // A score of 80,000 has a rounding error of 0.004 in float, and its weight the same relative error.
    EXPECT_LE(relative_error(problem.run(kernel), expected), 1e-2);
  });
}

void turn_heads(std::vector<float>& values, std::int32_t head_dim) {
  for (std::size_t first = 0; first < values.size(); first += static_cast<std::size_t>(head_dim)) {
    std::vector<double> head(values.begin() + static_cast<std::ptrdiff_t>(first),
                             values.begin() + static_cast<std::ptrdiff_t>(first) + head_dim);
    turn_by_hadamard(head.data(), head_dim);
    std::ranges::transform(head, values.begin() + static_cast<std::ptrdiff_t>(first),
                           [](double value) { return static_cast<float>(value); });
  }
}

/// Scores of rotated Q and K are those of Q and K, and what was summed of rotated V is turned back.
void expect_rotation_undone(const Attention::Spec& plain, double allowed) {
  const AttentionProblem problem(plain, {{70, 30}, {33, 1}}, 8);
  AttentionProblem turned = problem;
  turned.spec.kv_dtype = rotated(plain.kv_dtype);
  turn_heads(turned.q, plain.head_dim);
  for (std::size_t s = 0; s < turned.kv.k.size(); ++s) {
    turn_heads(turned.kv.k[s], plain.head_dim);
    turn_heads(turned.kv.v[s], plain.head_dim);
  }
  const std::vector<float> expected = problem.run_reference();
  EXPECT_LE(relative_error(turned.run_reference(), expected), allowed);
  harness().for_each_kernel<Attention>(turned.spec, [&](const AttentionBackend& kernel) {
    EXPECT_LE(relative_error(turned.run(kernel), expected), allowed);
  });
}

TEST(AttentionConformance, TinyRotationIsUndone) {
  expect_rotation_undone(heads(2, 1, 96, DType::f32), 1e-5);
  expect_rotation_undone(heads(4, 2, 64, DType::f16), 2e-3);
  expect_rotation_undone(heads(4, 2, 64, DType::q8_0), 2e-2);
}

TEST(AttentionConformance, TinyScoresInTheThousandsStayFiniteAndRight) {
  expect_large_scores_right(heads(2, 1, 64, DType::f32), 40);
  expect_large_scores_right(heads(2, 1, 64, DType::f16), 40);
}

TEST(AttentionConformance, ScoresInTheThousandsStayFiniteAndRight) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_large_scores_right(heads(8, 2, 64, dtype), 200);
    expect_large_scores_right(heads(8, 2, 128, dtype), 200);
  }
}

/// Quants have scales of any size. Products with them must not overflow or underflow in 16 bits.
void expect_size_of_values_right(Attention::Spec spec, std::vector<SequenceShape> shapes, float size) {
  AttentionProblem problem(spec, std::move(shapes), 31);
  for (std::vector<float>& values : problem.kv.v) {
    for (float& value : values) {
      value *= size;
    }
    round_all(spec.kv_dtype.v, values);
  }
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    EXPECT_LE(relative_error(problem.run(kernel), expected), attention_tolerance(spec, kernel.device())) << "size " << size;
  });
}

TEST(AttentionConformance, ValuesOfQuantsMayBeSmallOrLarge) {
  for (const float size : {1e-3f, 1e4f}) {
    expect_size_of_values_right(heads(8, 2, 64, DType::q8_0), {{200, 200}}, size);
    expect_size_of_values_right(decode(heads(8, 2, 128, DType::q8_0)), {{700, 1}, {3, 1}}, size);
  }
}

TEST(AttentionConformance, TinyAnInfinitelyLargeSinkLeavesNothing) {
  const Attention::Spec spec = options(heads(4, 2, 64), 0, 0.0f, true);
  AttentionProblem problem(spec, {{35, 20}}, 5);
  problem.sinks.assign(problem.sinks.size(), 1e30f);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    for (const float value : problem.run(kernel)) {
      ASSERT_EQ(value, 0.0f);
    }
  });
}

/// A sink that weighs as much as all keys together, so that an error in its count changes the result by a large factor. A
/// sink far below all scores has no effect.
void expect_heavy_sinks_right(Attention::Spec spec, std::vector<SequenceShape> shapes) {
  spec.sinks = true;
  const auto longest = std::ranges::max(shapes, {}, &SequenceShape::kv_len).kv_len;
  AttentionProblem problem(spec, std::move(shapes), 17);
  Random random(18);
  for (float& sink : problem.sinks) {
    sink = std::log(static_cast<float>(longest)) + random.normals(1)[0];
  }
  const std::vector<float> expected = problem.run_reference();
  AttentionProblem without = problem;
  without.sinks.assign(problem.sinks.size(), -1e30f);
  without.spec.sinks = false;
  const std::vector<float> plain = without.run_reference();
  EXPECT_GT(relative_error(expected, plain), 0.2);
  without.spec.sinks = true;
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    const double allowed = attention_tolerance(spec, kernel.device());
    EXPECT_LE(relative_error(problem.run(kernel), expected), allowed) << kernel.name();
    EXPECT_LE(relative_error(without.run(kernel), plain), allowed) << kernel.name() << ", sinks below all scores";
  });
}

TEST(AttentionConformance, TinySinksCountOnceHoweverKeysAreCut) {
  expect_heavy_sinks_right(heads(4, 2, 64), {{35, 20}, {20, 20}});
  expect_heavy_sinks_right(options(heads(4, 2, 64), 12, 0.0f, true), {{35, 20}, {3, 1}});
  expect_heavy_sinks_right(decode(heads(8, 1, 64)), {{600, 1}, {3, 1}});
}

TEST(AttentionConformance, SinksCountOnceHoweverKeysAreCut) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0}) {
    expect_heavy_sinks_right(heads(8, 1, 64, dtype), {{400, 130}, {129, 129}});
    expect_heavy_sinks_right(options(heads(8, 2, 128, dtype), 100, 0.0f, true), {{400, 130}, {129, 129}});
    expect_heavy_sinks_right(decode(heads(64, 8, 64, dtype)), {{3000, 1}, {700, 1}, {1, 1}});
    expect_heavy_sinks_right(decode(options(heads(8, 2, 128, dtype), 700, 0.0f, true)), {{3000, 1}, {100, 1}});
  }
}

TEST(AttentionConformance, TinyFullyMaskedRowsAreZeros) {
  const Attention::Spec spec = masked(heads(4, 2, 64));
  SKIP_WHERE_ONLY_THE_REFERENCE_SERVES(spec, false);
  AttentionProblem problem(spec, {{35, 20}, {33, 1}}, 5);
  constexpr float minus_infinity = -std::numeric_limits<float>::infinity();
  const std::vector<std::int64_t> dead = {0, 7, 19, 20};
  for (const std::int64_t row : dead) {
    std::fill_n(problem.mask.begin() + row * problem.mask_stride, problem.mask_stride, minus_infinity);
  }
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> actual = problem.run(kernel);
    EXPECT_LE(relative_error(actual, expected), attention_tolerance(spec, kernel.device()));
    for (const std::int64_t row : dead) {
      for (std::int64_t i = 0; i < problem.width(); ++i) {
        ASSERT_EQ(actual[static_cast<std::size_t>(row * problem.width() + i)], 0.0f) << "row " << row;
      }
    }
  });
}

TEST(AttentionConformance, TinyQueriesMayLieBetweenOtherData) {
  const Attention::Spec spec = heads(4, 2, 64);
  const AttentionProblem problem(spec, {{40, 5}, {33, 1}}, 13);
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    EXPECT_TRUE(same_bits(problem.run(kernel, {.q_extra = 100}), problem.run(kernel)));
  });
}

/// The rows of sequences with one query, or of those with several, equal those of the whole call; the others are untouched.
void expect_rows(const AttentionProblem& problem, const AttentionBackend& kernel, std::span<const float> expected,
                 Attention::Rows rows) {
  const std::vector<float> actual = problem.run(kernel, {.padding = 2, .rows = rows});
  std::vector<float> computed;
  std::vector<float> expected_of_them;
  std::int64_t first = 0;
  for (const SequenceShape& shape : problem.shapes) {
    const std::int64_t end = first + shape.q_len * problem.out_width();
    if ((shape.q_len == 1) == (rows == Attention::Rows::single)) {
      computed.insert(computed.end(), actual.begin() + first, actual.begin() + end);
      expected_of_them.insert(expected_of_them.end(), expected.begin() + first, expected.begin() + end);
    } else {
      EXPECT_TRUE(std::all_of(actual.begin() + first, actual.begin() + end, [](float x) { return std::isnan(x); }))
          << "wrote rows of a sequence it was not asked for";
    }
    first = end;
  }
  EXPECT_LE(relative_error(computed, expected_of_them), attention_tolerance(problem.spec, kernel.device()));
}

TEST(AttentionConformance, TinySingleRowsOrSeveral) {
  const Attention::Spec spec = heads(4, 2, 64);
  const AttentionProblem problem(spec, {{40, 1}, {19, 5}, {33, 1}, {37, 20}, {1, 1}}, 29);
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    expect_rows(problem, kernel, expected, Attention::Rows::several);
    expect_rows(problem, kernel, expected, Attention::Rows::single);
  });
  AttentionProblem single = problem;
  single.spec.most_rows = 1;
  harness().for_each_kernel<Attention>(
      single.spec, [&](const AttentionBackend& kernel) { expect_rows(single, kernel, expected, Attention::Rows::single); });
}

/// Few rows a sequence: the reference's results, and row by row the bits of decode steps.
TEST(AttentionConformance, TinyFewRowsAreThoseOfSingleRows) {
  Attention::Spec window = options(heads(4, 2, 128), 30, 0.0f, true);
  for (Attention::Spec spec : {heads(4, 2, 64), window, heads(3, 1, 72, DType::f32), heads(8, 2, 96, DType::q8_0)}) {
    spec.most_rows = 4;
    const AttentionProblem problem(spec, {{40, 1}, {70, 4}, {33, 3}, {300, 2}}, 29);
    const AttentionCall call{.padding = 2};
    const std::vector<float> expected = problem.run_reference(call);
    harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
      const std::vector<float> actual = problem.run(kernel, call);
      EXPECT_LE(relative_error(actual, expected), attention_tolerance(spec, kernel.device()));
      std::int64_t first = 0;
      for (std::size_t s = 0; s < problem.shapes.size(); ++s) {
        const auto [kv_len, q_len] = problem.shapes[s];
        for (std::int32_t row = 0; row < q_len; ++row) {
          AttentionProblem single = problem;
          single.spec.most_rows = 1;
          const SequenceShape shape{kv_len - q_len + row + 1, 1};
          PagedCache cache(kernel.layout(single.spec), kv_lengths(problem.shapes), 5);
          cache.write(problem.kv, s, 0, shape.kv_len);
          const std::vector<std::size_t> chosen{s};
          cache.choose_sequences(chosen);
          const auto at = static_cast<std::size_t>((first + row) * problem.width());
          const auto q = std::span(problem.q).subspan(at, static_cast<std::size_t>(problem.width()));
          const std::vector<float> out = run_attention(kernel, single, cache, {&shape, 1}, q);
          const auto begin = static_cast<std::size_t>((first + row) * problem.out_width());
          EXPECT_TRUE(same_bits(out, std::span(actual).subspan(begin, static_cast<std::size_t>(problem.out_width()))))
              << kernel.name() << ", row " << row << " of sequence " << s;
        }
        first += q_len;
      }
    });
  }
}

TEST(AttentionConformance, TinySingleRowsOrSeveralOfALatentPlane) {
  const Attention::Spec spec = latent(heads(4, 1, 48), 32);
  const AttentionProblem problem(spec, {{40, 1}, {19, 5}, {33, 1}, {37, 20}}, 29);
  const std::vector<float> expected = problem.run_reference();
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    expect_rows(problem, kernel, expected, Attention::Rows::several);
    expect_rows(problem, kernel, expected, Attention::Rows::single);
  });
}

TEST(AttentionConformance, TinyKernelsAgreeWithEachOther) {
  const Attention::Spec spec = decode(heads(4, 2, 128));
  const AttentionProblem problem(spec, {{70, 1}, {33, 1}}, 41);
  std::vector<float> first;
  harness().for_each_kernel<Attention>(spec, [&](const AttentionBackend& kernel) {
    const std::vector<float> out = problem.run(kernel);
    first = first.empty() ? out : first;
    EXPECT_LE(relative_error(out, first), attention_tolerance(spec, kernel.device()));
  });
}

}  // namespace
}  // namespace rocmforge::test::attention_test
