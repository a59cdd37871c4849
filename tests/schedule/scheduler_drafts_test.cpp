// Drafted tokens in a step: how many fit, and what is left of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// The tokens that follow, the last of them wrong.
Tokens right_but_the_last(const Sequence& sequence, std::int32_t count) {
  Tokens tokens = alone(Tokens(sequence.tokens.begin(), sequence.tokens.begin() + sequence.length()), count);
  tokens.erase(tokens.begin(), tokens.begin() + sequence.length());
  if (!tokens.empty()) {
    tokens.back() = -1;
  }
  return tokens;
}

TEST(SchedulerDrafts, AcceptedOnesAreCommittedAndTheBlocksOfTheOthersAreFree) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 100}, 16);
  bench.submit(1, counting(0, 6), 20);
  bench.step();
  bench.draft = [](const Sequence& sequence) { return right_but_the_last(sequence, 8); };
  EXPECT_EQ(bench.allocator.num_free(), 14);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 9)));  // 7 accepted, and the token drawn in place of the last
  EXPECT_EQ(bench.unfinished.at(1)->generated(), 9);
  EXPECT_EQ(bench.unfinished.at(1)->cache.computed_tokens, 14);
  EXPECT_EQ(bench.allocator.num_free(), 12) << "blocks of 15 positions";
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 6), 20));
}

TEST(SchedulerDrafts, LeaveHalfOfAStepToPrompts) {
  Bench bench({.max_batch_tokens = 21, .max_sequences = 4, .context_length = 100}, 64);
  bench.submit(1, counting(0, 2), 60);
  bench.step();
  bench.submit(2, counting(50, 40), 1);
  bench.draft = [](const Sequence& sequence) {
    return sequence.phase == SequencePhase::decode ? right_but_the_last(sequence, 30) : Tokens();
  };
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 11), Pair(2, 10)));
  bench.run();
  Bench rows({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 100, .max_logit_rows = 5}, 64);
  rows.submit(1, counting(0, 2), 60);
  rows.step();
  rows.draft = bench.draft;
  EXPECT_THAT(rows.step(), ElementsAre(Pair(1, 3)));
}

TEST(SchedulerDrafts, EndWhereTheAnswerOrTheContextEnds) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 20}, 16);
  bench.submit(1, counting(0, 6), 4);
  bench.submit(2, counting(0, 16), -1);
  EXPECT_EQ(bench.scheduler->max_drafts(*bench.unfinished.at(1)), 0) << "it waits";
  bench.step();
  EXPECT_EQ(bench.scheduler->max_drafts(*bench.unfinished.at(1)), 2) << "of four tokens one is drawn, and one comes behind";
  EXPECT_EQ(bench.scheduler->max_drafts(*bench.unfinished.at(2)), 3);
  bench.draft = [](const Sequence& sequence) { return right_but_the_last(sequence, 9); };
  bench.step();
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 6), 4));
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(0, 16), 5));
}

TEST(SchedulerDrafts, TakeNoBlockThatASequenceNeeds) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 16}, 4);
  bench.submit(1, counting(0, 6), 8);
  bench.submit(2, counting(9, 3), 8);
  bench.step();
  bench.draft = [](const Sequence& sequence) { return right_but_the_last(sequence, 7); };
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 6), Pair(2, 1))) << "one block was free";
  EXPECT_EQ(bench.scheduler->num_preemptions(), 0);
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 6), 8));
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(9, 3), 8));
}

/// The state behind rejected drafts is lost: the accepted tokens are computed again, with the next drafts.
TEST(SchedulerDrafts, AStateIsComputedAgainFromBeforeRejectedOnes) {
  Bench bench({.max_batch_tokens = 20, .max_sequences = 2, .context_length = 100}, 64, 4, false, 7);
  bench.submit(1, counting(0, 6), 30);
  bench.step();
  EXPECT_EQ(bench.scheduler->max_drafts(*bench.unfinished.at(1)), 9) << "20 tokens for two sequences";
  bench.draft = [](const Sequence& sequence) { return right_but_the_last(sequence, 4); };
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 5)));
  const Sequence& sequence = *bench.unfinished.at(1);
  EXPECT_EQ(sequence.generated(), 5);
  EXPECT_EQ(sequence.cache.computed_tokens, 6);
  EXPECT_EQ(sequence.pending(), 5);
  EXPECT_EQ(sequence.phase, SequencePhase::decode);
  EXPECT_EQ(bench.scheduler->max_drafts(sequence), 5);
  bench.draft = nullptr;
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 5)));
  EXPECT_EQ(sequence.pending(), 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 6), 30));
}

TEST(SchedulerDrafts, NoStepIsAheadOfOneWithDrafts) {
  Bench bench({.max_batch_tokens = 20, .max_sequences = 2, .context_length = 100}, 64);
  bench.submit(1, counting(0, 6), 30);
  bench.step();
  Sequence& sequence = *bench.unfinished.at(1);
  sequence.set_drafts(counting(70, 2));
  const std::span<const ScheduledChunk> batch = bench.scheduler->next_batch();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].drafts(), 2);
  EXPECT_TRUE(bench.scheduler->next_ahead(batch).empty());
  const Tokens wrong{70, 72, 5};
  EXPECT_THROW(bench.scheduler->commit(batch[0], wrong), LogicError) << "the second is no accepted draft";
}

}  // namespace
}  // namespace rocmforge
