#include <algorithm>
#include <cmath>
#include <numeric>

#include "conformance/sample_harness.h"

namespace rocmforge::test::sampling {
namespace {

/// Chi-squared of the drawn tokens against `shares`, which sum to 1; what has none must not be drawn.
void expect_shares(const std::vector<std::int32_t>& tokens, const std::vector<double>& shares, double bound) {
  std::vector<int> counts(shares.size(), 0);
  for (const std::int32_t token : tokens) {
    ++counts.at(static_cast<std::size_t>(token));
  }
  double chi_squared = 0.0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double expected = static_cast<double>(tokens.size()) * shares[i];
    chi_squared += expected > 0.0 ? (counts[i] - expected) * (counts[i] - expected) / expected : 0.0;
    EXPECT_TRUE(expected > 0.0 || counts[i] == 0) << "token " << i;
  }
  EXPECT_LT(chi_squared, bound);
}

TEST(SampleConformance, MirostatAndAdaptivePFollowTheirDistributions) {
  // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16.
  std::vector<float> logits;
  for (const double p : {0.5, 0.25, 0.125, 0.0625, 0.0625}) {
    logits.push_back(static_cast<float>(std::log(p)));
  }
  SampleRow mirostat = plain(0.0);
  mirostat.stages[0] = SampleStage::surprise;
  mirostat.most_surprise = 3.1f;  // three tokens are left
  SampleRow adaptive = plain(0.0);
  adaptive.target_probability = 0.25f;
  std::vector<double> weights;
  for (const double distance : {0.25, 0.0, 0.125, 0.1875, 0.1875}) {
    const double d = distance / 0.3;
    weights.push_back(std::exp(-10.0 * d * d / (1.0 + d)));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::ranges::for_each(weights, [sum](double& weight) { weight /= sum; });
  Random random(17);
  for (const bool adapts : {false, true}) {
    Problem problem;
    for (int i = 0; i < 4000; ++i) {
      SampleRow& row = adapts ? adaptive : mirostat;
      row.uniform = random.unit();
      problem.add(logits, row);
    }
    for_each_sampler(problem.vocab, [&](const OpKernel<SampleTokens>& kernel) {
      // 4 and 2 degrees of freedom: exceeded by chance once in 10,000 seeds.
      expect_shares(run(kernel, problem).tokens, adapts ? weights : std::vector{4.0 / 7, 2.0 / 7, 1.0 / 7, 0.0, 0.0},
                    adapts ? 23.5 : 18.4);
    });
  }
}

/// One sampler with a strength drawn at random.
SampleRow random_row(int kind, Random& random) {
  SampleRow row = plain(random.unit(), 0.3f + static_cast<float>(random.unit()));
  const auto share = static_cast<float>(random.unit());
  switch (kind) {
    case 0:
      row.top_k = 1 + random.below(40);
      break;
    case 1:
      row.top_p = std::max(share, 0.01f);
      break;
    case 2:
      row.min_p = share;
      break;
    case 3:
      row.typical_p = std::max(share, 0.01f);
      break;
    case 4:
      row.top_n_sigma = 3.0f * share + 0.01f;
      break;
    case 5:
      row.xtc_threshold = 0.3f * share;
      break;
    case 6:
      row.temperature_range = share;
      row.temperature_exponent = 0.5f + share;
      break;
    case 7:
    case 8:
      std::ranges::fill(row.stages, SampleStage::none);
      row.stages[0] = SampleStage::temperature;
      row.stages[1] = kind == 7 ? SampleStage::zipf : SampleStage::surprise;
      row.most_surprise = 10.0f * share;
      break;
    case 9:
      row.target_probability = share;
      row.min_p = 0.02f;
      break;
    default:
      row = random_row(random.below(7), random);
      row.min_keep = 1 + random.below(20);
      break;
  }
  return row;
}

TEST(SampleConformance, TenThousandRandomRowsOfEachSampler) {
  constexpr int kinds = 11;
  constexpr int rows = 1000;  // of one call: each has its scratch
  Random random(41);
  for (int kind = 0; kind < kinds; ++kind) {
    SCOPED_TRACE("sampler " + std::to_string(kind));
    for (int call = 0; call < 10; ++call) {
      Problem problem;
      for (int r = 0; r < rows; ++r) {
        problem.add(random.normals(48, 2.0f), random_row(kind, random));
      }
      expect_as_defined(problem);
    }
  }
}

}  // namespace
}  // namespace rocmforge::test::sampling
