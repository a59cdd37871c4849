// The results of requests when a step runs out of memory.
#include "engine/step_recovery.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_model.h"

namespace rocmforge::step_recovery_test {
namespace {

constexpr std::int32_t letter_x = 3 + 'x';

/// All outputs of a request.
struct Outcome {
  std::string text{};
  FinishReason finish = FinishReason::none;
  RequestError error = RequestError::none;
};

std::map<RequestId, Outcome> run(Engine& engine) {
  std::map<RequestId, Outcome> outcomes;
  for (int steps = 0; engine.has_work() && steps < 1000; ++steps) {
    for (const StepOutput& output : engine.step()) {
      Outcome& outcome = outcomes[output.id];
      EXPECT_EQ(outcome.finish, FinishReason::none) << "nothing comes behind the end";
      outcome.text += output.text;
      outcome.finish = output.finish;
      outcome.error = output.error;
    }
  }
  EXPECT_FALSE(engine.has_work());
  EXPECT_EQ(engine.status().free_blocks + engine.status().evictable_blocks, engine.status().kv_blocks);
  return outcomes;
}

class NoMemoryForAStep : public ::testing::Test {
 protected:
  RequestId ask(const std::string& prompt) { return fake_.engine->submit(make_request(byte_ids(prompt), 4)); }

  FakeEngine fake_ = make_fake_engine({.max_sequences = 4, .kv_tokens = 256});
};

TEST_F(NoMemoryForAStep, OnceChangesNoAnswer) {
  int calls = 0;
  fake_.model->follow([&](const FakeModel::Tokens&) {
    if (++calls == 4) {
      throw std::bad_alloc();
    }
    return letter_x;
  });
  const std::vector<RequestId> ids = {ask("a"), ask("b"), ask("c")};
  const auto outcomes = run(*fake_.engine);
  for (const RequestId id : ids) {
    EXPECT_EQ(outcomes.at(id).text, "xxxx");
    EXPECT_EQ(outcomes.at(id).finish, FinishReason::length);
  }
}

TEST_F(NoMemoryForAStep, EndsTheSequenceThatTakesItAndNoOther) {
  const std::int32_t greedy = byte_ids("b").front();
  fake_.model->follow([&](const FakeModel::Tokens& visible) {
    if (std::ranges::count(visible, greedy) > 0) {
      throw std::bad_alloc();
    }
    return letter_x;
  });
  const std::vector<RequestId> ids = {ask("a"), ask("b"), ask("c")};
  const auto outcomes = run(*fake_.engine);
  for (const RequestId id : {ids[0], ids[2]}) {
    EXPECT_EQ(outcomes.at(id).text, "xxxx");
  }
  EXPECT_EQ(outcomes.at(ids[1]).finish, FinishReason::error);
  EXPECT_EQ(outcomes.at(ids[1]).error, RequestError::no_memory);
}

TEST_F(NoMemoryForAStep, AtAllEndsWhatThereIsAndNothingThatComesLater) {
  bool has_memory = false;
  int calls = 0;
  fake_.model->follow([&](const FakeModel::Tokens&) {
    ++calls;
    return has_memory ? letter_x : throw std::bad_alloc();
  });
  const std::vector<RequestId> ids = {ask("a"), ask("b"), ask("c")};
  for (const auto& [id, outcome] : run(*fake_.engine)) {
    EXPECT_EQ(outcome.finish, FinishReason::error);
  }
  EXPECT_LE(calls, StepRecovery::most_attempts + 3) << "each is tried alone, once";
  has_memory = true;
  const RequestId later = ask("d");
  EXPECT_EQ(run(*fake_.engine).at(later).text, "xxxx");
}

/// Sampled answers when steps run out of memory. Draws depend on the random numbers used before.
std::map<RequestId, std::string> sampled_answers(bool ahead, std::int32_t first, std::int32_t count, std::int32_t& steps) {
  FakeEngine fake = make_fake_engine({.max_sequences = 4, .kv_tokens = 256});
  fake.model->run_ahead(ahead);
  fake.model->lack_memory(first, count);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Request request = make_request(byte_ids(std::string(2 * seed, 'a')), static_cast<std::int32_t>(4 + 2 * seed));
    request.sampling.seed = seed;
    request.logprobs = seed == 3 && !ahead ? 2 : -1;
    fake.engine->submit(std::move(request));
  }
  std::map<RequestId, std::string> texts;
  for (const auto& [id, outcome] : run(*fake.engine)) {
    EXPECT_EQ(outcome.finish, FinishReason::length) << "with " << count << " steps without memory from number " << first;
    texts[id] = outcome.text;
  }
  steps = fake.model->steps();
  return texts;
}

TEST_F(NoMemoryForAStep, ChangesNoAnswerWhicheverItIs) {
  for (const bool ahead : {false, true}) {
    std::int32_t all = 0;
    const auto expected = sampled_answers(ahead, 0, 0, all);
    for (std::int32_t count = 1; count < StepRecovery::most_attempts; ++count) {
      for (std::int32_t first = 1; first <= all; ++first) {
        std::int32_t steps = 0;
        EXPECT_EQ(sampled_answers(ahead, first, count, steps), expected) << count << " from number " << first;
        EXPECT_GT(steps, all) << "they were computed again";
      }
    }
  }
}

TEST_F(NoMemoryForAStep, WhileAnotherIsUnderWayEndsTheSequenceThatTakesItAndNoOther) {
  fake_.model->run_ahead(true);
  const std::int32_t greedy = byte_ids("b").front();
  fake_.model->follow([&](const FakeModel::Tokens& visible) {
    const bool takes_it = std::ranges::count(visible, greedy) > 0 && visible.size() > 2;
    return takes_it ? throw std::bad_alloc() : letter_x;
  });
  const std::vector<RequestId> ids = {ask("a"), ask("b"), ask("c")};
  const auto outcomes = run(*fake_.engine);
  for (const RequestId id : {ids[0], ids[2]}) {
    EXPECT_EQ(outcomes.at(id).text, "xxxx");
  }
  EXPECT_EQ(outcomes.at(ids[1]).error, RequestError::no_memory);
  EXPECT_EQ(outcomes.at(ids[1]).text.substr(0, 2), "xx") << "what came before";
}

TEST(StepRecovery, TellsNobodyToEndWhereNothingCouldBeChosen) {
  StepRecovery recovery(4);
  for (int i = 1; i < StepRecovery::most_attempts; ++i) {
    EXPECT_EQ(recovery.failed({}), std::nullopt);
  }
  EXPECT_EQ(recovery.failed({}), RequestId{0}) << "who is to blame can't be told";
  EXPECT_EQ(recovery.failed({}), std::nullopt) << "it begins anew";
  recovery.succeeded();
  std::vector<ScheduledChunk> step;
  recovery.narrow(step);
  EXPECT_TRUE(step.empty());
}

}  // namespace
}  // namespace rocmforge::step_recovery_test
