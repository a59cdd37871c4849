#include "engine/dry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "engine/fake_model.h"
#include "linear_growth.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;
using Lengths = std::map<std::int32_t, std::size_t>;

SamplingParams params(std::int32_t allowed_length = 2, std::int32_t last_n = -1) {
  SamplingParams params;
  params.dry_multiplier = 0.75f;
  params.dry_base = 1.75f;
  params.dry_allowed_length = allowed_length;
  params.dry_last_n = last_n;
  params.dry_breakers.clear();
  return params;
}

/// By the definition: for each earlier place, the tokens before it that stand at the end too.
Lengths lengths_of(const Tokens& history, std::size_t last_n, std::size_t allowed_length, std::size_t most) {
  const Tokens window(history.end() - static_cast<std::ptrdiff_t>(std::min(history.size(), last_n)), history.end());
  Lengths lengths;
  for (std::size_t place = 1; place < window.size(); ++place) {
    std::size_t length = 0;
    while (length < std::min(place, most) && window[place - 1 - length] == window[window.size() - 1 - length]) {
      ++length;
    }
    if (length >= std::max<std::size_t>(allowed_length, 1)) {
      lengths[window[place]] = std::max(lengths[window[place]], length);
    }
  }
  return lengths;
}

std::map<std::int32_t, float> penalties(Dry& dry, const Tokens& history) {
  std::map<std::int32_t, float> found;
  for (const Dry::Penalty& penalty : dry.next(history)) {
    EXPECT_TRUE(found.emplace(penalty.token, penalty.amount).second) << "each token once";
    EXPECT_EQ(found.rbegin()->first, penalty.token) << "ascending";
  }
  return found;
}

TEST(Dry, EqualsItsDefinitionOnRandomHistories) {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const std::int32_t allowed_length = static_cast<std::int32_t>(random() % 3) + 1;
    const std::int32_t last_n = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(random() % 40);
    Dry dry(params(allowed_length, last_n), nullptr);
    Tokens history;
    for (int step = 0; step < 60; ++step) {
      history.push_back(static_cast<std::int32_t>(random() % 3));
      std::map<std::int32_t, float> expected;
      for (const auto& [token, length] :
           lengths_of(history, static_cast<std::size_t>(last_n), static_cast<std::size_t>(allowed_length), history.size())) {
        expected[token] = static_cast<float>(0.75 * std::pow(1.75, static_cast<double>(length) - allowed_length));
      }
      const auto found = penalties(dry, history);
      ASSERT_EQ(found.size(), expected.size()) << "round " << round << ", step " << step;
      for (const auto& [token, amount] : expected) {
        ASSERT_NEAR(found.at(token), amount, 1e-5 * amount);
      }
    }
  }
}

TEST(Dry, PenalisesWhatFollowedTheSameText) {
  Dry dry(params(), nullptr);
  EXPECT_TRUE(penalties(dry, {1, 2, 3, 9, 2}).empty()) << "one repeated token is allowed";
  Dry longer(params(), nullptr);
  const auto found = penalties(longer, {1, 2, 3, 4, 9, 2, 3});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found.at(4), 0.75f);
  Dry longest(params(), nullptr);
  EXPECT_FLOAT_EQ(penalties(longest, {1, 2, 3, 4, 9, 1, 2, 3}).at(4), 0.75f * 1.75f);
}

TEST(Dry, AVeryLongRepetitionStaysFinite) {
  Dry dry(params(), nullptr);
  const auto found = penalties(dry, Tokens(5000, 7));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(std::isfinite(found.at(7)));
  EXPECT_GT(found.at(7), 1e20f);
}

class DryBreakers : public ::testing::Test {
 protected:
  static Tokens encode(std::string_view text) { return byte_ids(text); }
  static std::int32_t token_of(char letter) { return byte_ids(std::string_view(&letter, 1)).front(); }
  std::map<std::int32_t, float> after(std::string_view text, std::vector<std::string> breakers) const {
    SamplingParams chosen = params();
    chosen.dry_breakers = std::move(breakers);
    Dry dry(chosen, tokenizer_);
    return penalties(dry, encode(text));
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = byte_tokenizer();
};

TEST_F(DryBreakers, NoRepetitionGoesAcrossOne) {
  EXPECT_EQ(after("ab:cd.ab:c", {}).size(), 1u);
  EXPECT_TRUE(after("ab:cd.ab:c", {":"}).empty()) << "only 'c' stands behind the breaker";
  EXPECT_EQ(after("ab:cde.ab:cd", {":"}).count(token_of('e')), 1u);
  EXPECT_FLOAT_EQ(after("ab:cde.ab:cd", {":"}).at(token_of('e')), 0.75f) << "'cd' alone counts";
}

TEST_F(DryBreakers, MayHaveSeveralTokens) {
  EXPECT_TRUE(after("x-->ab. x-->a", {"-->"}).empty());
  EXPECT_FALSE(after("x-->ab. x-->a", {"--]"}).empty());
}

TEST_F(DryBreakers, AreNotPenalised) {
  EXPECT_EQ(after("ab\nxab", {}).count(token_of('\n')), 1u);
  EXPECT_TRUE(after("ab\nxab", {"\n"}).empty());
}

TEST_F(DryBreakers, AreFoundAgainInAShiftedHistory) {
  SamplingParams chosen = params();
  chosen.dry_breakers = {":"};
  Dry dry(chosen, tokenizer_);
  Tokens history = encode("some more text: abc.abc:ab");
  EXPECT_EQ(penalties(dry, history).count(token_of('c')), 1u);
  const Tokens shifted = encode("abc.ab");
  EXPECT_EQ(penalties(dry, shifted).count(token_of('c')), 1u);
}

TEST(DryScale, TimeGrowsAsTheHistoryDoes) {
  const auto work = [](std::size_t size) {
    Dry dry(params(), nullptr);
    Tokens history(size, 5);
    history[size / 2] = 6;
    history.back() = 6;
    ASSERT_EQ(dry.next(history).size(), 1u);
  };
  EXPECT_LE(test::growth_of_time(work, std::size_t{1000}, 1000 * test::growth_of_input), test::most_linear_growth);
}

}  // namespace
}  // namespace rocmforge
