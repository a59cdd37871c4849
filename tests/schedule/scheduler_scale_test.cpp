#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <string>

#include "schedule/scheduler_bench.h"

// The work of a step's bookkeeping with a large cache and a long queue. Work is counted, because a test's time depends on
// the machine. The time is printed.

namespace rocmforge {
namespace {

constexpr std::int32_t block_tokens = 16;
constexpr std::int32_t chain_blocks = 64;
constexpr std::int32_t running = 64;

struct Measured {
  double microseconds = 0.0;      ///< of a step
  std::int64_t visited = 0;       ///< entries that evictions looked at
  std::int64_t blocks_taken = 0;  ///< by the steps
};

/// Decode steps of 64 sequences on a cache without a free block. All blocks are in the prefix cache: half are idle, half are
/// held, and the held half was used longest ago. As many requests wait as half a cache of 16,384 blocks has blocks.
class FullCache {
 public:
  explicit FullCache(std::int32_t num_blocks)
      : bench_({.max_batch_tokens = 512, .max_sequences = running, .context_length = 4096}, num_blocks, block_tokens, true) {
    for (std::int32_t id = 1; id <= running; ++id) {
      bench_.submit(static_cast<RequestId>(id), counting(id, block_tokens), -1);
    }
    while (decoding() < running) {
      step();
    }
    for (std::int32_t chain = 0; bench_.allocator.num_free() >= chain_blocks; ++chain) {
      remember(chain, bench_.allocator.num_free() > num_blocks / 2);
    }
    while (bench_.allocator.num_free() > 0) {
      remember_block();
    }
    for (std::int32_t id = 0; id < 8192; ++id) {
      bench_.submit(static_cast<RequestId>(running + 1 + id), counting(id, 4), -1);
    }
  }

  Measured run(int steps) {
    const std::int64_t visited_before = bench_.cache->num_visited();
    const std::int64_t held_before = held_by_running();
    const std::clock_t start = std::clock();  // of this process alone
    for (int i = 0; i < steps; ++i) {
      step();
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    return {seconds * 1e6 / steps, bench_.cache->num_visited() - visited_before, held_by_running() - held_before};
  }

 private:
  void step() {
    for (const ScheduledChunk& chunk : bench_.scheduler->next_batch()) {
      bench_.commit(chunk, 7);
    }
    // The numbers that a server reports after each step.
    shown_ += bench_.allocator.num_free() + bench_.cache->num_blocks() + bench_.cache->num_evictable() +
              bench_.scheduler->num_waiting();
  }

  [[nodiscard]] std::int32_t decoding() const {
    return static_cast<std::int32_t>(std::ranges::count_if(
        bench_.scheduler->running(), [](const auto& sequence) { return sequence->phase == SequencePhase::decode; }));
  }

  [[nodiscard]] std::int64_t held_by_running() const {
    std::int64_t blocks = 0;
    for (const auto& sequence : bench_.scheduler->running()) {
      blocks += std::ssize(sequence->cache.pages.blocks());
    }
    return blocks;
  }

  void remember(std::int32_t chain, bool held) {
    PageTable table(bench_.allocator, block_tokens);
    ASSERT_TRUE(table.reserve(chain_blocks * block_tokens));
    bench_.cache->insert(counting(1000 + chain, chain_blocks * block_tokens), table.blocks());
    if (held) {
      holders_.push_back(std::move(table));
    }
  }

  void remember_block() {
    PageTable table(bench_.allocator, block_tokens);
    ASSERT_TRUE(table.reserve(block_tokens));
    bench_.cache->insert(counting(-1'000'000 - bench_.allocator.num_free(), block_tokens), table.blocks());
  }

  Bench bench_;
  std::vector<PageTable> holders_;
  std::int64_t shown_ = 0;
};

TEST(SchedulerScale, AStepLooksAtWhatItTakesHoweverLargeTheCache) {
  constexpr int steps = 2000;
  for (const std::int32_t blocks : {1 << 14, 1 << 20}) {
    const Measured measured = FullCache(blocks).run(steps);
    std::printf("[ measured ] %d blocks, %d sequences: %.1f us of bookkeeping a step\n", blocks, running,
                measured.microseconds);
    RecordProperty("us_per_step_of_" + std::to_string(blocks) + "_blocks", std::to_string(measured.microseconds));
    EXPECT_GE(measured.blocks_taken, running * (steps / block_tokens));
    EXPECT_LE(measured.visited, measured.blocks_taken) << "evictions look at no more than they give back";
  }
}

/// The queue is not searched either: a request that ends is found directly.
TEST(SchedulerScale, WaitingRequestsCanBeTakenBackInAnyOrder) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 2, .context_length = 64}, 64);
  constexpr RequestId count = 2000;
  for (RequestId id = 1; id <= count; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id), 8), 4, static_cast<std::int32_t>(id % 3));
  }
  bench.step();
  for (RequestId id = 1; id <= count; id += 2) {
    bench.cancel(id * 7919 % count + 1);
  }
  bench.run();
  EXPECT_EQ(bench.finished.size(), count);
}

}  // namespace
}  // namespace rocmforge
