#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

namespace rocmforge {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

using Ids = std::set<std::int32_t>;
using Logits = std::vector<float>;

/// Everything off: the plain distribution.
SamplingParams plain(float temperature = 1.0f) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = 0;
  params.top_p = 1.0f;
  params.min_p = 0.0f;
  params.seed = 5;
  return params;
}

SamplingParams greedy() { return plain(0.0f); }

Logits random_logits(std::size_t count, unsigned seed, float spread = 2.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  Logits logits(count);
  std::ranges::generate(logits, [&] { return normal(random); });
  return logits;
}

std::int32_t sample_once(const SamplingParams& params, const Logits& logits, const std::vector<std::int32_t>& history = {}) {
  return Sampler(params).sample(logits, history);
}

/// The tokens that can be drawn. At a huge temperature all tokens that the filters keep are about equally likely.
Ids drawn_set(SamplingParams params, const Logits& logits, const std::vector<std::int32_t>& history = {}) {
  params.temperature = 1e6f;
  Sampler sampler(params);
  Ids ids;
  for (int i = 0; i < 4000; ++i) {
    ids.insert(sampler.sample(logits, history));
  }
  return ids;
}

// The filters by their definitions, on a list of (probability, id), most likely first.
using Distribution = std::vector<std::pair<double, std::int32_t>>;

Distribution distribution_of(const Logits& logits) {
  Distribution list;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -infinity) {
      list.emplace_back(std::exp(static_cast<double>(logits[i])), static_cast<std::int32_t>(i));
    }
  }
  std::ranges::sort(
      list, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  return list;
}

void normalise(Distribution& list) {
  double sum = 0.0;
  for (const auto& [probability, id] : list) {
    sum += probability;
  }
  for (auto& [probability, id] : list) {
    probability /= sum;
  }
}

Distribution naive_mass(const Distribution& list, double mass) {
  Distribution kept;
  double sum = 0.0;
  for (const auto& entry : list) {
    kept.push_back(entry);
    sum += entry.first;
    if (sum >= mass) {
      break;
    }
  }
  return kept;
}

Distribution naive_typical(Distribution list, double mass) {
  double entropy = 0.0;
  for (const auto& [probability, id] : list) {
    entropy -= probability * std::log(probability);
  }
  std::ranges::stable_sort(list, {}, [&](const auto& entry) { return std::abs(-std::log(entry.first) - entropy); });
  list = naive_mass(list, mass);
  std::ranges::sort(
      list, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  return list;
}

Ids naive_set(const SamplingParams& params, const Logits& logits) {
  Distribution list = distribution_of(logits);
  if (params.top_k > 0 && static_cast<std::size_t>(params.top_k) < list.size()) {
    list.resize(static_cast<std::size_t>(params.top_k));
  }
  normalise(list);
  if (params.typical_p < 1.0f) {
    list = naive_typical(list, params.typical_p);
    normalise(list);
  }
  if (params.top_p < 1.0f) {
    list = naive_mass(list, params.top_p);
    normalise(list);
  }
  Ids ids;
  for (const auto& [probability, id] : list) {
    if (probability >= params.min_p * list.front().first) {
      ids.insert(id);
    }
  }
  return ids;
}

TEST(Sampler, GreedyTakesTheLargestAndTheFirstOfEquals) {
  EXPECT_EQ(sample_once(greedy(), {1.0f, 3.0f, 2.0f, 3.0f}), 1);
  EXPECT_EQ(sample_once(plain(-1.0f), {1.0f, 3.0f, 5.0f}), 2);
  const Logits logits = random_logits(150'000, 1);
  EXPECT_EQ(sample_once(greedy(), logits), std::ranges::max_element(logits) - logits.begin());
}

TEST(Sampler, TopKKeepsTheKLargest) {
  for (const std::int32_t k : {1, 2, 7, 40, 49, 50, 1000}) {
    SamplingParams params = plain();
    params.top_k = k;
    const Logits logits = random_logits(50, static_cast<unsigned>(k));
    EXPECT_EQ(drawn_set(params, logits), naive_set(params, logits)) << "k = " << k;
  }
}

TEST(Sampler, TopKIsRightForLargeVocabulariesInAnyOrder) {
  Logits logits = random_logits(20'000, 9);
  SamplingParams params = plain();
  params.top_k = 12;
  const Ids expected = naive_set(params, logits);
  EXPECT_EQ(drawn_set(params, logits), expected);
  std::ranges::sort(logits);  // each is larger than all before
  EXPECT_EQ(*drawn_set(params, logits).begin(), 20'000 - 12);
  std::ranges::sort(logits, std::greater<>());
  EXPECT_EQ(*drawn_set(params, logits).rbegin(), 11);
}

TEST(Sampler, TopKOfEqualLogitsKeepsTheLowestIds) {
  SamplingParams params = plain();
  params.top_k = 5;
  EXPECT_EQ(drawn_set(params, Logits(1000, 0.25f)), (Ids{0, 1, 2, 3, 4}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheMass) {
  for (const float p : {0.001f, 0.3f, 0.8f, 0.95f, 0.9999f}) {
    SamplingParams params = plain();
    params.top_p = p;
    for (unsigned seed = 0; seed < 4; ++seed) {
      const Logits logits = random_logits(60, seed);
      EXPECT_EQ(drawn_set(params, logits), naive_set(params, logits)) << "p = " << p;
    }
  }
}

TEST(Sampler, TopPOfAnEvenDistributionSortsBeyondItsFirstPiece) {
  SamplingParams params = plain();
  params.top_p = 0.5f;
  const Logits logits = random_logits(600, 3, 0.01f);
  const Ids expected = naive_set(params, logits);
  EXPECT_GT(expected.size(), 256u);
  EXPECT_EQ(drawn_set(params, logits), expected);
}

TEST(Sampler, MinPKeepsWhatIsLikelyEnoughBesideTheBest) {
  for (const float p : {0.01f, 0.05f, 0.5f, 1.0f}) {
    SamplingParams params = plain();
    params.min_p = p;
    const Logits logits = random_logits(60, 8);
    EXPECT_EQ(drawn_set(params, logits), naive_set(params, logits)) << "p = " << p;
  }
}

TEST(Sampler, TypicalPKeepsWhatIsClosestToTheEntropy) {
  bool without_the_best = false;
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    SamplingParams params = plain();
    params.typical_p = p;
    for (unsigned seed = 0; seed < 6; ++seed) {
      const Logits logits = random_logits(60, seed);
      const Ids expected = naive_set(params, logits);
      EXPECT_EQ(drawn_set(params, logits), expected) << "p = " << p << ", seed " << seed;
      without_the_best |= !expected.contains(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    }
  }
  EXPECT_TRUE(without_the_best) << "the cases can't tell this filter from top-p";
}

TEST(Sampler, FiltersRunInTheirOrderEachOnWhatIsLeft) {
  std::mt19937 random(4);
  const auto pick = [&](auto... values) { return std::array{values...}[random() % sizeof...(values)]; };
  for (unsigned seed = 0; seed < 40; ++seed) {
    SamplingParams params = plain();
    params.top_k = pick(0, 3, 10, 30);
    params.typical_p = pick(1.0f, 0.9f, 0.6f);
    params.top_p = pick(1.0f, 0.95f, 0.7f);
    params.min_p = pick(0.0f, 0.05f, 0.3f);
    const Logits logits = random_logits(60, 100 + seed);
    EXPECT_EQ(drawn_set(params, logits), naive_set(params, logits)) << "seed " << seed;
  }
}

TEST(Sampler, TemperatureActsAfterTheFilters) {
  // At temperature 1 the second token has 27 % and top_p 0.7 drops it. Were the temperature first, it would stay.
  SamplingParams params = plain();
  params.top_p = 0.7f;
  EXPECT_EQ(drawn_set(params, {2.0f, 1.0f}), Ids{0});
}

TEST(Sampler, PenaltiesMatchHandComputedValues) {
  // Token 0 occurs twice, token 1 once. repeat 2: 3 / 2 = 1.5 and -1 * 2 = -2.
  const std::vector<std::int32_t> history = {0, 1, 0};
  SamplingParams params = greedy();
  params.repeat_penalty = 2.0f;
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 1.51f}, history), 2);
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 1.49f}, history), 0);
  EXPECT_EQ(sample_once(params, {-3.0f, -1.0f, -2.1f}, history), 1);
  EXPECT_EQ(sample_once(params, {-3.0f, -1.0f, -1.9f}, history), 2);

  params = greedy();
  params.frequency_penalty = 0.5f;  // token 0: 3 - 2 * 0.5
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 1.99f}, history), 0);
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 2.01f}, history), 2);

  params = greedy();
  params.presence_penalty = 0.5f;  // token 0: 3 - 0.5
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 2.49f}, history), 0);
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 2.51f}, history), 2);

  params.repeat_penalty = 2.0f;
  params.frequency_penalty = 0.25f;  // token 0: 3 / 2 - 2 * 0.25 - 0.5 = 0.5
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 0.49f}, history), 0);
  EXPECT_EQ(sample_once(params, {3.0f, -1.0f, 0.51f}, history), 2);

  params = greedy();
  params.presence_penalty = -1.0f;  // a reward
  EXPECT_EQ(sample_once(params, {1.0f, 1.0f, 1.5f}, {1}), 1);
}

TEST(Sampler, PenaltiesLookAtTheLastTokensOnly) {
  const std::vector<std::int32_t> history = {0, 1, 2, 2};
  SamplingParams params = greedy();
  params.presence_penalty = 10.0f;
  // With all three penalised alike the largest logit wins again.
  for (const auto& [last_n, expected] :
       std::map<std::int32_t, std::int32_t>{{0, 2}, {1, 1}, {2, 1}, {3, 0}, {4, 2}, {99, 2}, {-1, 2}}) {
    params.repeat_last_n = last_n;
    EXPECT_EQ(sample_once(params, {1.0f, 2.0f, 3.0f}, history), expected) << "repeat_last_n = " << last_n;
  }
  params.frequency_penalty = 10.0f;  // the whole history: token 2 occurs twice
  params.repeat_last_n = -1;
  EXPECT_EQ(sample_once(params, {1.0f, 2.0f, 8.0f}, history), 1);
}

TEST(Sampler, BiasComesBeforePenaltiesAndMayForbid) {
  SamplingParams params = greedy();
  params.logit_bias = {{0, -infinity}, {2, 3.0f}};
  EXPECT_EQ(sample_once(params, {10.0f, 1.0f, -1.0f}), 2);
  params.repeat_penalty = 4.0f;  // (-1 + 3) / 4 = 0.5; penalised before the bias it would be -4 + 3 = -1
  EXPECT_EQ(sample_once(params, {10.0f, 0.49f, -1.0f}, {2}), 2);
  params.logit_bias = {{1, -infinity}};
  EXPECT_EQ(drawn_set(params, {0.0f, 0.0f, 0.0f}), (Ids{0, 2}));
  params.logit_bias = {{1, -infinity}};
  EXPECT_EQ(sample_once(params, {-5.0f, infinity, -6.0f}), 0) << "what is forbidden stays so, whatever the model says";
}

TEST(Sampler, NothingToDrawIsSaidSo) {
  SamplingParams forbid_all = plain();
  for (std::int32_t id = 0; id < 4; ++id) {
    forbid_all.logit_bias[id] = -infinity;
  }
  for (const float temperature : {0.0f, 1.0f}) {
    forbid_all.temperature = temperature;
    EXPECT_EQ(sample_once(forbid_all, {1.0f, 2.0f, 3.0f, 4.0f}), -1);
    EXPECT_EQ(sample_once(plain(temperature), Logits(4, not_a_number)), -1);
    EXPECT_EQ(sample_once(plain(temperature), Logits(4, -infinity)), -1);
    EXPECT_EQ(sample_once(plain(temperature), {}), -1);
  }
}

TEST(Sampler, NotANumberIsNeverDrawnAndChangesNothingElse) {
  Logits logits = random_logits(60, 12);
  SamplingParams params;
  params.seed = 9;
  Logits without = logits;
  for (std::size_t i = 0; i < logits.size(); i += 3) {
    logits[i] = not_a_number;
    without[i] = -infinity;
  }
  Sampler first(params);
  Sampler second(params);
  for (int i = 0; i < 200; ++i) {
    const std::int32_t token = first.sample(logits, {});
    ASSERT_NE(token % 3, 0);
    ASSERT_EQ(token, second.sample(without, {}));
  }
  EXPECT_EQ(sample_once(greedy(), {not_a_number, 1.0f, 2.0f, not_a_number}), 2);
}

TEST(Sampler, ExtremeLogitsAndTemperaturesStayFinite) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(sample_once(plain(), {-largest, largest, 0.0f}), 1);
  EXPECT_EQ(sample_once(plain(), {0.0f, infinity, 0.0f}), 1);
  EXPECT_EQ(sample_once(plain(1e-30f), {1.0f, 1.5f, 1.25f}), 1);
  SamplingParams all;
  all.typical_p = 0.9f;
  all.seed = 1;
  EXPECT_EQ(sample_once(all, {-largest, largest, 0.0f}), 1);
}

TEST(Sampler, DrawFollowsTheDistribution) {
  const Logits logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f, -30.0f};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    for (const std::int32_t top_k : {0, 6}) {  // with and without a list of candidates
      SamplingParams params = plain(temperature);
      params.top_k = top_k;
      Sampler sampler(params);
      constexpr int draws = 100'000;
      std::vector<int> counts(logits.size(), 0);
      for (int i = 0; i < draws; ++i) {
        ++counts[static_cast<std::size_t>(sampler.sample(logits, {}))];
      }
      double sum = 0.0;
      for (const float logit : logits) {
        sum += std::exp(logit / temperature);
      }
      double chi_squared = 0.0;
      for (std::size_t i = 0; i + 1 < logits.size(); ++i) {
        const double expected = draws * std::exp(logits[i] / temperature) / sum;
        chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
      EXPECT_LT(chi_squared, 23.5) << "4 degrees of freedom: exceeded by chance once in 10,000 seeds";
      EXPECT_EQ(counts.back(), 0);
    }
  }
}

TEST(Sampler, DrawIsTheTextbookWalkOnTheRawBitsOfTheGenerator) {
  SamplingParams params = plain();
  params.top_k = 3;
  params.seed = 1234;
  Sampler sampler(params);
  EXPECT_EQ(sampler.seed(), 1234u);
  std::mt19937_64 bits(1234);
  const Logits logits = {std::log(1.0f), std::log(5.0f), std::log(2.0f), std::log(0.5f)};
  for (int i = 0; i < 1000; ++i) {
    const double uniform = static_cast<double>(bits() >> 11) / 9007199254740992.0;
    const std::int32_t expected = uniform * 8.0 < 1.0 ? 0 : uniform * 8.0 < 6.0 ? 1 : 2;  // in the order of the ids
    ASSERT_EQ(sampler.sample(logits, {}), expected);
  }
}

TEST(Sampler, TheNextDrawNamesEachTokenOnceAfterWhatOtherSequencesAdded) {
  SamplingParams params = plain(0.5f);
  params.frequency_penalty = 0.25f;
  params.repeat_last_n = 4;
  params.logit_bias = {{3, 1.5f}, {7, -infinity}, {9, 2.0f}};
  Sampler sampler(params);
  std::vector<SampleTokens::Adjustment> adjustments(2);  // of another sequence
  const std::vector<std::int32_t> history = {1, 1, 7, 5, 7, 2};
  const SampleTokens::Row row = sampler.next(history, adjustments);
  EXPECT_EQ(row.first_adjustment, 2);
  ASSERT_EQ(row.num_adjustments, 5);
  const std::vector<std::tuple<std::int32_t, std::int32_t, float>> expected = {
      {2, 1, 0.0f}, {3, 0, 1.5f}, {5, 1, 0.0f}, {7, 2, -infinity}, {9, 0, 2.0f}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const SampleTokens::Adjustment& adjustment = adjustments[2 + i];
    EXPECT_EQ(std::tuple(adjustment.id, adjustment.count, adjustment.bias), expected[i]) << i;
  }
  EXPECT_EQ(row.uniform, static_cast<double>(std::mt19937_64(5)() >> 11) / 9007199254740992.0);
  EXPECT_EQ(sampler.next(history, adjustments).uniform, row.uniform) << "its token may not be kept";
  const double second = sampler.next(history, adjustments, 1).uniform;
  EXPECT_NE(second, row.uniform);
  sampler.advance(1);
  EXPECT_EQ(sampler.next(history, adjustments).uniform, second);
}

TEST(Sampler, DrawsAheadAreThoseOfDrawsOneByOne) {
  SamplingParams params = plain(0.5f);
  params.xtc_probability = 0.5f;
  params.min_tokens = 5;
  Sampler sampler(params, {.end_tokens = {3}});
  Sampler plain_sampler(params, {.end_tokens = {3}});
  std::vector<SampleTokens::Adjustment> adjustments;
  const auto numbers = [&](const SampleTokens::Row& row) {
    return std::tuple(row.uniform, row.xtc_threshold, row.num_adjustments);
  };
  for (std::size_t draw = 0; draw < 40;) {  // four rows, of whose tokens one to four are kept
    const std::size_t kept = 1 + draw % 4;
    for (std::size_t ahead = 0; ahead < 4; ++ahead) {
      const auto row = numbers(sampler.next({}, adjustments, ahead));
      if (ahead < kept) {
        EXPECT_EQ(row, numbers(plain_sampler.next({}, adjustments))) << draw + ahead;
        plain_sampler.advance(1);
      }
    }
    sampler.advance(kept);
    draw += kept;
  }
}

TEST(Sampler, BadWordsAreNotDrawnWhole) {
  const Logits logits = {0.0f, 1.0f, 2.0f, 3.0f};
  SamplingParams params = greedy();
  params.bad_words = {{1, 2, 3}, {2}};
  EXPECT_EQ(sample_once(params, logits, {0, 1}), 3) << "1, 3 is another word";
  EXPECT_EQ(sample_once(params, logits, {0, 1, 2}), 1);
  EXPECT_EQ(sample_once(params, logits, {2}), 3) << "the word begins before the history";
  EXPECT_TRUE(params.looks_back());
}

TEST(Sampler, TokensThatEndTheAnswerAreForbiddenBeforeTheLeastNumber) {
  SamplingParams params = greedy();
  params.min_tokens = 2;
  Sampler sampler(params, {.end_tokens = {3, 1}});
  const Logits logits = {0.0f, 1.0f, 0.5f, 2.0f};
  EXPECT_EQ(sampler.sample(logits, {}), 2);
  EXPECT_EQ(sampler.sample(logits, {}), 2);
  EXPECT_EQ(sampler.sample(logits, {}), 3);
}

TEST(Sampler, DryActsBehindBiasAndPenalties) {
  SamplingParams params = plain(0.5f);
  params.dry_multiplier = 0.5f;
  params.dry_base = 2.0f;
  params.repeat_penalty = 2.0f;
  params.logit_bias = {{3, 1.0f}};
  params.bad_words = {{7}};
  Sampler sampler(params);
  std::vector<SampleTokens::Adjustment> adjustments;
  const std::vector<std::int32_t> history = {1, 2, 4, 3, 1, 2, 4};
  const SampleTokens::Row row = sampler.next(history, adjustments);
  const std::vector<std::tuple<std::int32_t, std::int32_t, float, float>> expected = {
      {1, 2, 0.0f, 0.0f}, {2, 2, 0.0f, 0.0f}, {3, 1, 1.0f, 1.0f}, {4, 2, 0.0f, 0.0f}, {7, 0, -infinity, 0.0f}};
  ASSERT_EQ(adjustments.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const SampleTokens::Adjustment& found = adjustments[i];
    EXPECT_EQ(std::tuple(found.id, found.count, found.bias, found.penalty), expected[i]) << i;
  }
  EXPECT_EQ(adjusted(5.0f, row, adjustments[2]), (5.0f + 1.0f) / 2.0f - 1.0f);
}

TEST(Sampler, SameSeedSameTokensAndNoSeedDiffers) {
  const Logits logits = random_logits(1000, 2);
  const auto run = [&](std::optional<std::uint64_t> seed) {
    SamplingParams params;
    params.seed = seed;
    Sampler sampler(params);
    std::vector<std::int32_t> tokens(64);
    std::ranges::generate(tokens, [&] { return sampler.sample(logits, {}); });
    return tokens;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
  EXPECT_NE(run(std::nullopt), run(std::nullopt));
}

/// What a plain sampler in double draws: its own state, and the same random numbers.
class PlainAdaptive {
 public:
  explicit PlainAdaptive(const SamplingParams& params)
      : params_(params),
        random_(*params.seed),
        cut_(2.0 * double{params.mirostat_tau}),
        sum_(double{params.adaptive_target} / (1.0 - double{params.adaptive_decay})),
        weight_(1.0 / (1.0 - double{params.adaptive_decay})) {}

  std::int32_t draw(const Logits& logits) {
    left_ = distribution_of(logits);
    normalise(left_);
    if (params_.mirostat == 1) {
      left_.resize(std::min(left_.size(), zipf_count(logits.size())));
    } else if (params_.mirostat == 2) {
      const double best = left_.front().first;
      std::erase_if(left_, [&](const auto& entry) { return -std::log2(entry.first) > cut_ && entry.first < best; });
    }
    normalise(left_);
    std::ranges::sort(left_, {}, &std::pair<double, std::int32_t>::second);
    std::vector<double> weights;
    for (const auto& [probability, id] : left_) {
      const double target = std::clamp(2.0 * double{params_.adaptive_target} - sum_ / weight_, 0.0, 1.0);
      const double d = std::abs(probability - target) / 0.3;
      weights.push_back(params_.mirostat != 0 ? probability : std::exp(5.0 - 10.0 * d * d / (1.0 + d)));
    }
    const double reached =
        static_cast<double>(random_() >> 11) * 0x1p-53 * std::accumulate(weights.begin(), weights.end(), 0.0);
    double walked = 0.0;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      walked += weights[i];
      if (walked > reached) {
        return left_[i].second;
      }
    }
    return left_.back().second;
  }
  void learn(std::int32_t token) {
    const double probability = std::ranges::find(left_, token, &std::pair<double, std::int32_t>::second)->first;
    cut_ -= double{params_.mirostat_eta} * (-std::log2(probability) - double{params_.mirostat_tau});
    sum_ = probability + double{params_.adaptive_decay} * sum_;
    weight_ = 1.0 + double{params_.adaptive_decay} * weight_;
    surprise_ += -std::log2(probability);
  }
  [[nodiscard]] double surprise() const { return surprise_; }

 private:
  [[nodiscard]] std::size_t zipf_count(std::size_t vocab) const {
    double products = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i + 1 < std::min<std::size_t>(left_.size(), 100); ++i) {
      const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
      products += t * std::log(left_[i].first / left_[i + 1].first);
      squares += t * t;
    }
    const double s = products / squares;
    const double k =
        std::pow((s - 1.0) * std::pow(2.0, cut_) / (1.0 - std::pow(static_cast<double>(vocab), 1.0 - s)), 1.0 / s);
    return static_cast<std::size_t>(std::clamp(k, 1.0, static_cast<double>(vocab)));
  }

  SamplingParams params_;
  std::mt19937_64 random_;
  double cut_;
  double sum_;
  double weight_;
  Distribution left_;
  double surprise_ = 0.0;
};

TEST(Sampler, MirostatAndAdaptivePFollowWhatTheyDrewOverTenThousandRows) {
  constexpr int rows = 10'000;
  for (const int kind : {1, 2, 3}) {
    SCOPED_TRACE(kind);
    SamplingParams params = plain();
    params.mirostat = kind == 3 ? 0 : kind;
    params.mirostat_tau = 3.0f;
    params.adaptive_target = kind == 3 ? 0.2f : -1.0f;
    Sampler sampler(params);
    PlainAdaptive reference(params);
    int different = 0;
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 2.5f);
    Logits logits(60);
    for (int i = 0; i < rows; ++i) {
      std::ranges::generate(logits, [&] { return normal(random); });
      const std::int32_t token = sampler.sample(logits, {});
      different += reference.draw(logits) != token ? 1 : 0;
      ASSERT_GE(token, 0);
      reference.learn(token);
    }
    EXPECT_LE(different, 3) << "the sampler keeps probabilities as floats";
    if (kind != 3) {
      EXPECT_NEAR(reference.surprise() / rows, 3.0, 0.3);
    }
  }
}

TEST(Sampler, WhatTheOrderDoesNotNameIsOff) {
  SamplingParams params = plain();
  params.temperature = 1e-6f;  // draws the likeliest
  params.order = sampler_order_of_names("top_k");
  params.top_k = 2;
  params.repeat_penalty = 100.0f;
  EXPECT_EQ(drawn_set(params, {3.0f, 2.9f, 1.0f}, {0, 0}), (Ids{0, 1})) << "neither temperature nor penalties";
  params.order = sampler_order_of_letters("ekt");
  params.top_k = 1;
  EXPECT_EQ(drawn_set(params, {3.0f, 2.9f, 1.0f}, {0, 0}), Ids{1});
}

}  // namespace
}  // namespace rocmforge
