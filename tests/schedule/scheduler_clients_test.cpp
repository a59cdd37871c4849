// The turns of clients.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

using testing::ElementsAre;

/// The ids of the sequences in the order in which they run, one at a time.
std::vector<RequestId> order_of_running(Bench& bench) {
  std::vector<RequestId> order;
  while (bench.scheduler->has_work()) {
    for (const auto& [id, count] : bench.step()) {
      if (order.empty() || order.back() != id) {
        order.push_back(id);
      }
    }
  }
  return order;
}

TEST(Scheduler, ClientsOfOnePriorityComeByTurns) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 1, .context_length = 100}, 64);
  constexpr std::int32_t usual = 0, later = 1;
  for (RequestId id = 1; id <= 5; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 4), 2, usual, 0, 100);
  }
  bench.submit(6, counting(60, 4), 2, later, 0, 100);
  bench.submit(7, counting(70, 4), 2, later, 0, 300);
  bench.step();  // the first has begun
  bench.submit(8, counting(80, 4), 2, usual, 0, 200);
  bench.submit(9, counting(90, 4), 2, usual, 0, 200);
  EXPECT_THAT(order_of_running(bench), ElementsAre(1, 8, 2, 9, 3, 4, 5, 6, 7));
}

TEST(Scheduler, AClientThatHasNothingRunningTakesAPlaceFromOneThatHasSeveral) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 3, .context_length = 200}, 200);
  for (RequestId id = 1; id <= 4; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 2), 50, 0, 0, 100);
  }
  while (bench.scheduler->num_running() < 3) {
    bench.step();
  }
  bench.submit(5, counting(50, 2), 50, 0, 0, 200);
  bench.submit(6, counting(60, 2), 50, 0, 0, 300);
  bench.submit(7, counting(70, 2), 50, 0, 0, 200);
  bench.submit(8, counting(80, 2), 50, 0, 0, 400);
  for (int i = 0; i < 4; ++i) {
    bench.step();
  }
  std::vector<RequestId> running;
  for (const auto& sequence : bench.scheduler->running()) {
    running.push_back(sequence->id);
  }
  EXPECT_THAT(running, ElementsAre(1, 5, 6)) << "one each, and the fourth client waits for its turn";
  bench.run();
  EXPECT_EQ(bench.scheduler->num_preemptions(), 2);
  for (RequestId id = 1; id <= 8; ++id) {
    EXPECT_EQ(bench.finished.at(id).tokens, alone(counting(static_cast<std::int32_t>(id) * 10, 2), 50));
  }
}

TEST(Scheduler, AClientThatAsksAgainAndAgainDoesNotWaitForTheLongAnswersOfOthers) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 400}, 1000);
  bench.submit(100, counting(500, 2), 3, 0, 0, 200);
  for (RequestId id = 1; id <= 64; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 2), 300, 0, 0, 300 + id % 4);
  }
  for (RequestId id = 101; id <= 140; ++id) {  // the next request arrives before the last one ends
    bench.submit(id, counting(500, 2), 3, 0, 0, 200);
    for (int i = 0; i < 6; ++i) {
      bench.step();
    }
    EXPECT_TRUE(bench.finished.contains(id - 1)) << id;
  }
  EXPECT_TRUE(std::ranges::none_of(bench.finished, [](const auto& one) { return one.first < 100; }))
      << "the long ones go on";
}

TEST(Scheduler, ClientsWithFewAnswersTakePlacesFromOneThatHasFarMore) {
  constexpr RequestId many = 128;
  Bench bench({.max_batch_tokens = 64, .max_sequences = 32, .context_length = 600}, 8000);
  for (RequestId id = 1; id <= many; ++id) {
    bench.submit(id, counting(0, 2), 512, 0, id > 1 ? 1 : 0, 100);
  }
  while (bench.scheduler->num_running() < 32) {
    bench.step();
  }
  for (RequestId id = 201; id <= 204; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 2), 8, 0, 0, 200);
  }
  for (int i = 0; i < 16; ++i) {
    bench.step();
  }
  for (RequestId id = 201; id <= 204; ++id) {
    EXPECT_TRUE(bench.finished.contains(id)) << id << " waits for the long answers of another client";
  }
  bench.submit(205, counting(900, 2), 8, 0, 0, 200);  // it comes after all of its client's have ended
  for (int i = 0; i < 12; ++i) {
    bench.step();
  }
  EXPECT_TRUE(bench.finished.contains(205));
  EXPECT_LE(bench.scheduler->num_preemptions(), 5);
}

TEST(Scheduler, AClientThatHasNothingRunningDoesNotWaitForAPromptThatFindsNoRoom) {
  // Blocks behind the window come free in every step, so that room is looked for in every step.
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 100}, 60, 1, false, 0, {{1, 60}});
  for (RequestId id = 1; id <= 3; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 2), 15, 0, 0, 100);
    bench.submit(10 + id, counting(static_cast<std::int32_t>(id) * 100, 2), 1, 0, 0, 200);
  }
  bench.submit(4, counting(40, 55), 1, 0, 0, 100);
  bench.submit(14, counting(400, 2), 1, 0, 0, 200);
  for (int i = 0; i < 6; ++i) {
    bench.step();
  }
  EXPECT_TRUE(bench.finished.contains(14));
  EXPECT_FALSE(bench.finished.contains(1));
  EXPECT_FALSE(bench.finished.contains(4));
  bench.run();
  EXPECT_EQ(bench.finished.at(4).tokens, alone(counting(40, 55), 1));
}

TEST(Scheduler, ClientsWithAboutAsManyAnswersLeaveEachOtherTheirPlaces) {
  Bench bench({.max_batch_tokens = 64, .max_sequences = 8, .context_length = 100}, 1000);
  for (RequestId id = 1; id <= 40; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 2), 8 + static_cast<std::int32_t>(id % 7), 0, 0, id % 2);
  }
  bench.run();
  EXPECT_EQ(bench.finished.size(), 40u);
  EXPECT_EQ(bench.scheduler->num_preemptions(), 0);
}

TEST(Scheduler, AnAnswerThatWaitsForItsPromptLetsNobodyBehindItGoFirst) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 2, .context_length = 100}, 64);
  bench.submit(1, counting(0, 20), 20, 0, 0, 100);
  for (RequestId id = 2; id <= 4; ++id) {
    bench.submit(id, counting(0, 20), 20, 0, 1, 100);
  }
  bench.submit(5, counting(50, 4), 20, 0, 0, 100);
  for (int i = 0; i < 4; ++i) {
    bench.step();  // the fifth begins before the second, whose prompt is the first's
  }
  ASSERT_EQ(bench.scheduler->running().back()->id, 5);
  bench.submit(6, counting(60, 4), 20, 0, 0, 200);
  bench.step();
  std::vector<RequestId> running;
  for (const auto& sequence : bench.scheduler->running()) {
    running.push_back(sequence->id);
  }
  EXPECT_THAT(running, ElementsAre(1, 6)) << "another client's first comes before the second of all that one has sent";
}

TEST(Scheduler, AClientThatComesLateDoesNotCatchUp) {
  Bench bench({.max_batch_tokens = 16, .max_sequences = 1, .context_length = 100}, 64);
  for (RequestId id = 1; id <= 4; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 4), 2, 0, 0, 100);
  }
  while (bench.finished.size() < 2) {
    bench.step();
  }
  bench.step();  // the third has begun
  for (RequestId id = 5; id <= 7; ++id) {
    bench.submit(id, counting(static_cast<std::int32_t>(id) * 10, 4), 2, 0, 0, 200);
  }
  EXPECT_THAT(order_of_running(bench), ElementsAre(3, 5, 4, 6, 7)) << "one for one";
}

}  // namespace
}  // namespace rocmforge
