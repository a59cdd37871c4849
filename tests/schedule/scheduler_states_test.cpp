// Slots of recurrent state beside blocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(SchedulerStates, NoSequenceRunsWithoutSlotsOfItsOwn) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 100}, 64, 4, false, 7);
  EXPECT_EQ(bench.scheduler->limits().max_sequences, 3);
  for (RequestId id = 1; id <= 8; ++id) {
    bench.submit(id, counting(0, 5), 3);
  }
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 5), Pair(2, 5), Pair(3, 5)));
  EXPECT_EQ(bench.slots->num_free(), 1);
  bench.run();
  EXPECT_EQ(bench.finished.size(), 8u);
  EXPECT_EQ(bench.slots->num_free(), 7);
}

TEST(SchedulerStates, APrefixIsReusedUpToItsKeptState) {
  Bench bench({.max_batch_tokens = 10, .max_sequences = 2, .context_length = 100}, 64, 4, true, 12);
  bench.submit(1, counting(0, 22), 8);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10)));  // state behind 8
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10)));  // behind 20
  bench.run();
  EXPECT_EQ(bench.cache->num_states(), 2);
  Tokens longer = bench.finished.at(1).tokens;  // all its blocks are known, those of the answer without a state
  longer.push_back(7);
  bench.submit(2, longer, 1);
  Tokens other = counting(0, 22);
  other[17] = 99;
  bench.submit(3, other, 1);
  bench.submit(4, counting(0, 22), 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 20);
  EXPECT_EQ(bench.finished.at(3).prefix_hits, 8) << "behind its four common blocks no state was kept";
  EXPECT_EQ(bench.finished.at(4).prefix_hits, 20);
  for (const RequestId id : {2, 3, 4}) {
    EXPECT_EQ(bench.finished.at(id).tokens, alone(id == 2 ? longer : id == 3 ? other : counting(0, 22), 1));
  }
  bench.cache->evict(64);
  EXPECT_EQ(bench.slots->num_free(), 12) << "a state goes with its block";
}

TEST(SchedulerStates, KeptStatesGiveWayToSequences) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 100}, 64, 4, true, 7);
  for (RequestId id = 1; id <= 6; ++id) {
    bench.submit(id, counting(100 * static_cast<std::int32_t>(id), 9), 3);
    bench.run();
  }
  EXPECT_EQ(bench.slots->num_free(), 2);
  EXPECT_EQ(bench.cache->num_evictable_states(), 5) << "of the last five prompts";
  bench.submit(7, counting(500, 9), 3);
  bench.submit(8, counting(600, 9), 3);
  EXPECT_EQ(bench.step().size(), 2u);
  EXPECT_EQ(bench.scheduler->prefix_hits(), 16) << "the states that are still wanted are the last to go";
  bench.run();
}

TEST(SchedulerStates, AnswersToOnePromptStartFromItsKeptState) {
  for (const bool prefix : {false, true}) {
    Bench bench({.max_batch_tokens = 64, .max_sequences = 4, .context_length = 100}, 64, 4, prefix, 12);
    const Tokens prompt = counting(0, 10);
    bench.submit(1, prompt, 6);
    bench.submit(2, prompt, 6, 0, 1);
    bench.submit(3, prompt, 6, 0, 1);
    EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10))) << "the prompt is computed once";
    EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 2)));
    EXPECT_EQ(bench.copied_blocks, 0) << "they share whole blocks";
    bench.cancel(1);
    bench.run();
    for (const RequestId id : {2, 3}) {
      EXPECT_EQ(bench.finished.at(id).tokens, alone(prompt, 6));
      EXPECT_EQ(bench.finished.at(id).prefix_hits, 8);
    }
    EXPECT_EQ(bench.slots_available(), 12);
  }
}

}  // namespace
}  // namespace rocmforge
