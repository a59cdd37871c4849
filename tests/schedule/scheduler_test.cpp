#include "schedule/scheduler_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "base/error.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(Scheduler, ASequenceWhosePromptIsReadFromFilesHoldsNoOther) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 64}, 32);
  bench.submit(1, counting(0, 5), 2);
  Sequence& reading = *bench.unfinished.at(1);
  reading.awaits_files = true;
  EXPECT_TRUE(bench.scheduler->has_work());
  EXPECT_FALSE(bench.scheduler->can_run());
  EXPECT_TRUE(bench.step().empty());
  bench.submit(2, counting(7, 3), 1);
  EXPECT_TRUE(bench.scheduler->can_run());
  const std::vector<std::pair<RequestId, std::int32_t>> other{{2, 3}};
  EXPECT_EQ(bench.step(), other);
  reading.awaits_files = false;
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 5), 2));
}

TEST(Scheduler, RefusesWhatCanNeverRun) {
  Bench bench({.max_batch_tokens = 8, .max_sequences = 2, .context_length = 100}, 5);
  EXPECT_EQ(bench.scheduler->limits().context_length, 20) << "the context can't exceed the cache";
  const auto reason = [&](auto change) {
    Request request;
    request.prompt = counting(0, 3);
    change(request);
    return bench.submit(1, std::move(request)).message;
  };
  EXPECT_EQ(reason([](Request& r) { r.prompt.clear(); }), "the prompt is empty");
  EXPECT_EQ(reason([](Request& r) { r.prompt = counting(0, 21); }), "the prompt has 21 tokens, the context holds 20");
  EXPECT_THAT(reason([](Request& r) { r.logprobs = 21; }), HasSubstr("logprobs is 21"));
  EXPECT_THAT(reason([](Request& r) { r.max_tokens = -2; }), HasSubstr("max_tokens is -2"));
  EXPECT_THAT(reason([](Request& r) { r.keep = -1; }), HasSubstr("keep is -1"));
  EXPECT_THAT(reason([](Request& r) { r.keep = 20, r.context_policy = ContextPolicy::shift; }), HasSubstr("keep is 20"));
  EXPECT_THAT(reason([](Request& r) { r.sampling.top_p = 2.0f; }), HasSubstr("top_p is 2"));
  EXPECT_FALSE(bench.scheduler->has_work());
}

TEST(Scheduler, StartsInOrderOfArrivalAndCutsPromptsToTheBudget) {
  Bench bench({.max_batch_tokens = 8, .max_sequences = 4, .context_length = 100}, 64);
  bench.submit(1, counting(0, 20), 3);
  bench.submit(2, counting(50, 5), 3);
  bench.submit(3, counting(70, 5), 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 4), Pair(2, 4)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 5)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 20), 3));
  EXPECT_EQ(bench.finished.at(3).tokens, alone(counting(70, 5), 3));
}

TEST(Scheduler, DecodesComeBeforePromptsSoThatALongPromptDoesNotStopThem) {
  Bench bench({.max_batch_tokens = 4, .max_sequences = 4, .context_length = 100}, 64);
  bench.submit(1, counting(0, 2), 6);
  bench.step();
  bench.submit(2, counting(0, 40), 2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 3)));
  }
  EXPECT_THAT(bench.step(), ElementsAre(Pair(2, 4)));
}

TEST(Scheduler, WorkGoesOnWhileAnythingRunsThoughNothingWaits) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 100}, 64);
  bench.submit(1, counting(0, 4), 5);
  bench.step();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(bench.scheduler->num_waiting(), 0);
    ASSERT_TRUE(bench.scheduler->has_work());
    EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1)));
  }
  EXPECT_FALSE(bench.scheduler->has_work());
  EXPECT_THAT(bench.step(), IsEmpty());
}

TEST(Scheduler, RunsAtMostMaxSequences) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 100}, 64);
  for (RequestId id = 1; id <= 5; ++id) {
    bench.submit(id, counting(0, 3), 4);
  }
  while (bench.scheduler->has_work()) {
    EXPECT_LE(bench.step().size(), 2u);
  }
  EXPECT_EQ(bench.finished.size(), 5u);
  EXPECT_EQ(bench.allocator.num_free(), 64);
}

TEST(Scheduler, ASequenceWaitsReadsItsPromptAndDecodes) {
  Bench bench({.max_batch_tokens = 4, .max_sequences = 1, .context_length = 100}, 64);
  bench.submit(1, counting(0, 7), 5);
  const Sequence& sequence = *bench.scheduler->waiting()[0];
  EXPECT_EQ(sequence.phase, SequencePhase::waiting);
  bench.step();
  EXPECT_EQ(sequence.phase, SequencePhase::prefill);
  bench.step();
  EXPECT_EQ(sequence.phase, SequencePhase::decode);
  bench.submit(2, counting(50, 3), 1, -1);
  bench.step();
  EXPECT_EQ(sequence.phase, SequencePhase::waiting) << "a better priority has taken its place";
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 7), 5));
}

TEST(Scheduler, AChunkBringsNoMoreTokensThanItDraws) {
  Bench bench({.max_batch_tokens = 4, .max_sequences = 2, .context_length = 100}, 64);
  bench.submit(1, counting(0, 6), 5);
  const Tokens two = {7, 8};
  const ScheduledChunk first = bench.scheduler->next_batch()[0];
  EXPECT_EQ(first.draws, 0);
  EXPECT_THROW(bench.scheduler->commit(first, std::span(two).first(1)), LogicError);
  bench.scheduler->commit(first, {});
  const ScheduledChunk last = bench.scheduler->next_batch()[0];
  EXPECT_EQ(last.draws, 1);
  EXPECT_THROW(bench.scheduler->commit(last, two), LogicError);
  bench.scheduler->commit(last, std::span(two).first(1));
  EXPECT_THAT(std::span(last.sequence->tokens).last(2), ElementsAre(5, 7));
}

TEST(Scheduler, SequenceThatFillsTheWholeCacheRunsToTheEnd) {
  for (const bool prefix : {false, true}) {
    Bench bench({.max_batch_tokens = 8, .max_sequences = 4, .context_length = 1000}, 5, 4, prefix);
    bench.submit(1, counting(0, 20), -1);  // the prompt alone fills it
    bench.submit(2, counting(0, 3), -1);
    bench.submit(3, counting(0, 19), -1);
    bench.run();
    EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 20), 1));
    EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(0, 3), 18));
    EXPECT_EQ(bench.finished.at(3).tokens, alone(counting(0, 19), 2));
    EXPECT_EQ(bench.finished.at(2).finish, FinishReason::context);
    EXPECT_EQ(bench.blocks_available(), 5);
  }
}

TEST(Scheduler, TwoThatWantTheLastBlock) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 4, .context_length = 1000}, 5);
  bench.submit(1, counting(0, 8), 8);  // 2 blocks, grows to 4
  bench.submit(2, counting(100, 7), 8);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 8), Pair(2, 7)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1))) << "the elder takes the last block";
  EXPECT_EQ(bench.allocator.num_free(), 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1))) << "the younger one gives way";
  EXPECT_EQ(bench.scheduler->num_preemptions(), 1);
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 8), 8));
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(100, 7), 8));
  EXPECT_EQ(bench.allocator.num_free(), 5);
}

TEST(Scheduler, NewcomerDoesNotTakeTheBlockThatARunningOneNeedsNext) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 4, .context_length = 1000}, 4);
  bench.submit(1, counting(0, 8), 4);  // fills two blocks, its next token needs a third
  bench.step();
  bench.submit(2, counting(100, 8), 2);  // two blocks are free
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1)));
  bench.run();
  EXPECT_EQ(bench.scheduler->num_preemptions(), 0);
}

TEST(Scheduler, PreemptionChangesNoTokenAndKeepsTheOrderOfArrival) {
  for (const bool prefix : {false, true}) {
    Bench bench({.max_batch_tokens = 32, .max_sequences = 8, .context_length = 60}, 24, 4, prefix);
    for (RequestId id = 1; id <= 8; ++id) {
      bench.submit(id, counting(static_cast<std::int32_t>(id) * 100, 8), 40);
    }
    bench.run();
    EXPECT_GT(bench.scheduler->num_preemptions(), 3);
    ASSERT_EQ(bench.finished.size(), 8u);
    for (const auto& [id, result] : bench.finished) {
      EXPECT_EQ(result.tokens, alone(counting(static_cast<std::int32_t>(id) * 100, 8), 40));
      EXPECT_EQ(result.prefix_hits, 0) << "its own blocks found again after a preemption are no hits of the prompt";
    }
    EXPECT_EQ(bench.blocks_available(), 24);
  }
}

TEST(Scheduler, CancelFreesPagesAtOnceInEveryState) {
  Bench bench({.max_batch_tokens = 8, .max_sequences = 2, .context_length = 100}, 32);
  bench.submit(1, counting(0, 6), 50);
  bench.submit(2, counting(0, 30), 50);
  bench.submit(3, counting(0, 6), 50);
  bench.step();
  bench.step();
  bench.cancel(3);  // waiting
  EXPECT_EQ(bench.scheduler->num_waiting(), 0);
  bench.cancel(2);  // in its prompt
  EXPECT_EQ(bench.allocator.num_free(), 30);
  bench.cancel(1);  // decoding
  EXPECT_EQ(bench.allocator.num_free(), 32);
  bench.cancel(1);
  bench.cancel(77);
  EXPECT_FALSE(bench.scheduler->has_work());
  bench.step();
  ASSERT_EQ(bench.finished.size(), 3u);
  for (const auto& [id, result] : bench.finished) {
    EXPECT_EQ(result.finish, FinishReason::cancelled);
  }
}

TEST(Scheduler, CancelWithinAStepIgnoresTheChunkOnItsWay) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 100}, 32);
  bench.submit(1, counting(0, 6), 5);
  bench.submit(2, counting(50, 6), 5);
  const auto batch = bench.scheduler->next_batch();
  ASSERT_EQ(batch.size(), 2u);
  bench.compute(batch);
  bench.cancel(1);
  for (const ScheduledChunk& chunk : batch) {
    bench.commit(chunk, Bench::next_token(chunk.sequence->tokens));
  }
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, counting(0, 6));
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(50, 6), 5));
  EXPECT_EQ(bench.allocator.num_free(), 32);
}

TEST(Scheduler, PrefixOfAFinishedAndOfARunningSequenceIsReused) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 4, .context_length = 100}, 32, 4, true);
  bench.submit(1, counting(0, 12), 20);
  bench.step();
  bench.submit(2, counting(0, 14), 3);  // while the first one runs
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 2)));
  bench.run();
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 12);
  // The next turn of a conversation: the answer's blocks are in the prefix cache too.
  Tokens next = bench.finished.at(1).tokens;
  ASSERT_EQ(next.size(), 32u);
  next.push_back(5);
  bench.submit(3, next, 2);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 5)))
      << "the last token sampled was never computed, so its block is not full";
  bench.run();
  EXPECT_EQ(bench.finished.at(3).prefix_hits, 28);
  EXPECT_EQ(bench.finished.at(3).tokens, alone(next, 2));
}

TEST(Scheduler, CachedPrefixesGiveWayWhenBlocksAreNeeded) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 4, .context_length = 40}, 10, 4, true);
  for (RequestId id = 1; id <= 6; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 1000, 30), 5);
    bench.run();
  }
  EXPECT_EQ(bench.finished.size(), 6u);
  EXPECT_EQ(bench.scheduler->num_preemptions(), 0);
  EXPECT_EQ(bench.blocks_available(), 10);
}

TEST(Scheduler, ShiftDropsTheOlderHalfAfterTheKeptTokens) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 4, .context_length = 20}, 10, 4, true);
  Request request;
  request.prompt = counting(0, 20);
  request.context_policy = ContextPolicy::shift;
  request.keep = 6;
  request.max_tokens = 30;
  ASSERT_EQ(bench.submit(1, std::move(request)).message, "");
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 20)));
  // 21 tokens: 6 are kept, 7 of the other 15 go. One block of the kept start stays as it is.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10)));
  bench.run();
  const Bench::Result& result = bench.finished.at(1);
  EXPECT_EQ(result.finish, FinishReason::length);
  EXPECT_LE(result.tokens.size(), 21u);
  EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.begin() + 6, counting(0, 6).begin()));
  EXPECT_EQ(bench.blocks_available(), 10);
}

TEST(Scheduler, LowerPrioritiesRunFirstAndEqualOnesInOrderOfArrival) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 1, .context_length = 100}, 64);
  bench.submit(1, counting(0, 4), 2, 5);
  bench.submit(2, counting(10, 4), 2, 0);
  bench.submit(3, counting(20, 4), 2, -3);
  bench.submit(4, counting(30, 4), 2, 0);
  std::vector<RequestId> order;
  while (bench.scheduler->has_work()) {
    const auto parts = bench.step();
    ASSERT_EQ(parts.size(), 1u);
    if (order.empty() || order.back() != parts[0].first) {
      order.push_back(parts[0].first);
    }
  }
  EXPECT_THAT(order, ElementsAre(3, 2, 4, 1));
}

TEST(Scheduler, ABetterPriorityTakesThePlaceOfARunningSequence) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 100}, 64);
  bench.submit(1, counting(0, 4), 10, 1);
  bench.submit(2, counting(10, 4), 10, 1);
  bench.step();
  bench.submit(3, counting(20, 4), 2, 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(3, 4))) << "the younger one makes way";
  EXPECT_EQ(bench.scheduler->num_preemptions(), 1);
  bench.submit(4, counting(30, 4), 2, 1);
  bench.run();
  for (const RequestId id : {1, 2, 3, 4}) {
    EXPECT_EQ(bench.finished.at(id).tokens, alone(counting(static_cast<std::int32_t>(id - 1) * 10, 4), id < 3 ? 10 : 2));
  }
  EXPECT_EQ(bench.scheduler->num_preemptions(), 1) << "an equal priority takes nobody's place";
}

TEST(Scheduler, TheLastInOrderGivesWayWhenBlocksRunOut) {
  Bench bench({.max_batch_tokens = 32, .max_sequences = 4, .context_length = 100}, 7);
  bench.submit(1, counting(0, 7), 9, 2);  // grows to 4 blocks
  bench.submit(2, counting(10, 7), 9, 0);
  bench.step();
  while (bench.scheduler->num_preemptions() == 0) {
    bench.step();
  }
  ASSERT_EQ(bench.scheduler->num_waiting(), 1);
  EXPECT_EQ(bench.scheduler->waiting()[0]->id, 1u) << "the older one, but of the worse priority";
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 7), 9));
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(10, 7), 9));
}

TEST(Scheduler, AShortPromptDoesNotWaitForALongOne) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 8, .context_length = 400}, 256);
  bench.submit(1, counting(0, 300), 1);
  bench.submit(2, counting(1000, 300), 1);
  bench.step();
  bench.submit(3, counting(2000, 8), 4);
  bench.submit(4, counting(3000, 8), 1);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 8), Pair(1, 8))) << "half of the step is for what it completes";
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 1), Pair(1, 15)))
      << "the other short one is longer than half of what is left";
  bench.run();
  EXPECT_EQ(bench.finished.at(1).tokens, alone(counting(0, 300), 1));
}

TEST(Scheduler, APromptsPartOfAStepWithDecodesIsBounded) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 400, .max_prefill_tokens = 10}, 128);
  bench.submit(1, counting(0, 30), 5);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 30))) << "nobody is kept waiting";
  bench.submit(2, counting(100, 30), 1);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 10)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 10)));
  bench.run();
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(100, 30), 1));
}

TEST(Scheduler, AnswersToOnePromptShareItsBlocksUntilTheyWrite) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 100}, 64);
  const Tokens prompt = counting(0, 10);  // two full blocks and half of a third
  bench.submit(1, prompt, 6);
  bench.submit(2, prompt, 6, 0, 1);
  bench.submit(3, prompt, 6, 0, 1);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 10))) << "the prompt is computed once";
  EXPECT_EQ(bench.allocator.num_free(), 61);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
  EXPECT_EQ(bench.copied_blocks, 2) << "each has its own copy of the part that it goes on with";
  EXPECT_EQ(bench.allocator.num_free(), 59);
  const auto blocks = [&](std::size_t i) { return bench.scheduler->running()[i]->cache.pages.blocks(); };
  EXPECT_EQ(blocks(0)[1], blocks(2)[1]);
  EXPECT_NE(blocks(0)[2], blocks(1)[2]);
  EXPECT_NE(blocks(1)[2], blocks(2)[2]);
  EXPECT_EQ(bench.allocator.references(blocks(0)[0]), 3);
  bench.cancel(1);
  bench.run();
  for (const RequestId id : {2, 3}) {
    EXPECT_EQ(bench.finished.at(id).tokens, alone(prompt, 6));
    EXPECT_EQ(bench.finished.at(id).prefix_hits, 9);
  }
  EXPECT_EQ(bench.allocator.num_free(), 64);
}

TEST(Scheduler, AnswersWhoseLeaderIsGoneComputeThePromptThemselves) {
  for (const bool prefix : {false, true}) {
    Bench bench({.max_batch_tokens = 6, .max_sequences = 2, .context_length = 40}, 12, 4, prefix);
    const Tokens prompt = counting(0, 16);
    bench.submit(1, prompt, 3);
    bench.submit(2, prompt, 3, 0, 1);
    bench.submit(3, prompt, 3, 0, 1);  // no room for it before the first one ends
    bench.submit(4, prompt, 3);
    bench.submit(5, prompt, 3, 0, 4);
    bench.step();
    bench.cancel(4);  // before it has computed anything
    bench.run();
    for (const RequestId id : {1, 2, 3, 5}) {
      EXPECT_EQ(bench.finished.at(id).tokens, alone(prompt, 3)) << id;
    }
    EXPECT_EQ(bench.blocks_available(), 12);
  }
}

TEST(Scheduler, OthersDoNotWaitForThePromptThatAnAnswerWaitsFor) {
  Bench bench({.max_batch_tokens = 8, .max_sequences = 8, .context_length = 100}, 64);
  bench.submit(1, counting(0, 20), 2);
  bench.submit(2, counting(0, 20), 2, 0, 1);
  bench.submit(3, counting(500, 4), 2);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(3, 4), Pair(1, 4)));
  bench.run();
  EXPECT_EQ(bench.finished.at(2).tokens, alone(counting(0, 20), 2));
}

TEST(Scheduler, TheQueueIsBounded) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 100, .max_waiting = 3}, 64);
  Request request;
  request.prompt = counting(0, 4);
  EXPECT_EQ(bench.scheduler->refusal(request, 6).error, RequestError::queue_full);
  EXPECT_EQ(bench.scheduler->refusal(request, 5).error, RequestError::none);
  for (RequestId id = 1; id <= 5; ++id) {
    bench.submit(id, counting(0, 4), 2);
  }
  const RequestRefusal refusal = bench.submit(6, request);
  EXPECT_EQ(refusal.error, RequestError::queue_full);
  EXPECT_EQ(refusal.message, "the queue is full: 0 requests run, 5 wait and at most 3 may");
  bench.step();
  EXPECT_EQ(bench.scheduler->num_running(), 2);
  EXPECT_EQ(bench.submit(6, request).error, RequestError::queue_full) << "starting makes no room";
  bench.step();
  EXPECT_EQ(bench.submit(6, request).error, RequestError::none);
  bench.run();
  EXPECT_EQ(bench.finished.size(), 6u);
}

Tokens positions(std::int32_t end) { return counting(0, end); }

TEST(Scheduler, EveryPromptTokenIsScoredOnceWhateverHappens) {
  for (const std::int32_t rows : {2, 5, 1000}) {
    Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 60, .max_logit_rows = rows}, 16, 4, true);
    bench.submit(1, counting(0, 30), 20);
    bench.run();  // the prompt is in the prefix cache, but must still be computed
    Request request;
    request.prompt = counting(0, 30);
    request.prompt_logprobs = 0;
    request.max_tokens = 0;
    ASSERT_EQ(bench.submit(2, request).message, "");
    request.max_tokens = 5;
    ASSERT_EQ(bench.submit(3, request).message, "");
    while (bench.scheduler->has_work()) {
      if (bench.scored[3].size() > 12 && bench.scheduler->num_preemptions() == 0) {
        bench.submit(4, counting(500, 50), 8, -1);  // preempts a running one
        bench.submit(5, counting(600, 8), 8, -1);
      }
      std::int32_t scored = 0;
      const std::size_t before = bench.scored[2].size() + bench.scored[3].size();
      bench.step();
      scored = static_cast<std::int32_t>(bench.scored[2].size() + bench.scored[3].size() - before);
      ASSERT_LE(scored, rows);
    }
    EXPECT_EQ(bench.scored[2], positions(29));
    EXPECT_EQ(bench.scored[3], positions(29));
    EXPECT_EQ(bench.finished.at(2).tokens, counting(0, 30));
    EXPECT_EQ(bench.finished.at(2).prefix_hits, 0);
    EXPECT_EQ(bench.finished.at(3).tokens, alone(counting(0, 30), 5));
    EXPECT_GT(bench.scheduler->num_preemptions(), 0);
  }
}

TEST(Scheduler, WholePromptsAreNeverCut) {
  Bench bench({.max_batch_tokens = 40, .max_sequences = 4, .context_length = 40, .whole_prompts = true}, 64, 4, false);
  const std::vector<std::int32_t> lengths{30, 1, 20, 40, 9};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Request request;
    request.prompt = counting(0, lengths[i]);
    request.embedding = Pooling::mean;
    ASSERT_EQ(bench.submit(i + 1, request).message, "");
  }
  for (int step = 0; bench.scheduler->has_work(); ++step) {
    ASSERT_LT(step, 10);
    std::int32_t tokens = 0;
    for (const auto& [id, count] : bench.step()) {
      EXPECT_EQ(count, lengths[id - 1]);
      tokens += count;
    }
    EXPECT_LE(tokens, 40);
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    EXPECT_EQ(bench.pooled[i + 1], positions(lengths[i]));
  }
}

TEST(Scheduler, EmbeddingsPoolTheRowsOfTheirKindOnce) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 3, .context_length = 60}, 64, 4, true);
  for (const Pooling pooling : {Pooling::mean, Pooling::last, Pooling::cls}) {
    Request request;
    request.prompt = counting(0, 30);
    request.embedding = pooling;
    ASSERT_EQ(bench.submit(static_cast<RequestId>(pooling) + 1, request).message, "");
    bench.run();
  }
  EXPECT_EQ(bench.pooled[1], positions(30));
  EXPECT_THAT(bench.pooled[2], ElementsAre(29));
  EXPECT_THAT(bench.pooled[3], ElementsAre(0));
  EXPECT_EQ(bench.finished.at(1).tokens, counting(0, 30)) << "nothing is drawn";
  EXPECT_EQ(bench.finished.at(2).prefix_hits, 28) << "the last row needs no others";
  Request request;
  request.prompt = counting(0, 3);
  request.embedding = Pooling::mean;
  request.logprobs = 3;
  EXPECT_EQ(bench.scheduler->refusal(request).error, RequestError::invalid);
}

}  // namespace
}  // namespace rocmforge
