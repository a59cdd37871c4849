#include "engine/draft_depth.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/ngram_table.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(NgramTable, KnowsWhatFollowedTheLastTokens) {
  NgramTable table(2);
  table.add(Tokens{1, 2, 3, 4, 1, 2, 5}, 0);
  EXPECT_EQ(table.next(Tokens{9, 1, 2}), 5) << "the newer one";
  EXPECT_EQ(table.next(Tokens{3, 4}), 1);
  EXPECT_EQ(table.next(Tokens{2, 4}), -1);
  EXPECT_EQ(table.next(Tokens{2}), -1) << "a run is longer";
  table.add(Tokens{8, 8, 1, 2, 6}, 4);
  EXPECT_EQ(table.next(Tokens{1, 2}), 6);
  EXPECT_EQ(table.next(Tokens{3, 4, 1, 2}), 5) << "a longer run comes first";
  EXPECT_EQ(table.next(Tokens{8, 8}), -1) << "only what was added";
}

TEST(NgramTable, SequencesOfAnotherSaltFindNothing) {
  NgramTable table(2);
  table.add(Tokens{1, 2, 3}, 0, 7);
  EXPECT_EQ(table.next(Tokens{1, 2}, 7), 3);
  EXPECT_EQ(table.next(Tokens{1, 2}), -1);
  EXPECT_EQ(table.next(Tokens{1, 2}, 8), -1);
}

TEST(NgramTable, NewRunsReplaceOldOnesWhenItIsFull) {
  NgramTable table(1, 4);
  Tokens tokens(1000);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i);
  }
  table.add(tokens, 0);
  EXPECT_EQ(table.next(Tokens{998}), 999);
  int known = 0;
  for (std::int32_t token = 0; token < 999; ++token) {
    const std::int32_t next = table.next(Tokens{token});
    EXPECT_TRUE(next == -1 || next == token + 1) << "a foreign entry";
    known += next >= 0 ? 1 : 0;
  }
  EXPECT_LE(known, 16);
}

TEST(StepCost, IsTheShareOfARowsTimeInTheStep) {
  StepCost cost;
  EXPECT_EQ(cost.cost_of_row(1), StepCost::assumed_cost);
  for (int i = 0; i < 100; ++i) {
    cost.add(4, 0.014);
  }
  EXPECT_EQ(cost.cost_of_row(4), StepCost::assumed_cost) << "steps of one size say nothing";
  for (int i = 0; i < 100; ++i) {
    const std::int32_t rows = 1 + i % 9;
    cost.add(rows, 0.010 + 0.001 * rows);
  }
  EXPECT_NEAR(cost.cost_of_row(1), 1.0 / 11.0, 0.01);
  EXPECT_NEAR(cost.cost_of_row(10), 10.0 / 20.0, 0.02);
  cost.add(9, 5.0);
  EXPECT_LT(cost.cost_of_row(1), 0.5) << "one step that was held up says little";
  for (int i = 0; i < 300; ++i) {
    const std::int32_t rows = 1 + i % 9;
    cost.add(rows, 0.005 * rows);
  }
  EXPECT_NEAR(cost.cost_of_row(1), 1.0, 0.02);
  for (int i = 0; i < 300; ++i) {
    const std::int32_t rows = 1 + i % 9;
    cost.add(rows, 0.010);
  }
  EXPECT_NEAR(cost.cost_of_row(8), 0.0, 0.02);
}

/// Tokens drafted and accepted in `steps` steps, where each draft is accepted with a probability of `rate`.
struct Drafted {
  int tokens = 0;
  int accepted = 0;
  int steps = 0;  ///< with drafts
};
Drafted draft(DraftDepth& depth, double rate, double least, int steps) {
  std::mt19937 random(3);
  Drafted all;
  for (int i = 0; i < steps; ++i) {
    const std::int32_t drafted = depth.next(8, least);
    std::int32_t accepted = 0;
    while (accepted < drafted && static_cast<double>(random() % 1000) < 1000.0 * rate) {
      ++accepted;
    }
    depth.take(drafted, accepted);
    all.tokens += drafted;
    all.accepted += accepted;
    all.steps += drafted > 0 ? 1 : 0;
  }
  return all;
}

TEST(DraftDepth, FollowsWhatIsAccepted) {
  DraftDepth depth;
  EXPECT_EQ(depth.next(8, 0.1), 4) << "before anything was seen";
  EXPECT_EQ(depth.next(2, 0.1), 2);
  EXPECT_EQ(depth.next(0, 0.1), 0);
  draft(depth, 1.0, 0.1, 20);
  EXPECT_EQ(depth.next(8, 0.1), 8);
  const Drafted half = draft(depth, 0.5, 0.1, 1000);
  EXPECT_GT(half.tokens, 2 * half.steps);
  EXPECT_LT(half.tokens, 5 * half.steps);
}

TEST(DraftDepth, GoesToNothingWhereNothingIsAccepted) {
  DraftDepth depth;
  draft(depth, 0.0, 0.1, 500);
  const Drafted later = draft(depth, 0.0, 0.1, 1000);
  EXPECT_LE(later.tokens, 1000 / DraftDepth::longest_pause + 1) << "one token after each pause";
  EXPECT_GE(later.tokens, 10);
  const Drafted copies = draft(depth, 1.0, 0.1, 200);
  EXPECT_GT(copies.accepted, 800) << "it comes back";
}

TEST(DraftDepth, BeginsAsOtherSequencesWent) {
  AcceptedRate usual(1.0 / 32);
  EXPECT_EQ(usual.rate(), AcceptedRate::assumed);
  for (int i = 0; i < 200; ++i) {
    usual.take(3, 0);
  }
  EXPECT_LT(usual.rate(), 0.01);
  DraftDepth depth;
  EXPECT_EQ(depth.next(8, 0.1, usual.rate()), 1) << "one is tried";
  depth.take(1, 0);
  EXPECT_TRUE(depth.pauses());
  DraftDepth other;
  EXPECT_EQ(other.next(8, 0.1, 0.9), 8);
  other.take(8, 8);
  EXPECT_EQ(other.next(8, 0.1, 0.0), 8) << "its own drafts say more";
  usual.take(8, 8);
  EXPECT_GT(usual.rate(), 0.2);
}

TEST(DraftDepth, StaysAtNothingWhereAcceptedTokensDoNotPay) {
  DraftDepth depth;
  draft(depth, 0.5, 0.9, 200);
  const Drafted later = draft(depth, 0.5, 0.9, 1000);
  EXPECT_LT(later.tokens, 250);
}

}  // namespace
}  // namespace rocmforge
