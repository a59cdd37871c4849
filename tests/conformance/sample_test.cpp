#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/sample_harness.h"

namespace rocmforge::test::sampling {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");
constexpr double almost_one = 1.0 - 0x1p-53;

/// Each filter alone, pairs, and all of them.
std::vector<SampleRow> filters() {
  std::vector<SampleRow> rows(16, plain(0.0));
  rows[1].top_k = 7;
  rows[2].typical_p = 0.6f;
  rows[3].top_p = 0.83f;
  rows[4].min_p = 0.07f;
  rows[5].top_k = 40;
  rows[5].top_p = 0.95f;
  rows[5].min_p = 0.05f;
  rows[6].top_k = 60;
  rows[6].typical_p = 0.9f;
  rows[7].typical_p = 0.8f;
  rows[7].top_p = 0.7f;
  rows[8].top_p = 0.999f;
  rows[8].min_p = 0.001f;
  rows[9].top_k = 50;
  rows[9].typical_p = 0.95f;
  rows[9].top_p = 0.9f;
  rows[9].min_p = 0.1f;
  rows[10].top_n_sigma = 1.2f;
  rows[11].xtc_threshold = 0.02f;
  rows[12].temperature_range = 0.25f;
  rows[12].temperature_exponent = 1.5f;
  rows[13].top_n_sigma = 2.0f;
  rows[13].top_k = 40;
  rows[13].min_p = 0.02f;
  rows[13].xtc_threshold = 0.1f;
  rows[14].typical_p = 0.9f;
  rows[14].xtc_threshold = 0.05f;
  rows[14].temperature_range = 5.0f;
  rows[15].top_k = 60;
  rows[15].top_p = 0.95f;
  rows[15].xtc_threshold = 0.04f;
  rows[15].temperature_range = 0.1f;
  return rows;
}

/// Mirostat at several surprises, adaptive-p behind filters, and filters that have to keep some tokens.
std::vector<SampleRow> adaptive_rows() {
  std::vector<SampleRow> rows;
  for (const SampleStage stage : {SampleStage::zipf, SampleStage::surprise}) {
    for (const float bits : {-1.0f, 1.5f, 5.0f, 7.0f, 10.0f, 2000.0f}) {
      SampleRow& row = rows.emplace_back(plain(0.0));
      std::ranges::fill(row.stages, SampleStage::none);
      row.stages[0] = SampleStage::temperature;
      row.stages[1] = stage;
      row.most_surprise = bits;
    }
  }
  for (const float target : {0.0f, 0.05f, 0.4f, 1.0f}) {
    SampleRow& row = rows.emplace_back(plain(0.0));
    row.target_probability = target;
    row.min_p = target < 0.1f ? 0.0f : 0.02f;
    row.top_k = target == 1.0f ? 20 : 0;
  }
  for (const SampleRow& filter : filters()) {
    for (const std::int32_t least : {3, 30}) {
      rows.emplace_back(filter).min_keep = least;
    }
  }
  return rows;
}

Problem problem_of(const std::vector<SampleRow>& rows, std::int64_t vocab, std::vector<float> temperatures,
                   std::uint64_t seed, float spread) {
  Problem problem;
  Random random(seed);
  for (const float temperature : temperatures) {
    for (SampleRow row : rows) {
      row.temperature = temperature;
      row.uniform = random.unit();
      problem.add(random.normals(vocab, spread), row);
    }
  }
  return problem;
}

/// A row for each of `kinds` filters and each temperature, on logits of their own.
Problem random_problem(std::int64_t vocab, std::size_t kinds, std::vector<float> temperatures, std::uint64_t seed,
                       float spread) {
  std::vector<SampleRow> rows = filters();
  rows.resize(kinds);
  return problem_of(rows, vocab, std::move(temperatures), seed, spread);
}

TEST(SampleConformance, TinyMirostatAdaptivePAndMinKeep) {
  expect_as_defined(problem_of(adaptive_rows(), 131, {0.8f}, 31, 2.0f));
}

TEST(SampleConformance, MirostatAdaptivePAndMinKeep) {
  for (const std::int64_t vocab : {1, 2, 31, 99, 100, 101, 1000, 4097, 32000}) {
    for (const float spread : {0.0f, 0.01f, 1.0f, 4.0f}) {
      SCOPED_TRACE("vocabulary " + std::to_string(vocab) + ", spread " + std::to_string(spread));
      expect_as_defined(problem_of(adaptive_rows(), vocab, {0.3f, 1.0f, 1e6f}, static_cast<std::uint64_t>(vocab), spread));
    }
  }
}

TEST(SampleConformance, TinyEveryFilterOnASmallVocabulary) {
  expect_as_defined(random_problem(97, filters().size(), {0.8f}, 1, 2.0f));
}

TEST(SampleConformance, TinyChunksOfSeveralTokens) { expect_as_defined(random_problem(2500, 6, {1e4f}, 2, 2.0f)); }

/// All filters in orders drawn at random, also with stages left out.
Problem problem_of_orders(std::int64_t vocab, int count, std::uint64_t seed) {
  Problem problem;
  Random random(seed);
  const std::vector<SampleRow> all = filters();
  for (int i = 0; i < count; ++i) {
    SampleRow row = all[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size())))];
    const SampleRow& other = all[static_cast<std::size_t>(random.below(static_cast<std::int32_t>(all.size())))];
    row.xtc_threshold = other.xtc_threshold;
    row.top_p = other.top_p;
    row.temperature_range = other.temperature_range;
    for (int last = SampleRow::num_stages - 1; last > 0; --last) {
      std::swap(row.stages[last], row.stages[random.below(last + 1)]);
    }
    if (i % 5 == 4) {
      row.stages[random.below(SampleRow::num_stages)] = SampleStage::none;
    }
    row.temperature = i % 2 == 0 ? 0.7f : 1.8f;
    row.uniform = random.unit();
    problem.add(random.normals(vocab, 2.0f), row);
  }
  return problem;
}

TEST(SampleConformance, TinyStagesInAnyOrder) { expect_as_defined(problem_of_orders(300, 12, 21)); }

TEST(SampleConformance, StagesInAnyOrder) {
  for (const std::int64_t vocab : {1, 5, 1000, 32000}) {
    SCOPED_TRACE(vocab);
    expect_as_defined(problem_of_orders(vocab, vocab > 5000 ? 60 : 400, static_cast<std::uint64_t>(vocab)));
  }
}

TEST(SampleConformance, EveryFilterAndTemperature) {
  for (const std::int64_t vocab : {1, 2, 31, 64, 1000, 1024, 1025, 4097, 32000}) {
    for (const float spread : {0.01f, 1.0f, 4.0f}) {
      SCOPED_TRACE("vocabulary " + std::to_string(vocab) + ", spread " + std::to_string(spread));
      // The high temperature makes all remaining tokens about equally likely, so that it tests the edges of the filters.
      expect_as_defined(
          random_problem(vocab, filters().size(), {0.3f, 1.0f, 1e6f}, static_cast<std::uint64_t>(vocab), spread));
    }
  }
}

TEST(SampleConformance, AVocabularyOf151936) {
  expect_as_defined(random_problem(151936, filters().size(), {0.7f, 1e6f}, 5, 2.5f));
  expect_as_defined(random_problem(151936, 4, {1.0f}, 6, 0.05f));  // nearly even: top-p keeps 100,000 tokens
}

/// The largest size for which sums of probabilities have room; Gemma 3 has 262,208 tokens.
TEST(SampleConformance, AVocabularyOf524286) {
  expect_as_defined(random_problem(524'286, 3, {0.7f}, 7, 2.5f));
  expect_as_defined(random_problem(524'286, 4, {1e6f}, 8, 0.05f));
}

TEST(SampleConformance, TheLargestTokensInOneRunOfIds) {
  for (const bool ascending : {true, false}) {
    Problem problem;
    Random random(8);
    for (const double uniform : {0.0, 0.4, 0.9}) {
      std::vector<float> logits = random.normals(151936, 2.0f);
      std::ranges::sort(logits);
      if (!ascending) {
        std::ranges::reverse(logits);
      }
      SampleRow row = plain(uniform, 1e6f);
      row.top_k = 40;
      problem.add(logits, row);
    }
    expect_as_defined(problem);
  }
}

TEST(SampleConformance, TopKOfAnySize) {
  Problem problem;
  Random random(9);
  for (const std::int32_t top_k : {1, 2, 500, 1023, 1024, 1025, 5000, 19'999, 20'000, 20'001, 2'000'000'000}) {
    for (const double uniform : {0.0, 0.5, almost_one}) {
      SampleRow row = plain(uniform, 1e6f);
      row.top_k = top_k;
      problem.add(random.normals(20'000, 2.0f), row);
    }
  }
  expect_as_defined(problem);
}

/// Few different logits, so that the limit of every filter is among equal logits.
Problem problem_of_ties(std::int64_t vocab, std::int64_t kinds) {
  Problem problem;
  Random random(10);
  for (SampleRow row : filters()) {
    for (const double uniform : {0.0, 0.37, almost_one}) {
      std::vector<float> logits = random.normals(vocab, 1.5f);
      for (float& logit : logits) {
        logit = std::round(logit * static_cast<float>(kinds)) / static_cast<float>(kinds);
      }
      row.uniform = uniform;
      row.temperature = 1e6f;
      problem.add(logits, row);
    }
  }
  return problem;
}

TEST(SampleConformance, TinyTiesKeepTheLowestIds) {
  Problem problem;
  for (const double uniform : {0.0, 0.5, almost_one}) {
    SampleRow row = plain(uniform);
    row.top_k = 5;
    problem.add(std::vector<float>(100, 0.25f), row);
    row.top_k = 0;
    row.top_p = 0.0755f;  // 8 tokens of a hundredth
    problem.add(std::vector<float>(100, 0.25f), row);
  }
  expect_as_defined(problem);
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    EXPECT_EQ(run(kernel, problem).tokens, (std::vector<std::int32_t>{0, 0, 2, 4, 4, 7}));
  });
}

TEST(SampleConformance, TiesThroughEveryCut) {
  expect_as_defined(problem_of_ties(300, 1));
  expect_as_defined(problem_of_ties(9000, 3));
}

TEST(SampleConformance, TinyGreedyTakesTheFirstOfTheLargest) {
  Problem problem;
  std::vector<float> logits(150, -1.0f);
  logits[30] = logits[77] = logits[149] = 2.0f;
  problem.add(logits, plain(0.9, 0.0f));
  logits[31] = not_a_number;
  problem.add(logits, plain(0.9, -1.0f));
  logits[29] = -0.0f;
  logits[30] = logits[77] = logits[149] = 0.0f;
  problem.add(logits, plain(0.9, 0.0f));
  logits[140] = infinity;
  problem.add(logits, plain(0.9, 0.0f));
  logits[2] = std::numeric_limits<float>::max();  // as large as infinity counts
  problem.add(logits, plain(0.9, 0.0f));
  problem.add(std::vector<float>(150, -std::numeric_limits<float>::max()), plain(0.9, 0.0f));
  problem.add(std::vector<float>(150, -infinity), plain(0.9, 0.0f));
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const std::vector<std::int32_t> expected = {30, 30, 29, 140, 2, 0, -1};
    EXPECT_EQ(run(kernel, problem).tokens, expected);
    EXPECT_EQ(run(kernel, problem, /*all_greedy=*/true).tokens, expected);
  });
}

TEST(SampleConformance, GreedyOnLargeVocabularies) {
  Problem problem;
  Random random(12);
  for (int r = 0; r < 20; ++r) {
    problem.add(random.normals(128'256, 2.0f), plain(0.5, 0.0f));
  }
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const std::vector<std::int32_t> tokens = run(kernel, problem, true).tokens;
    EXPECT_EQ(tokens, run(kernel, problem).tokens);
    for (std::size_t r = 0; r < problem.rows.size(); ++r) {
      const auto logits = problem.row_logits(r);
      EXPECT_EQ(tokens[r], std::ranges::max_element(logits) - logits.begin());
    }
  });
}

TEST(SampleConformance, TinyForbiddenTokensAreNeverDrawn) {
  Problem problem;
  Random random(13);
  for (const double uniform : {0.0, 0.5, almost_one}) {
    for (const std::int32_t top_k : {0, 20}) {
      std::vector<float> logits = random.normals(64, 2.0f);
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = i % 3 == 0 ? not_a_number : i % 3 == 1 ? -infinity : logits[i];
      }
      SampleRow row = plain(uniform, 1e6f);
      row.top_k = top_k;
      row.top_p = 0.97f;
      problem.add(logits, row);
      problem.add(std::vector<float>(64, top_k == 0 ? not_a_number : -infinity), row);  // nothing to draw
    }
  }
  std::vector<float> extreme(64, -std::numeric_limits<float>::max());
  extreme[17] = infinity;
  problem.add(extreme, plain(almost_one));
  expect_as_defined(problem);
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const std::vector<std::int32_t> tokens = run(kernel, problem).tokens;
    EXPECT_EQ(tokens[1], -1);
    EXPECT_EQ(tokens.back(), 17);
  });
}

/// Rows with masks of several densities between rows without; `vocab` need not fill the last word.
Problem masked_problem(std::int64_t vocab, std::size_t kinds) {
  Problem problem;
  Random random(19);
  const std::vector<SampleRow> all = filters();
  for (const std::int64_t kept_of : {1, 2, 97}) {
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      SampleRow row = all[kind];
      row.temperature = kind % 3 == 0 ? 0.0f : 1e6f;
      row.uniform = random.unit();
      row.repeat_penalty = 1.2f;
      std::vector<float> logits = random.normals(vocab, 2.0f);
      const auto largest = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
      problem.add(logits, row, {{.id = largest, .count = 2, .bias = 1.0f}});
      const std::int64_t start = static_cast<std::int64_t>(random.unit() * 90.0);
      problem.add_mask([&](std::int64_t token) { return token != largest && (token + start) % kept_of == 0; });
      problem.add(logits, row);
    }
  }
  problem.add(random.normals(vocab, 2.0f), plain(0.5));
  problem.add_mask([&](std::int64_t token) { return token == vocab - 1; });
  problem.add(random.normals(vocab, 2.0f), plain(0.5));
  problem.add_mask([](std::int64_t) { return false; });
  return problem;
}

TEST(SampleConformance, TinyMasksForbid) {
  const Problem problem = masked_problem(203, filters().size());
  expect_as_defined(problem);
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const Result result = run(kernel, problem);
    EXPECT_EQ(result.tokens.end()[-2], problem.vocab - 1);
    EXPECT_EQ(result.tokens.end()[-1], -1) << "nothing is allowed";
    for (std::size_t r = 0; r < problem.rows.size(); ++r) {
      const std::vector<float> expected = adjusted_logits(problem, r);
      const auto size = static_cast<std::ptrdiff_t>(expected.size());
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), result.logits.begin() + static_cast<std::ptrdiff_t>(r) * size))
          << "the logits of row " << r;
    }
  });
}

TEST(SampleConformance, MasksOfLargeVocabularies) {
  expect_as_defined(masked_problem(32000, filters().size()));
  expect_as_defined(masked_problem(151'669, 3));
}

/// Rows with all kinds of penalties, and with biases that forbid, raise and lower logits.
Problem adjusted_problem(std::int64_t vocab, std::size_t adjustments) {
  Problem problem;
  Random random(14);
  for (SampleRow row : filters()) {
    for (const float temperature : {0.0f, 1.0f}) {
      row.temperature = temperature;
      row.uniform = random.unit();
      row.repeat_penalty = 1.3f;
      row.frequency_penalty = 0.17f;
      row.presence_penalty = -0.31f;
      std::vector<SampleAdjustment> list;
      for (std::size_t a = 0; a < adjustments; ++a) {
        const auto stride = static_cast<std::int32_t>(vocab / static_cast<std::int64_t>(adjustments));
        const std::int32_t id = static_cast<std::int32_t>(a) * stride + random.below(stride);
        list.push_back({id, random.below(4), a % 5 == 0 ? -infinity : a % 2 == 0 ? 0.0f : random.normal(3.0f)});
      }
      std::ranges::reverse(list);  // the order is free
      problem.add(random.normals(vocab, 2.0f), row, list);
    }
  }
  return problem;
}

void expect_adjusted(const Problem& problem) {
  expect_as_defined(problem);
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const Result result = run(kernel, problem);
    for (std::size_t r = 0; r < problem.rows.size(); ++r) {
      const auto size = static_cast<std::size_t>(problem.vocab);
      EXPECT_TRUE(same_bits(std::span(result.logits).subspan(r * size, size), adjusted_logits(problem, r)))
          << "row " << r << ": the logits are not adjusted in place, or others are";
    }
  });
}

TEST(SampleConformance, TinyPenaltiesAndBiases) { expect_adjusted(adjusted_problem(80, 9)); }
TEST(SampleConformance, PenaltiesAndBiases) { expect_adjusted(adjusted_problem(33'000, 700)); }

TEST(SampleConformance, TheSumOfTheLargestVocabularyHolds) {
  Problem problem;
  constexpr std::int64_t vocab = 262144;
  for (const double uniform : {0.0, 0.25, 0.5, almost_one}) {
    problem.add(std::vector<float>(vocab, 3.5f), plain(uniform));
  }
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    EXPECT_EQ(run(kernel, problem).tokens, (std::vector<std::int32_t>{0, vocab / 4, vocab / 2, vocab - 1}));
  });
}

TEST(SampleConformance, TinyARowDoesNotDependOnItsBatch) {
  const Problem problem = random_problem(120, 6, {0.9f}, 15, 2.0f);
  for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
    const std::vector<std::int32_t> tokens = run(kernel, problem).tokens;
    for (std::size_t r = 0; r < problem.rows.size(); r += 2) {
      Problem alone;
      alone.add({problem.row_logits(r).begin(), problem.row_logits(r).end()}, problem.rows[r]);
      EXPECT_EQ(run(kernel, alone).tokens[0], tokens[r]);
    }
  });
}

TEST(SampleConformance, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f, -40.0f};
  constexpr int draws = 4000;  // each row has its scratch
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    Problem problem;
    Random random(16);
    for (int i = 0; i < draws; ++i) {
      problem.add(logits, plain(random.unit(), temperature));
    }
    double sum = 0.0;
    for (const float logit : logits) {
      sum += std::exp(logit / temperature);
    }
    for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
      std::vector<int> counts(logits.size(), 0);
      for (const std::int32_t token : run(kernel, problem).tokens) {
        ++counts.at(static_cast<std::size_t>(token));
      }
      double chi_squared = 0.0;
      for (std::size_t i = 0; i + 1 < logits.size(); ++i) {
        const double expected = draws * std::exp(logits[i] / temperature) / sum;
        chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      EXPECT_LT(chi_squared, 23.5) << "4 degrees of freedom: exceeded by chance once in 10,000 seeds";
      EXPECT_EQ(counts.back(), 0);
    });
  }
}

}  // namespace
}  // namespace rocmforge::test::sampling
