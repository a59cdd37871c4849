#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rocmforge {
namespace {

TEST(ThreadPool, runs_the_job_once_on_every_thread) {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(threads));
      pool.run([&](int thread) { calls[static_cast<std::size_t>(thread)].fetch_add(1); });
      for (const auto& count : calls) {
        EXPECT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, writes_before_the_barrier_are_seen_after_it) {
  ThreadPool pool(4);
  for (int round = 0; round < 300; ++round) {
    std::vector<int> left(4, 0);  // plain ints: a missing barrier is a data race that the thread sanitizer reports
    std::vector<int> sums(4, 0);
    pool.run([&](int thread) {
      const auto i = static_cast<std::size_t>(thread);
      left[i] = thread + round;
      pool.barrier();
      sums[i] = std::accumulate(left.begin(), left.end(), 0);
      pool.barrier();
      left[i] = -1;
    });
    EXPECT_EQ(sums, std::vector<int>(4, 6 + 4 * round));
  }
}

TEST(ThreadPool, parallel_for_covers_every_index_once) {
  ThreadPool pool(3);
  for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const std::int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
          visits[static_cast<std::size_t>(i)].fetch_add(1);
        }
      });
      for (const auto& visit : visits) {
        EXPECT_EQ(visit.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, wakes_up_after_sleeping) {
  ThreadPool pool(4);
  std::atomic<int> calls{0};
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pool.run([&](int) { calls.fetch_add(1); });
  }
  EXPECT_EQ(calls.load(), 12);
}

// More threads than processors, and jobs so short that most workers come too late for them.
TEST(ThreadPool, latecomers_take_no_part_and_harm_nothing) {
  ThreadPool pool(8);
  std::int64_t total = 0;
  for (int round = 0; round < 20000; ++round) {
    std::int64_t sums[2] = {0, 0};  // plain, not atomic: two pieces write it, the caller reads it
    pool.parallel_for(2, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        sums[i] = round + i;
      }
    });
    total += sums[0] + sums[1];
    if (round % 1000 == 0) {
      std::vector<int> calls(8, 0);
      pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
      EXPECT_EQ(calls, std::vector<int>(8, 1));
    }
  }
  EXPECT_EQ(total, std::int64_t{20000} * 19999 + 20000);
}

TEST(ThreadPool, what_a_job_throws_reaches_the_caller) {
  ThreadPool pool(3);
  for (int repetition = 0; repetition < 200; ++repetition) {
    std::atomic<int> done{0};
    const auto job = [&](std::int64_t begin, std::int64_t) {
      if (begin == 17 + repetition % 7) {
        throw std::runtime_error("piece " + std::to_string(begin));
      }
      ++done;
    };
    EXPECT_THROW(pool.parallel_for(64, 1, job), std::runtime_error);
    EXPECT_THROW(pool.run([](int) { throw std::bad_alloc(); }), std::bad_alloc) << "every thread throws";
  }
  std::atomic<int> calls{0};
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 3) << "the pool goes on";
}

TEST(AvailableProcessors, is_at_least_one) { EXPECT_GE(available_processors(), 1); }

}  // namespace
}  // namespace rocmforge
