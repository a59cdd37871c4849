#include "schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include "base/error.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens counting(std::int32_t first, std::int32_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// A scheduler and a stand-in for everything above it: the next token is a function of all tokens before it, and max_tokens,
/// a full context and shifts are handled as an engine would.
struct Bench {
  Bench(SchedulerLimits limits, std::int32_t num_blocks, std::int32_t block_tokens = 4, bool prefix = false)
      : allocator(num_blocks) {
    if (prefix) {
      cache.emplace(allocator, block_tokens);
    }
    scheduler.emplace(limits, allocator, cache ? &*cache : nullptr, block_tokens);
  }

  void submit(RequestId id, Tokens prompt, std::int32_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    ASSERT_EQ(scheduler->submit(id, std::move(request)), "");
  }

  static std::int32_t next_token(const Tokens& tokens) {
    std::uint32_t hash = 17;
    for (const std::int32_t token : tokens) {
      hash = (hash ^ static_cast<std::uint32_t>(token)) * 0x9e3779b1u;
    }
    return static_cast<std::int32_t>(hash >> 8 & 0xffff);
  }

  /// One step; returns the ids and counts of its chunks.
  std::vector<std::pair<RequestId, std::int32_t>> step() {
    std::vector<std::pair<RequestId, std::int32_t>> parts;
    const std::span<const ScheduledChunk> batch = scheduler->next_batch();
    compute(batch);
    for (const ScheduledChunk& chunk : batch) {
      parts.emplace_back(chunk.sequence->id, chunk.count);
      scheduler->commit(chunk, chunk.wants_logits ? next_token(chunk.sequence->tokens) : -1);
      Sequence& sequence = *chunk.sequence;
      if (sequence.finish == FinishReason::none && chunk.wants_logits) {
        if (sequence.generated() == sequence.request.max_tokens) {
          scheduler->finish(sequence, FinishReason::length);
        } else if (sequence.length() > scheduler->limits().context_length) {
          if (sequence.request.context_policy == ContextPolicy::shift) {
            scheduler->shift(sequence);
          } else {
            scheduler->finish(sequence, FinishReason::context);
          }
        }
      }
    }
    for (auto& sequence : scheduler->take_finished()) {
      finished[sequence->id] = {sequence->tokens, sequence->finish, sequence->prefix_hits};
    }
    return parts;
  }

  /// Calls visit(slot, content, is_new) for every position the chunk needs. A position's content depends on all tokens up to
  /// it.
  template <class Visit>
  void visit_storage(const ScheduledChunk& chunk, Visit visit) {
    const Sequence& sequence = *chunk.sequence;
    const std::int32_t block_tokens = sequence.pages.block_tokens();
    storage.resize(static_cast<std::size_t>(allocator.num_blocks() * block_tokens));
    std::uint32_t content = 1;
    for (std::int32_t position = 0; position < chunk.first + chunk.count; ++position) {
      content = content * 31 + static_cast<std::uint32_t>(sequence.tokens[static_cast<std::size_t>(position)]);
      const BlockId block = sequence.pages.blocks()[static_cast<std::size_t>(position / block_tokens)];
      visit(storage[static_cast<std::size_t>(block * block_tokens + position % block_tokens)], content,
            position >= chunk.first);
    }
  }

  void compute(std::span<const ScheduledChunk> batch) {
    for (const ScheduledChunk& chunk : batch) {
      visit_storage(chunk, [](std::uint32_t& slot, std::uint32_t content, bool is_new) { slot = is_new ? content : slot; });
    }
    for (const ScheduledChunk& chunk : batch) {
      visit_storage(chunk, [](std::uint32_t slot, std::uint32_t content, bool) { ASSERT_EQ(slot, content); });
    }
  }

  void run() {
    for (int steps = 0; scheduler->has_work(); ++steps) {
      ASSERT_LT(steps, 100'000) << "the work never ends";
      step();
    }
  }

  [[nodiscard]] std::int32_t blocks_available() const { return allocator.num_free() + (cache ? cache->num_evictable() : 0); }

  struct Result {
    Tokens tokens;
    FinishReason finish = FinishReason::none;
    std::int32_t prefix_hits = 0;
  };
  std::vector<std::uint32_t> storage;  ///< what each slot of the cache was last written with
  BlockAllocator allocator;
  std::optional<PrefixCache> cache;
  std::optional<Scheduler> scheduler;
  std::map<RequestId, Result> finished;
};

Tokens alone(const Tokens& prompt, std::int32_t max_tokens) {
  Tokens tokens = prompt;
  for (std::int32_t i = 0; i < max_tokens; ++i) {
    tokens.push_back(Bench::next_token(tokens));
  }
  return tokens;
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(Scheduler, RefusesWhatCanNeverRun) {
  Bench bench({.max_batch_tokens = 8, .max_sequences = 2, .context_length = 100}, 5);
  EXPECT_EQ(bench.scheduler->limits().context_length, 20) << "the context can't exceed the cache";
  const auto reason = [&](auto change) {
    Request request;
    request.prompt = counting(0, 3);
    change(request);
    return bench.scheduler->submit(1, std::move(request));
  };
  EXPECT_EQ(reason([](Request& r) { r.prompt.clear(); }), "the prompt is empty");
  EXPECT_EQ(reason([](Request& r) { r.prompt = counting(0, 21); }), "the prompt has 21 tokens, the context holds 20");
  EXPECT_THAT(reason([](Request& r) { r.max_tokens = 0; }), HasSubstr("max_tokens is 0"));
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
  bench.scheduler->cancel(3);  // waiting
  EXPECT_EQ(bench.scheduler->num_waiting(), 0);
  bench.scheduler->cancel(2);  // in its prompt
  EXPECT_EQ(bench.allocator.num_free(), 30);
  bench.scheduler->cancel(1);  // decoding
  EXPECT_EQ(bench.allocator.num_free(), 32);
  bench.scheduler->cancel(1);
  bench.scheduler->cancel(77);
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
  bench.scheduler->cancel(1);
  for (const ScheduledChunk& chunk : batch) {
    bench.scheduler->commit(chunk, Bench::next_token(chunk.sequence->tokens));
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
  // The next turn of a talk: the answer's blocks are known too.
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
  ASSERT_EQ(bench.scheduler->submit(1, std::move(request)), "");
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

// Everything at once, on a cache that is far too small: every position reads what its own sequence wrote (see
// visit_storage), no block is lost, and every request comes out exactly once.
void run_random_events(bool prefix, unsigned seed) {
  constexpr std::int32_t num_blocks = 30;
  const SchedulerLimits limits{.max_batch_tokens = 24, .max_sequences = 6, .context_length = 64};
  Bench bench(limits, num_blocks, 4, prefix);
  std::mt19937 random(seed);
  std::map<RequestId, std::pair<Tokens, std::int32_t>> submitted;
  RequestId next_id = 1;
  for (int event = 0; event < 100'000; ++event) {
    const unsigned choice = random() % 16;
    if (choice < 3 && bench.scheduler->num_waiting() < 10) {
      Request request;
      request.prompt = counting(static_cast<std::int32_t>(random() % 3), 1 + static_cast<std::int32_t>(random() % 60));
      request.max_tokens = random() % 4 == 0 ? -1 : 1 + static_cast<std::int32_t>(random() % 40);
      if (random() % 8 == 0 && request.max_tokens > 0) {
        request.context_policy = ContextPolicy::shift;
        request.keep = static_cast<std::int32_t>(random() % 20);
      }
      submitted[next_id] = {request.prompt, request.context_policy == ContextPolicy::stop ? request.max_tokens : 0};
      ASSERT_EQ(bench.scheduler->submit(next_id++, std::move(request)), "");
    } else if (choice == 3 && next_id > 1) {
      bench.scheduler->cancel(next_id - 1 - random() % std::min<RequestId>(next_id - 1, 12));
    } else {
      std::int32_t tokens = 0;
      for (const auto& [id, count] : bench.step()) {
        tokens += count;
      }
      ASSERT_LE(tokens, limits.max_batch_tokens);
    }
    ASSERT_LE(bench.scheduler->num_running(), limits.max_sequences);
    if (!bench.scheduler->has_work()) {
      ASSERT_EQ(bench.blocks_available(), num_blocks) << "blocks leaked";
    }
  }
  bench.run();
  EXPECT_EQ(bench.blocks_available(), num_blocks);
  EXPECT_GT(bench.scheduler->num_preemptions(), 100);
  ASSERT_EQ(bench.finished.size(), submitted.size());
  for (const auto& [id, request] : submitted) {
    const Bench::Result& result = bench.finished.at(id);
    const auto& [prompt, max_tokens] = request;
    if (result.finish == FinishReason::length && max_tokens > 0) {
      ASSERT_EQ(result.tokens, alone(prompt, max_tokens));
    } else if (result.finish == FinishReason::context) {
      ASSERT_EQ(result.tokens, alone(prompt, limits.context_length + 1 - static_cast<std::int32_t>(prompt.size())));
    }
  }
}

TEST(Scheduler, RandomEventsLoseNothing) { run_random_events(false, 1); }
TEST(Scheduler, RandomEventsWithPrefixCacheLoseNothing) { run_random_events(true, 2); }

}  // namespace
}  // namespace rocmforge
