// Groups of pages with a window beside the one without.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// A cache for `context` positions and the blocks that an engine gives a window's group.
Bench windowed(const SchedulerLimits& limits, std::int32_t window, std::int32_t block_tokens, bool prefix) {
  const std::int32_t full = limits.context_length / block_tokens;
  const std::int32_t blocks = window_blocks(window, block_tokens, full, limits.max_sequences, limits.max_batch_tokens);
  return {limits, full, block_tokens, prefix, 0, {{window, blocks}}};
}

TEST(SchedulerWindows, TakeOneWindowAndOneChunkOfTheLongestContext) {
  constexpr std::int32_t context = 128 * 1024;
  constexpr std::int32_t window = 1024;
  constexpr std::int32_t block_tokens = 64;
  for (const bool prefix : {false, true}) {
    Bench bench =
        windowed({.max_batch_tokens = 512, .max_sequences = 1, .context_length = context}, window, block_tokens, prefix);
    EXPECT_EQ(bench.allocator.num_blocks(), context / block_tokens);
    EXPECT_EQ(bench.groups[0].allocator->num_blocks(), 17 + 1 + 512 / block_tokens) << "a window, and a step's tokens";
    bench.submit(1, counting(0, context - 600), 500);
    std::int32_t tokens = 0;
    std::int32_t most_held = 0;
    while (bench.scheduler->has_work()) {
      const std::span<const ScheduledChunk> batch = bench.scheduler->next_batch();
      ASSERT_EQ(batch.size(), 1u);
      Sequence& sequence = *batch[0].sequence;
      const PageTable& held = sequence.cache.windows[0].pages;
      most_held = std::max(most_held, held.num_held());
      for (std::int32_t p = first_seen(window, batch[0].first); p < batch[0].first + batch[0].count; p += block_tokens) {
        ASSERT_GE(held.blocks()[static_cast<std::size_t>(p / block_tokens)], 0);
      }
      tokens += batch[0].count;
      ASSERT_TRUE(batch[0].completes || batch[0].count == 512) << "the chunk finds its blocks";
      bench.commit(batch[0], 7);
      if (sequence.generated() == 500) {
        bench.scheduler->finish(sequence, FinishReason::length);
      }
    }
    EXPECT_EQ(tokens, context - 600 + 499);
    EXPECT_LE(most_held, (window + 512) / block_tokens + 1);
    EXPECT_EQ(bench.scheduler->num_preemptions(), 0);
    EXPECT_EQ(bench.window_blocks_available(0), bench.groups[0].allocator->num_blocks());
  }
}

TEST(SchedulerWindows, ASequenceRunsWithItsWholeWindowOrNotAtAll) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 8, .context_length = 100}, 200, 4, false, 0, {{8, 7}});
  for (RequestId id = 1; id <= 3; ++id) {
    bench.submit(id, counting(0, 30), 5);
  }
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 16))) << "three blocks for the window, one more for the step";
  EXPECT_EQ(bench.scheduler->num_running(), 2) << "two windows of three blocks, and one to spare";
  bench.run();
  EXPECT_EQ(bench.finished.size(), 3u);
  for (const auto& [id, result] : bench.finished) {
    EXPECT_EQ(result.tokens, alone(counting(0, 30), 5));
  }
}

TEST(SchedulerWindows, AHitNeedsOnlyTheBlocksOfItsWindow) {
  Bench bench = windowed({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 160}, 6, 4, true);
  bench.submit(1, counting(0, 40), 8);
  bench.run();
  const Tokens answer = bench.finished.at(1).tokens;                          // 48 tokens, 47 of them computed
  bench.cache->evict_window(0, bench.groups[0].allocator->num_blocks() - 2);  // the last two blocks are left
  EXPECT_EQ(bench.cache->num_evictable(0), 2);
  Tokens longer = answer;
  longer.push_back(7);
  bench.submit(2, longer, 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 44);
  EXPECT_EQ(bench.finished.at(2).tokens, alone(longer, 1));
}

TEST(SchedulerWindows, AHitThatLacksBlocksOfItsWindowIsShortened) {
  Bench bench = windowed({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 160}, 6, 4, true);
  bench.submit(1, counting(0, 41), 1);
  bench.run();
  EXPECT_EQ(bench.cache->num_evictable(0), 10);
  bench.submit(2, counting(0, 21), 1);  // now its window's blocks are the most recently used
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 20);
  bench.cache->evict_window(0, bench.groups[0].allocator->num_blocks() - 2);
  bench.submit(3, counting(0, 41), 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(3).prefix_hits, 20) << "all its blocks are known, but not what stood in the window";
  EXPECT_EQ(bench.finished.at(3).tokens, alone(counting(0, 41), 1));
  bench.submit(4, counting(0, 41), 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(4).prefix_hits, 40) << "what was computed again is known again";
  bench.cache->evict(bench.allocator.num_blocks());
  EXPECT_EQ(bench.groups[0].allocator->num_free(), bench.groups[0].allocator->num_blocks()) << "it goes with its block";
}

TEST(SchedulerWindows, AnswersToOnePromptShareItsWindow) {
  for (const bool prefix : {false, true}) {
    for (const std::int32_t length : {16, 17, 18, 30}) {
      Bench bench = windowed({.max_batch_tokens = 64, .max_sequences = 4, .context_length = 160}, 5, 4, prefix);
      const Tokens prompt = counting(0, length);
      bench.submit(1, prompt, 9);
      bench.submit(2, prompt, 9, 0, 1);
      bench.submit(3, prompt, 9, 0, 1);
      EXPECT_THAT(bench.step(), ElementsAre(Pair(1, length))) << "the prompt is computed once";
      EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
      bench.run();
      for (const RequestId id : {1, 2, 3}) {
        EXPECT_EQ(bench.finished.at(id).tokens, alone(prompt, 9));
      }
      EXPECT_EQ(bench.window_blocks_available(0), bench.groups[0].allocator->num_blocks());
    }
  }
}

TEST(SchedulerWindows, AnAnswerThatStartsLateComputesWhatNobodyHasAnyMore) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 1, .context_length = 160}, 40, 4, false, 0, {{5, 40}});
  const Tokens prompt = counting(0, 22);
  bench.submit(1, prompt, 30);
  bench.submit(2, prompt, 5, 0, 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(2).tokens, alone(prompt, 5));
}

TEST(SchedulerWindows, AStepAheadKeepsWhatItsTokenSees) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 160}, 40, 4, false, 0, {{5, 6}});
  bench.submit(1, counting(0, 11), 30);
  bench.step();
  for (int step = 0; step < 12; ++step) {
    const std::span<const ScheduledChunk> batch = bench.scheduler->next_batch();
    const std::vector<ScheduledChunk> computing(batch.begin(), batch.end());
    const std::vector<ScheduledChunk> ahead = bench.scheduler->next_ahead(computing);
    ASSERT_EQ(ahead.size(), 1u);
    const std::int32_t position = ahead[0].first;
    bench.commit(computing[0], Bench::next_token(computing[0].sequence->tokens));
    const std::span<const BlockId> held = ahead[0].sequence->cache.windows[0].pages.blocks();
    for (std::int32_t p = first_seen(5, position); p <= position; ++p) {
      ASSERT_GE(held[static_cast<std::size_t>(p / 4)], 0);
    }
    ASSERT_LE(ahead[0].sequence->cache.windows[0].pages.num_held(), most_blocks_seen(5, 4) + 1);
    bench.commit(ahead[0], Bench::next_token(ahead[0].sequence->tokens));
  }
}

TEST(SchedulerWindows, TheContextIsNoLongerThanAWindowsBlocksAllow) {
  const SchedulerLimits limits{.max_batch_tokens = 16, .max_sequences = 1, .context_length = 160};
  EXPECT_EQ(Bench(limits, 40, 4, false, 0, {{9, 3}}).scheduler->limits().context_length, 160);
  EXPECT_EQ(Bench(limits, 40, 4, false, 0, {{9, 2}}).scheduler->limits().context_length, 8);
}

}  // namespace
}  // namespace rocmforge
