#include <gtest/gtest.h>

#include <map>

#include "engine/fake_model.h"

// On a GPU the host starts a step before it knows the tokens that the last one drew. This must not change any output.
namespace rocmforge {
namespace {

EngineOptions options_for(std::int64_t kv_tokens, std::int32_t sequences) {
  EngineOptions options;
  options.kv_tokens = kv_tokens;
  options.max_sequences = sequences;
  options.max_batch_tokens = 32;
  return options;
}

struct Outcome {
  std::vector<std::int32_t> tokens;
  std::string text;
  FinishReason finish = FinishReason::none;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.tokens.size() << " tokens, \"" << outcome.text << "\", finish " << static_cast<int>(outcome.finish);
}

void take(const std::vector<StepOutput>& outputs, std::map<RequestId, Outcome>& outcomes) {
  for (const StepOutput& output : outputs) {
    Outcome& outcome = outcomes[output.id];
    EXPECT_EQ(outcome.finish, FinishReason::none) << "output after the end";
    outcome.tokens.insert(outcome.tokens.end(), output.tokens.begin(), output.tokens.end());
    outcome.text += output.text;
    outcome.finish = output.finish;
  }
}

/// All requests at once, then to the end.
std::map<RequestId, Outcome> run_all(bool ahead, const EngineOptions& options, const std::vector<Request>& requests) {
  FakeEngine fake = make_fake_engine(options);
  fake.model->run_ahead(ahead);
  for (const Request& request : requests) {
    fake.engine->submit(request);
  }
  std::map<RequestId, Outcome> outcomes;
  while (fake.engine->has_work()) {
    take(fake.engine->step(), outcomes);
  }
  EXPECT_EQ(fake.engine->status().free_blocks + fake.engine->status().evictable_blocks, fake.engine->status().kv_blocks);
  return outcomes;
}

Request seeded(std::vector<std::int32_t> prompt, std::int32_t max_tokens, std::uint64_t seed) {
  Request request = make_request(std::move(prompt), max_tokens);
  request.sampling.seed = seed;
  return request;
}

TEST(RunAhead, GivesTheSameAnswers) {
  std::vector<Request> requests;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    requests.push_back(seeded(byte_ids(std::string(3 * seed, 'a')), static_cast<std::int32_t>(7 * seed), seed));
  }
  requests[1].sampling.repeat_penalty = 1.3f;  // must know the token before
  requests[2].sampling.temperature = 0.0f;
  requests[3].logprobs = 2;
  for (const std::int32_t sequences : {1, 3, 8}) {
    const auto expected = run_all(false, options_for(256, sequences), requests);
    EXPECT_EQ(run_all(true, options_for(256, sequences), requests), expected) << sequences << " sequences";
  }
  const std::vector<Request> free_ones{requests[0], requests[2], requests[4], requests[5]};
  EXPECT_EQ(run_all(true, options_for(256, 8), free_ones), run_all(false, options_for(256, 8), free_ones));
}

TEST(RunAhead, ATokenAfterTheEndIsDropped) {
  const auto run = [](bool ahead, FakeModel::Script script, Request request) {
    FakeEngine fake = make_fake_engine(options_for(256, 4));
    fake.model->run_ahead(ahead);
    fake.model->follow(std::move(script));
    fake.engine->submit(std::move(request));
    std::map<RequestId, Outcome> outcomes;
    while (fake.engine->has_work()) {
      take(fake.engine->step(), outcomes);
    }
    return std::pair(outcomes[1], fake.model->steps());
  };
  const auto ends = [](const FakeModel::Tokens& visible) { return visible.size() < 8 ? byte_ids("x")[0] : end_token; };
  const auto alone = run(false, ends, make_request(byte_ids("abc")));
  const auto ahead = run(true, ends, make_request(byte_ids("abc")));
  EXPECT_EQ(alone.first, ahead.first);
  EXPECT_EQ(ahead.first.text, "xxxxx");
  EXPECT_EQ(ahead.second, alone.second + 1) << "one step more was under way";

  const auto words = [](const FakeModel::Tokens& visible) { return byte_ids(visible.size() % 2 == 0 ? "y" : "z")[0]; };
  EXPECT_EQ(run(false, words, make_request(byte_ids("abc"), 40, {"zyz"})).first,
            run(true, words, make_request(byte_ids("abc"), 40, {"zyz"})).first);

  const auto counted = run(true, words, make_request(byte_ids("abc"), 5));
  EXPECT_EQ(counted.first.tokens.size(), 5u);
  EXPECT_EQ(counted.second, 5) << "nothing is started after the last token that was asked for";

  const auto nothing = [](const FakeModel::Tokens& visible) { return visible.size() < 6 ? byte_ids("x")[0] : -1; };
  EXPECT_EQ(run(true, nothing, make_request(byte_ids("abc"))).first.finish, FinishReason::error);
}

TEST(RunAhead, AStepUnderWayOutlivesItsRequest) {
  FakeEngine fake = make_fake_engine(options_for(128, 4));
  fake.model->run_ahead(true);
  const RequestId first = fake.engine->submit(make_request(byte_ids("abc"), 40));
  const RequestId second = fake.engine->submit(seeded(byte_ids("de"), 12, 5));
  std::map<RequestId, Outcome> outcomes;
  take(fake.engine->step(), outcomes);
  take(fake.engine->step(), outcomes);
  fake.engine->cancel(first);
  const RequestId third = fake.engine->submit(seeded(byte_ids("fghi"), 9, 6));  // uses the freed pages
  while (fake.engine->has_work()) {
    take(fake.engine->step(), outcomes);
  }
  EXPECT_EQ(outcomes[first].finish, FinishReason::cancelled);
  const auto expected =
      run_all(false, options_for(128, 4),
              {make_request(byte_ids("abc"), 1), seeded(byte_ids("de"), 12, 5), seeded(byte_ids("fghi"), 9, 6)});
  EXPECT_EQ(outcomes[second], expected.at(2));
  EXPECT_EQ(outcomes[third], expected.at(3));
}

/// When pages run out, no step is started ahead.
TEST(RunAhead, GivesTheSameAnswersWhenPagesAreShort) {
  std::vector<Request> requests;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    requests.push_back(seeded(byte_ids("abcdefgh"), 30, seed));
    requests.back().sampling.temperature = 0.0f;
  }
  EXPECT_EQ(run_all(true, options_for(64, 5), requests), run_all(false, options_for(64, 5), requests));
}

TEST(RunAhead, AFullContextIsShiftedAlike) {
  Request request = seeded(byte_ids("abcdefgh"), 300, 3);
  request.context_policy = ContextPolicy::shift;
  request.sampling.temperature = 0.0f;
  EngineOptions options = options_for(64, 2);
  options.context_length = 48;
  EXPECT_EQ(run_all(true, options, {request}), run_all(false, options, {request}));
}

}  // namespace
}  // namespace rocmforge
