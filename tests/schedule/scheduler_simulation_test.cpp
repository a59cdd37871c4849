#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "sanitizers.h"
#include "schedule/scheduler_bench.h"

namespace rocmforge {
namespace {

auto rank(const Sequence& sequence) { return std::tuple(sequence.request.priority, sequence.arrival); }

template <class List>
std::set<RequestId> ids_of(const List& list) {
  std::set<RequestId> ids;
  for (const auto& sequence : list) {
    ids.insert(sequence->id);
  }
  return ids;
}

struct Simulation {
  SchedulerLimits limits;
  std::int32_t num_blocks = 30;
  bool prefix = false;
  unsigned seed = 1;
  int events = 100'000;
  int least_preemptions = 100;
  std::int32_t num_slots = 0;
  std::vector<SequenceCache::Window> windows{};
  bool drafts = false;
  std::int32_t host_blocks = 0;
};

/// Random mixed operations on a cache that is far too small. Checks that every position reads the content that its own
/// sequence wrote (see visit_storage), that no block is lost, that every request finishes exactly once, and that the order
/// is kept.
class SchedulerSimulation {
 public:
  explicit SchedulerSimulation(const Simulation& simulation)
      : simulation_(simulation),
        bench_(simulation.limits, simulation.num_blocks, 4, simulation.prefix, simulation.num_slots, simulation.windows,
               simulation.host_blocks),
        random_(simulation.seed) {
    if (test::address_sanitizer) {
      simulation_.events /= 5;  // the same code, thirty times as slow: memory shows its faults in fewer rounds than the order of sequences
      simulation_.least_preemptions /= 5;
    }
    if (simulation.drafts) {
      bench_.draft = [this](const Sequence& sequence) { return drafts_of(sequence); };
      bench_.keep_fewer = [this] { return below(8) == 0; };
    }
  }

  void run() {
    for (int event = 0; event < simulation_.events && !testing::Test::HasFatalFailure(); ++event) {
      const std::uint32_t choice = below(16);
      if (choice < 3 && bench_.scheduler->num_waiting() < 12) {
        submit();
      } else if (choice == 3 && next_id_ > 1) {
        bench_.cancel(next_id_ - 1 - below(static_cast<std::uint32_t>(std::min<RequestId>(next_id_ - 1, 12))));
      } else {
        step();
      }
      if (!bench_.scheduler->has_work()) {
        ASSERT_EQ(bench_.blocks_available(), simulation_.num_blocks) << "blocks leaked";
        if (simulation_.num_slots > 0) {
          ASSERT_EQ(bench_.slots_available(), simulation_.num_slots) << "slots leaked";
        }
        for (std::size_t w = 0; w < simulation_.windows.size(); ++w) {
          ASSERT_EQ(bench_.window_blocks_available(w), simulation_.windows[w].blocks) << "blocks of a window leaked";
        }
      }
    }
    bench_.run();
    EXPECT_EQ(bench_.blocks_available(), simulation_.num_blocks);
    EXPECT_GE(bench_.scheduler->num_preemptions(), simulation_.least_preemptions);
    if (simulation_.drafts && simulation_.least_preemptions > 0) {
      EXPECT_GT(bench_.accepted, simulation_.events / 50);
      EXPECT_GT(bench_.drafted - bench_.accepted, simulation_.events / 50);
    }
    if (simulation_.host_blocks > 0 && simulation_.least_preemptions > 0) {
      EXPECT_GT(bench_.scheduler->host_hits(), simulation_.events / 50);
      EXPECT_LE(bench_.scheduler->host_hits(), bench_.scheduler->prefix_hits());
    }
    if (simulation_.host_blocks >= 30 && simulation_.num_slots > 0) {
      EXPECT_GT(bench_.copied_states, simulation_.events / 100);
    }
    check_results();
  }

 private:
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(random_() % count); }
  std::int32_t int_below(std::uint32_t count) { return static_cast<std::int32_t>(below(count)); }

  /// Of each sequence up to eight tokens, most of them right; sometimes more than are allowed.
  Tokens drafts_of(const Sequence& sequence) {
    const Tokens all(sequence.tokens.begin(), sequence.tokens.begin() + sequence.length());
    const auto count = std::min(int_below(9), bench_.scheduler->max_drafts(sequence) + int_below(2));
    Tokens drafted = all;
    for (std::int32_t i = 0; i < count; ++i) {
      drafted.push_back(below(4) == 0 ? int_below(3) : Bench::next_token(drafted));
    }
    drafted.erase(drafted.begin(), drafted.begin() + sequence.length());
    return drafted;
  }

  void submit() {
    const std::int32_t longest = bench_.scheduler->limits().context_length;
    Request request;
    request.prompt = counting(int_below(3), 1 + int_below(static_cast<std::uint32_t>(longest) - 2));
    request.max_tokens = below(4) == 0 ? -1 : 1 + int_below(40);
    request.priority = int_below(3);
    switch (below(8)) {
      case 0:
        request.context_policy = ContextPolicy::shift;
        request.keep = int_below(std::min(20u, static_cast<std::uint32_t>(longest)));
        request.max_tokens = std::max(request.max_tokens, 1);
        break;
      case 1:
        request.prompt_logprobs = 0;
        request.max_tokens = below(2) == 0 ? 0 : request.max_tokens;
        break;
      case 2:
        request.embedding = static_cast<Pooling>(below(3));
        break;
      default:
        break;
    }
    const RequestId first = next_id_;
    const std::uint32_t count = request.embedding || below(3) != 0 ? 1 : 1 + below(4);
    for (std::uint32_t i = 0; i < count; ++i) {
      submitted_[next_id_] = request;
      if (i > 0) {
        followers_.insert(next_id_);
      }
      ASSERT_EQ(bench_.submit(next_id_++, request, i == 0 ? 0 : first).message, "");
    }
  }

  void step() {
    const std::set<RequestId> waiting_before = ids_of(bench_.scheduler->waiting());
    const std::set<RequestId> running_before = ids_of(bench_.scheduler->running());
    std::int32_t tokens = 0;
    const auto parts = bench_.step();
    for (const auto& [id, count] : parts) {
      tokens += count;
    }
    const SchedulerLimits& limits = bench_.scheduler->limits();
    ASSERT_LE(tokens, limits.max_batch_tokens);
    ASSERT_LE(bench_.scored_in_step, limits.max_logit_rows);
    ASSERT_LE(bench_.scheduler->num_running(), limits.max_sequences);
    const auto by_rank = [](const auto& sequence) { return rank(*sequence); };
    ASSERT_TRUE(std::ranges::is_sorted(bench_.scheduler->running(), {}, by_rank));
    ASSERT_TRUE(std::ranges::is_sorted(bench_.scheduler->waiting(), {}, by_rank));
    check_order(waiting_before, running_before);
  }

  /// Checks that no sequence starts before a waiting one that could start and comes first in the order.
  void check_order(const std::set<RequestId>& waiting_before, const std::set<RequestId>& running_before) {
    const auto running = bench_.scheduler->running();
    for (const auto& started : running) {
      if (running_before.contains(started->id)) {
        continue;
      }
      for (const auto& waits : bench_.scheduler->waiting()) {
        const bool ready = waiting_before.contains(waits->id) && !followers_.contains(waits->id);
        ASSERT_FALSE(ready && rank(*waits) < rank(*started)) << started->id << " started before " << waits->id;
      }
    }
  }

  void check_results() {
    ASSERT_EQ(bench_.finished.size(), submitted_.size());
    for (const auto& [id, request] : submitted_) {
      const Bench::Result& result = bench_.finished.at(id);
      if (result.finish == FinishReason::cancelled) {
        continue;
      }
      const auto length = static_cast<std::int32_t>(request.prompt.size());
      if (request.prompt_logprobs >= 0) {
        ASSERT_EQ(bench_.scored[id], counting(0, length - 1));
      }
      if (request.embedding) {
        const Tokens last{length - 1};
        ASSERT_EQ(bench_.pooled[id], *request.embedding == Pooling::mean  ? counting(0, length)
                                     : *request.embedding == Pooling::cls ? counting(0, 1)
                                                                          : last);
        ASSERT_EQ(result.tokens, request.prompt);
      } else if (result.finish == FinishReason::stop) {
        ASSERT_EQ(request.max_tokens, 0);
      } else if (result.finish == FinishReason::context) {
        ASSERT_EQ(result.tokens, alone(request.prompt, bench_.scheduler->limits().context_length + 1 - length));
      } else if (request.context_policy == ContextPolicy::stop) {
        ASSERT_EQ(result.tokens, alone(request.prompt, request.max_tokens));
      }
    }
  }

  Simulation simulation_;
  Bench bench_;
  std::mt19937 random_;
  std::map<RequestId, Request> submitted_;
  std::set<RequestId> followers_;
  RequestId next_id_ = 1;
};

constexpr SchedulerLimits small{.max_batch_tokens = 24, .max_sequences = 6, .context_length = 64};

TEST(SchedulerSimulation, LosesNothing) { SchedulerSimulation({.limits = small}).run(); }

TEST(SchedulerSimulation, LosesNothingWithAPrefixCache) {
  SchedulerSimulation({.limits = small, .prefix = true, .seed = 2}).run();
}

TEST(SchedulerSimulation, LosesNothingWithHostMemory) {
  unsigned seed = 90;
  for (const bool drafts : {false, true}) {
    for (const std::int32_t host_blocks : {7, 30, 300}) {
      SCOPED_TRACE(seed);
      SchedulerSimulation({.limits = small,
                           .prefix = true,
                           .seed = seed++,
                           .events = 20'000,
                           .least_preemptions = 10,
                           .drafts = drafts,
                           .host_blocks = host_blocks})
          .run();
    }
  }
}

/// States and blocks of windows come back from host memory as they were, with room there for all and for hardly any.
class SchedulerSimulationHost : public testing::TestWithParam<std::int32_t> {};

TEST_P(SchedulerSimulationHost, LosesNoStateAndNothingBehindWindows) {
  const std::int32_t host_blocks = GetParam();
  unsigned seed = 120 + 100 * static_cast<unsigned>(host_blocks);
  for (const bool drafts : {false, true}) {
    for (const std::int32_t num_slots : {0, 9, 16}) {
      for (const std::vector<SequenceCache::Window>& windows :
           {std::vector<SequenceCache::Window>{}, {{5, 24}}, {{1, 9}, {13, 30}}, {{17, 9}}}) {
        SCOPED_TRACE(seed);
        SchedulerSimulation({.limits = small,
                             .prefix = true,
                             .seed = seed++,
                             .events = 3'000,
                             .least_preemptions = 0,
                             .num_slots = num_slots,
                             .windows = windows,
                             .drafts = drafts,
                             .host_blocks = host_blocks})
            .run();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, SchedulerSimulationHost, testing::Values(1, 5, 30, 300));

TEST(SchedulerSimulation, LosesNothingUnderEveryLimit) {
  SchedulerLimits limits = small;
  limits.max_prefill_tokens = 7;
  limits.max_logit_rows = 6;
  SchedulerSimulation({.limits = limits, .prefix = true, .seed = 3}).run();
}

TEST(SchedulerSimulation, LosesNothingInTheSmallestCaches) {
  for (std::int32_t num_blocks = 1; num_blocks <= 6; ++num_blocks) {
    for (const bool prefix : {false, true}) {
      SCOPED_TRACE(num_blocks);
      const auto seed = static_cast<unsigned>(num_blocks);
      SchedulerSimulation({.limits = small,
                           .num_blocks = num_blocks,
                           .prefix = prefix,
                           .seed = seed,
                           .events = 5000,
                           .least_preemptions = 0})
          .run();
    }
  }
}

/// Every state that a step reads is the one that its positions need (see compute_state), and no slot is lost.
TEST(SchedulerSimulation, LosesNoState) {
  for (const bool prefix : {false, true}) {
    for (const std::int32_t num_slots : {4, 9, 16, 40}) {
      SCOPED_TRACE(num_slots);
      SchedulerSimulation({.limits = small,
                           .prefix = prefix,
                           .seed = static_cast<unsigned>(num_slots),
                           .events = 20'000,
                           .least_preemptions = num_slots > 4 ? 10 : 0,
                           .num_slots = num_slots})
          .run();
    }
  }
}

TEST(SchedulerSimulation, LosesNoStateInTheSmallestMemories) {
  for (std::int32_t num_blocks = 1; num_blocks <= 6; ++num_blocks) {
    SCOPED_TRACE(num_blocks);
    SchedulerSimulation({.limits = small,
                         .num_blocks = num_blocks,
                         .prefix = true,
                         .seed = static_cast<unsigned>(num_blocks),
                         .events = 5000,
                         .least_preemptions = 0,
                         .num_slots = 3})
        .run();
  }
}

/// Groups with windows: from one block's length to more than the context, with room for all sequences and with hardly any.
TEST(SchedulerSimulation, LosesNothingBehindWindows) {
  unsigned seed = 20;
  for (const bool prefix : {false, true}) {
    for (const std::vector<SequenceCache::Window>& windows :
         {std::vector<SequenceCache::Window>{{5, 24}}, {{4, 8}}, {{1, 3}, {13, 30}}, {{17, 9}}, {{100, 30}, {9, 12}}}) {
      SCOPED_TRACE(seed);
      SchedulerSimulation(
          {.limits = small, .prefix = prefix, .seed = seed++, .events = 20'000, .least_preemptions = 10, .windows = windows})
          .run();
    }
  }
}

TEST(SchedulerSimulation, LosesNothingBehindWindowsInTheSmallestCaches) {
  for (std::int32_t num_blocks = 1; num_blocks <= 6; ++num_blocks) {
    for (const std::int32_t window : {1, 4, 6, 30}) {
      SCOPED_TRACE(100 * num_blocks + window);
      SchedulerSimulation({.limits = small,
                           .num_blocks = 8,
                           .prefix = num_blocks % 2 == 0 || window > 4,
                           .seed = static_cast<unsigned>(num_blocks * 100 + window),
                           .events = 4000,
                           .least_preemptions = 0,
                           .windows = {{window, num_blocks}}})
          .run();
    }
  }
}

TEST(SchedulerSimulation, LosesNeitherStateNorWhatIsBehindWindows) {
  SchedulerSimulation({.limits = small,
                       .prefix = true,
                       .seed = 50,
                       .events = 20'000,
                       .least_preemptions = 10,
                       .num_slots = 16,
                       .windows = {{7, 20}}})
      .run();
}

/// Drafts, most of them right, in every kind of cache: nothing but the number of steps changes.
TEST(SchedulerSimulation, LosesNothingWithDrafts) {
  unsigned seed = 60;
  for (const bool prefix : {false, true}) {
    for (const std::int32_t num_slots : {0, 16}) {
      for (const std::vector<SequenceCache::Window>& windows :
           {std::vector<SequenceCache::Window>{}, {{5, 24}}, {{1, 9}, {13, 30}}}) {
        SCOPED_TRACE(seed);
        SchedulerSimulation({.limits = small,
                             .prefix = prefix,
                             .seed = seed++,
                             .events = 10'000,
                             .least_preemptions = 10,
                             .num_slots = num_slots,
                             .windows = windows,
                             .drafts = true})
            .run();
      }
    }
  }
}

TEST(SchedulerSimulation, LosesNothingWithDraftsInTheSmallestCaches) {
  SchedulerLimits limits = small;
  limits.max_logit_rows = 9;
  for (std::int32_t num_blocks = 1; num_blocks <= 6; ++num_blocks) {
    for (const std::int32_t num_slots : {0, 3}) {
      SCOPED_TRACE(10 * num_blocks + num_slots);
      SchedulerSimulation({.limits = limits,
                           .num_blocks = num_blocks,
                           .prefix = num_blocks % 2 == 0,
                           .seed = static_cast<unsigned>(10 * num_blocks + num_slots),
                           .events = 3000,
                           .least_preemptions = 0,
                           .num_slots = num_slots,
                           .drafts = true})
          .run();
    }
  }
}

TEST(SchedulerSimulation, OneSequenceAndOneTokenAtATime) {
  const SchedulerLimits least{.max_batch_tokens = 1, .max_sequences = 1, .context_length = 20, .max_logit_rows = 1};
  SchedulerSimulation({.limits = least, .num_blocks = 6, .prefix = true, .seed = 9, .events = 20'000}).run();
}

}  // namespace
}  // namespace rocmforge
