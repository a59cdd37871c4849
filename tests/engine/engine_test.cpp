#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "engine/fake_model.h"

namespace rocmforge::engine_test {
namespace {

using Tokens = std::vector<std::int32_t>;
using ::testing::HasSubstr;

struct Result {
  Tokens tokens;
  std::string text;
  std::vector<std::string> pieces;  ///< one per step
  FinishReason finish = FinishReason::none;
  int shifts = 0;
  std::optional<RequestStats> stats;
  bool operator==(const Result& other) const {
    return tokens == other.tokens && text == other.text && finish == other.finish;
  }
};

using Results = std::map<RequestId, Result>;

void collect(Engine& engine, Results& results) {
  for (const StepOutput& output : engine.step()) {
    Result& result = results[output.id];
    ASSERT_EQ(result.finish, FinishReason::none) << "output after the end";
    result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
    result.text += output.text;
    result.pieces.push_back(output.text);
    result.finish = output.finish;
    result.shifts += output.shifted ? 1 : 0;
    result.stats = output.stats;
    ASSERT_EQ(output.stats.has_value(), output.finish != FinishReason::none) << "they come once, with the end";
  }
}

Results run(Engine& engine) {
  Results results;
  for (int steps = 0; engine.has_work(); ++steps) {
    EXPECT_LT(steps, 50'000) << "the work never ends";
    collect(engine, results);
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return results;
}

void expect_nothing_left(Engine& engine) {
  const EngineStatus status = engine.status();
  EXPECT_EQ(status.waiting, 0);
  EXPECT_EQ(status.running, 0);
  EXPECT_EQ(status.free_blocks + status.prefix_blocks, status.kv_blocks);
  EXPECT_EQ(status.evictable_blocks, status.prefix_blocks);
  EXPECT_FALSE(engine.has_work());
}

Tokens random_prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(length);
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(3 + random() % 256);
  }
  return tokens;
}

/// Requests that differ in everything: length, sampling, seed.
Request varied_request(unsigned index) {
  Request request;
  request.prompt = random_prompt(1 + index * 7 % 40, index);
  request.max_tokens = 20 + static_cast<std::int32_t>(index % 3) * 10;
  request.sampling.seed = index;
  request.sampling.temperature = index % 4 == 0 ? 0.0f : 0.5f * static_cast<float>(index % 4);
  request.sampling.top_k = index % 2 == 0 ? 40 : 5;
  request.sampling.frequency_penalty = index % 3 == 0 ? 0.5f : 0.0f;
  return request;
}

EngineOptions roomy() { return {.max_batch_tokens = 64, .max_sequences = 8, .kv_tokens = 2048}; }

Result run_alone(const Request& request, const EngineOptions& options = roomy()) {
  const FakeEngine fake = make_fake_engine(options);
  const RequestId id = fake.engine->submit(request);
  return run(*fake.engine).at(id);
}

TEST(Engine, GreedyFollowsTheModel) {
  const FakeEngine fake = make_fake_engine(roomy());
  Request request = make_request(random_prompt(9, 1), 12);
  request.sampling.temperature = 0.0f;
  Tokens expected;
  Tokens visible = request.prompt;
  for (int i = 0; i < 12; ++i) {
    const std::vector<float> logits = fake.model->logits_after(visible);
    expected.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    visible.push_back(expected.back());
  }
  const RequestId id = fake.engine->submit(request);
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(id).tokens, expected);
  EXPECT_EQ(results.at(id).finish, FinishReason::length);
  EXPECT_EQ(fake.model->steps(), 12) << "one step for the prompt and its first token, one for each other token";
}

TEST(Engine, EightInOneBatchGiveTheSameTokensAsOneByOne) {
  const FakeEngine fake = make_fake_engine(roomy());
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 8; ++i) {
    ids.push_back(fake.engine->submit(varied_request(i)));
  }
  const Results results = run(*fake.engine);
  EXPECT_LT(fake.model->steps(), 60) << "they ran one after another";
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_EQ(results.at(ids[i]), run_alone(varied_request(i))) << "request " << i;
  }
  expect_nothing_left(*fake.engine);
}

TEST(Engine, RequestsThatComeAndGoDoNotDisturbEachOther) {
  const FakeEngine fake = make_fake_engine(roomy());
  std::vector<RequestId> ids;
  Results results;
  for (unsigned i = 0; i < 30; ++i) {
    ids.push_back(fake.engine->submit(varied_request(i)));
    for (unsigned steps = 0; steps < i % 5; ++steps) {
      collect(*fake.engine, results);
    }
  }
  while (fake.engine->has_work()) {
    collect(*fake.engine, results);
  }
  for (unsigned i = 0; i < 30; ++i) {
    EXPECT_EQ(results.at(ids[i]), run_alone(varied_request(i))) << "request " << i;
  }
  expect_nothing_left(*fake.engine);
}

TEST(Engine, SamplingParametersAreTheRequestsOwn) {
  const FakeEngine fake = make_fake_engine(roomy());
  Request calm = make_request(random_prompt(8, 3), 20);
  calm.sampling.temperature = 0.0f;
  Request wild = calm;
  wild.sampling.temperature = 2.0f;
  wild.sampling.seed = 1;
  const RequestId first = fake.engine->submit(calm);
  const RequestId second = fake.engine->submit(wild);
  const RequestId third = fake.engine->submit(calm);
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(first), results.at(third));
  EXPECT_NE(results.at(first).tokens, results.at(second).tokens);
}

TEST(Engine, PromptInChunksGivesTheSameAsInOnePiece) {
  const Request request = []() {
    Request each = varied_request(5);
    each.prompt = random_prompt(100, 77);
    return each;
  }();
  const Result whole = run_alone(request, {.max_batch_tokens = 512, .max_sequences = 1, .kv_tokens = 512});
  for (const std::int32_t budget : {1, 3, 16, 64}) {
    const FakeEngine fake = make_fake_engine({.max_batch_tokens = budget, .max_sequences = 1, .kv_tokens = 512});
    const RequestId id = fake.engine->submit(request);
    EXPECT_EQ(run(*fake.engine).at(id), whole);
    EXPECT_LE(fake.model->largest_step(), budget);
  }
}

TEST(Engine, PreemptionKeepsEveryAnswer) {
  for (const bool prefix_cache : {false, true}) {
    const FakeEngine fake =
        make_fake_engine({.max_batch_tokens = 32, .max_sequences = 8, .kv_tokens = 160, .prefix_cache = prefix_cache});
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 12; ++i) {
      ids.push_back(fake.engine->submit(varied_request(i)));
    }
    const Results results = run(*fake.engine);
    EXPECT_GT(fake.engine->status().preemptions, 2);
    for (unsigned i = 0; i < 12; ++i) {
      EXPECT_EQ(results.at(ids[i]), run_alone(varied_request(i))) << "request " << i;
    }
    expect_nothing_left(*fake.engine);
  }
}

TEST(Engine, KnownPrefixIsNotComputedAgainAndChangesNothing) {
  const FakeEngine fake = make_fake_engine(roomy());
  const Request request = [] {
    Request each = varied_request(2);
    each.prompt = random_prompt(50, 5);
    return each;
  }();
  const RequestId first = fake.engine->submit(request);
  const Result first_result = run(*fake.engine).at(first);
  EXPECT_EQ(first_result.stats->cached_tokens, 0);
  const std::int64_t computed = fake.model->computed_tokens();
  const RequestId second = fake.engine->submit(request);
  const Result second_result = run(*fake.engine).at(second);
  EXPECT_EQ(second_result, first_result);
  const RequestStats& stats = *second_result.stats;
  EXPECT_EQ(stats.cached_tokens, 48);
  EXPECT_EQ(stats.prompt_tokens, 50);
  EXPECT_EQ(fake.model->computed_tokens() - computed, computed - 48);
  EXPECT_GT(fake.engine->status().prefix_blocks, 0);

  EngineOptions without = roomy();
  without.prefix_cache = false;
  EXPECT_EQ(run_alone(request, without), first_result);
}

TEST(Engine, CancelFreesPagesAtOnceAndIsReported) {
  EngineOptions options = roomy();
  options.prefix_cache = false;
  const FakeEngine fake = make_fake_engine(options);
  Request stay = varied_request(3);
  const RequestId kept = fake.engine->submit(stay);
  const RequestId cancelled = fake.engine->submit(make_request(random_prompt(30, 1)));
  Results results;
  collect(*fake.engine, results);
  collect(*fake.engine, results);
  const std::int32_t free_before = fake.engine->status().free_blocks;
  fake.engine->cancel(cancelled);
  EXPECT_GE(fake.engine->status().free_blocks, free_before + 8);
  EXPECT_EQ(fake.engine->status().running, 1);
  fake.engine->cancel(cancelled);
  fake.engine->cancel(4711);
  while (fake.engine->has_work()) {
    collect(*fake.engine, results);
  }
  EXPECT_EQ(results.at(cancelled).finish, FinishReason::cancelled);
  EXPECT_EQ(results.at(cancelled).stats->generated_tokens, 2);
  EXPECT_EQ(results.at(kept), run_alone(stay));
  expect_nothing_left(*fake.engine);
}

TEST(Engine, CancelledRequestIsReportedThoughNothingElseRuns) {
  const FakeEngine fake = make_fake_engine(roomy());
  const RequestId id = fake.engine->submit(make_request(random_prompt(5, 1)));
  fake.engine->cancel(id);
  ASSERT_TRUE(fake.engine->has_work());
  EXPECT_EQ(run(*fake.engine).at(id).finish, FinishReason::cancelled);
  EXPECT_EQ(fake.model->steps(), 0);
}

TEST(Engine, RequestThatCanNeverRunComesBackWithTheReason) {
  const FakeEngine fake = make_fake_engine({.context_length = 100, .kv_tokens = 200});
  const auto reason = [&](const std::function<void(Request&)>& change) {
    Request request = make_request({5, 6}, 3);
    change(request);
    const RequestId good = fake.engine->submit(make_request({5, 6}, 2));
    const RequestId bad = fake.engine->submit(request);
    const Results results = run(*fake.engine);
    EXPECT_EQ(results.at(good).finish, FinishReason::length) << "others must go on";
    EXPECT_EQ(results.at(bad).finish, FinishReason::error);
    EXPECT_EQ(results.at(bad).stats->generated_tokens, 0);
    EXPECT_EQ(results.at(good).stats->generated_tokens, 2);
    return results.at(bad).text;
  };
  EXPECT_EQ(reason([](Request& r) { r.prompt.clear(); }), "the prompt is empty");
  EXPECT_EQ(reason([](Request& r) { r.prompt.resize(101, 5); }), "the prompt has 101 tokens, the context holds 100");
  EXPECT_EQ(reason([](Request& r) { r.prompt[1] = 260; }), "the prompt's token 1 is 260, the vocabulary has 260 tokens");
  EXPECT_THAT(reason([](Request& r) { r.prompt[0] = -1; }), HasSubstr("token 0 is -1"));
  EXPECT_THAT(reason([](Request& r) { r.sampling.top_p = 7.0f; }), HasSubstr("top_p is 7"));
  EXPECT_THAT(reason([](Request& r) { r.sampling.logit_bias[260] = 1.0f; }), HasSubstr("logit_bias names token 260"));
  EXPECT_THAT(reason([](Request& r) { r.stop = {"x", ""}; }), HasSubstr("stop string is empty"));
  EXPECT_THAT(reason([](Request& r) { r.max_tokens = -2; }), HasSubstr("max_tokens is -2"));
  EXPECT_THAT(reason([](Request& r) { r.keep = -5; }), HasSubstr("keep is -5"));
  expect_nothing_left(*fake.engine);
}

TEST(Engine, LogitsThatAreNoNumbersEndTheRequestAndNoOther) {
  const FakeEngine fake = make_fake_engine(roomy());
  fake.model->follow([](const Tokens& visible) { return visible[0] == 9 && visible.size() == 6 ? -1 : 50; });
  const RequestId bad = fake.engine->submit(make_request({9, 4, 4}, 10));
  const RequestId good = fake.engine->submit(make_request({8, 4, 4}, 10));
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(bad).finish, FinishReason::error);
  EXPECT_THAT(results.at(bad).text, HasSubstr("not numbers"));
  EXPECT_EQ(results.at(bad).tokens.size(), 3u);
  EXPECT_EQ(results.at(good).finish, FinishReason::length);
  expect_nothing_left(*fake.engine);
}

TEST(Engine, FullContextStopsOrShifts) {
  Request request = make_request(random_prompt(12, 6), 100);
  request.sampling.temperature = 0.0f;
  request.keep = 5;
  const EngineOptions options{.context_length = 30, .kv_tokens = 64};

  const Result stopped = run_alone(request, options);
  EXPECT_EQ(stopped.finish, FinishReason::context);
  EXPECT_EQ(stopped.tokens.size(), 30u - 12 + 1) << "the last position still gives a token";
  EXPECT_EQ(stopped.shifts, 0);

  request.context_policy = ContextPolicy::shift;
  const FakeEngine fake = make_fake_engine(options);
  const RequestId id = fake.engine->submit(request);
  const Result shifted = run(*fake.engine).at(id);
  EXPECT_EQ(shifted.finish, FinishReason::length);
  EXPECT_EQ(shifted.stats->generated_tokens, 100);
  Tokens visible = request.prompt;
  Tokens expected;
  int shifts = 0;
  for (int i = 0; i < 100; ++i) {
    const std::vector<float> logits = fake.model->logits_after(visible);
    visible.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    expected.push_back(visible.back());
    if (visible.size() > 30 && i < 99) {
      visible.erase(visible.begin() + 5, visible.begin() + 5 + 13);  // half of the 26 after the kept ones
      ++shifts;
    }
  }
  EXPECT_EQ(shifted.tokens, expected);
  EXPECT_EQ(shifted.shifts, shifts);
  EXPECT_GT(shifts, 4);
  expect_nothing_left(*fake.engine);
}

TEST(Engine, ShiftNeverWritesIntoPagesThatOthersUse) {
  const FakeEngine fake = make_fake_engine({.context_length = 40, .max_sequences = 4, .kv_tokens = 120});
  std::vector<Request> requests;
  for (unsigned i = 0; i < 6; ++i) {
    Request request = make_request(random_prompt(24, 1), 60);  // all have the same prefix and share pages
    request.context_policy = i % 2 == 0 ? ContextPolicy::shift : ContextPolicy::stop;
    request.keep = static_cast<std::int32_t>(i) * 3;
    request.sampling.seed = i;
    requests.push_back(request);
  }
  std::vector<RequestId> ids;
  for (const Request& request : requests) {
    ids.push_back(fake.engine->submit(request));
  }
  const Results results = run(*fake.engine);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(results.at(ids[i]), run_alone(requests[i], {.context_length = 40, .kv_tokens = 40})) << "request " << i;
  }
  expect_nothing_left(*fake.engine);
}

TEST(Engine, ContextIsBoundedByTheCache) {
  const FakeEngine fake = make_fake_engine({.kv_tokens = 40});
  EXPECT_EQ(fake.engine->context_length(), 40);
  const RequestId id = fake.engine->submit(make_request(random_prompt(40, 2)));
  const Result result = run(*fake.engine).at(id);
  EXPECT_EQ(result.finish, FinishReason::context);
  EXPECT_EQ(result.tokens.size(), 1u);
}

TEST(Engine, StatisticsCountWhatHappened) {
  const FakeEngine fake = make_fake_engine(roomy());
  const RequestId id = fake.engine->submit(make_request(random_prompt(10, 2), 7));
  const RequestStats stats = *run(*fake.engine).at(id).stats;
  EXPECT_EQ(stats.prompt_tokens, 10);
  EXPECT_EQ(stats.generated_tokens, 7);
  EXPECT_GT(stats.prompt_seconds, 0.0);
  EXPECT_GT(stats.decode_seconds, 0.0);
}

TEST(Engine, LongPromptsDoNotHoldUpAnswers) {
  const auto largest_step = [](double max_prefill_seconds) {
    const FakeEngine fake = make_fake_engine(
        {.max_batch_tokens = 256, .max_sequences = 4, .max_prefill_seconds = max_prefill_seconds, .kv_tokens = 1024});
    fake.model->take_time(std::chrono::microseconds(500));
    fake.engine->submit(make_request(random_prompt(64, 1), 1));
    run(*fake.engine);  // alone, at a speed that is not known yet
    fake.engine->submit(make_request(random_prompt(4, 2), 60));
    fake.engine->step();
    fake.model->forget_largest_step();
    fake.engine->submit(make_request(random_prompt(200, 3), 1));
    run(*fake.engine);
    return fake.model->largest_step();
  };
  EXPECT_EQ(largest_step(0.0), 201);
  EXPECT_LE(largest_step(0.02), 41);  // 40 tokens of prompts at most, however slow the machine is
  EXPECT_GE(largest_step(0.0001), 17);
}

TEST(Engine, ComputingIsNotQueueing) {
  const FakeEngine fake = make_fake_engine(roomy());
  constexpr std::chrono::milliseconds pause(20);
  fake.model->follow([&](const Tokens&) {
    std::this_thread::sleep_for(pause);
    return 50;
  });
  for (const std::int32_t max_tokens : {1, 0}) {
    const RequestId id = fake.engine->submit(make_request(random_prompt(10, 2), max_tokens));
    const RequestStats stats = *run(*fake.engine).at(id).stats;
    EXPECT_GE(stats.prompt_seconds, stats.queue_seconds);
    if (max_tokens > 0) {
      EXPECT_GE(stats.prompt_seconds - stats.queue_seconds, 0.019);
    } else {
      EXPECT_GT(stats.prompt_seconds, 0.0) << "a prompt without an answer takes time as well";
    }
    EXPECT_EQ(stats.decode_seconds, 0.0);
  }
}

TEST(Engine, StatisticsOfAllThatEndAtOnceAreThere) {
  const FakeEngine fake = make_fake_engine(roomy());
  const std::vector<RequestId> ids = fake.engine->submit(make_request({5}, 50), 3000);
  for (const RequestId id : ids) {
    fake.engine->cancel(id);
  }
  const std::vector<StepOutput> outputs = fake.engine->step();
  ASSERT_EQ(outputs.size(), ids.size());
  for (const StepOutput& output : outputs) {
    ASSERT_TRUE(output.stats.has_value());
    EXPECT_EQ(output.stats->prompt_tokens, 1);
  }
}

TEST(Engine, RandomRequestsAndCancelsLeaveNothingBehind) {
  const FakeEngine fake =
      make_fake_engine({.context_length = 60, .max_batch_tokens = 24, .max_sequences = 6, .kv_tokens = 120});
  std::mt19937 random(8);
  std::map<RequestId, Request> requests;
  Results results;
  for (int event = 0; event < 6000; ++event) {
    const auto choice = random() % 10;
    if (choice == 0 && fake.engine->status().waiting < 8) {
      Request request = varied_request(static_cast<unsigned>(random() % 1000));
      request.prompt =
          random_prompt(1 + random() % 50, static_cast<unsigned>(random() % 4));  // four families of equal starts
      request.context_policy = random() % 4 == 0 ? ContextPolicy::shift : ContextPolicy::stop;
      requests.emplace(fake.engine->submit(request), request);
    } else if (choice == 1 && random() % 4 == 0 && !requests.empty()) {
      fake.engine->cancel(requests.rbegin()->first);
    } else {
      collect(*fake.engine, results);
    }
    ASSERT_FALSE(HasFailure());
  }
  while (fake.engine->has_work()) {
    collect(*fake.engine, results);
  }
  EXPECT_GT(fake.engine->status().preemptions, 10);
  ASSERT_EQ(results.size(), requests.size());
  for (const auto& [id, request] : requests) {
    if (results.at(id).finish != FinishReason::cancelled) {
      ASSERT_EQ(results.at(id), run_alone(request, {.context_length = 60, .kv_tokens = 60})) << "request " << id;
    }
  }
  expect_nothing_left(*fake.engine);
}

}  // namespace
}  // namespace rocmforge::engine_test
