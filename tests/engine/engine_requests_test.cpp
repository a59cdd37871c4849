// Options of requests: several answers, log probabilities, constraints, embeddings, deadlines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/fake_model.h"

namespace rocmforge::engine_requests_test {
namespace {

using Tokens = std::vector<std::int32_t>;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

struct Result {
  Tokens tokens;
  std::string text;
  FinishReason finish = FinishReason::none;
  RequestError error = RequestError::none;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<float> embedding;
  std::optional<RequestStats> stats;
};
using Results = std::map<RequestId, Result>;

void collect(Engine& engine, Results& results) {
  for (StepOutput& output : engine.step()) {
    Result& result = results[output.id];
    ASSERT_EQ(result.finish, FinishReason::none) << "output after the end";
    result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
    result.text += output.text;
    result.finish = output.finish;
    result.error = output.error;
    result.logprobs.insert(result.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    ASSERT_TRUE(result.prompt_logprobs.empty() || output.prompt_logprobs.empty()) << "they come once";
    result.prompt_logprobs.insert(result.prompt_logprobs.end(), output.prompt_logprobs.begin(),
                                  output.prompt_logprobs.end());
    result.embedding = output.embedding;
    result.stats = output.stats;
  }
}

Results run(Engine& engine) {
  Results results;
  for (int steps = 0; engine.has_work() && steps < 10'000; ++steps) {
    collect(engine, results);
  }
  EXPECT_FALSE(engine.has_work()) << "the work never ends";
  return results;
}

void expect_nothing_left(Engine& engine) {
  const EngineStatus status = engine.status();
  EXPECT_EQ(status.waiting + status.running, 0);
  EXPECT_TRUE(engine.sequences().empty());
  EXPECT_EQ(status.free_blocks + status.evictable_blocks, status.kv_blocks);
}

EngineOptions roomy() { return {.max_batch_tokens = 64, .max_sequences = 8, .kv_tokens = 2048}; }

Tokens random_prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(length);
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(3 + random() % 256);
  }
  return tokens;
}

Request sampled(Tokens prompt, std::uint64_t seed, std::int32_t max_tokens = 12) {
  Request request = make_request(std::move(prompt), max_tokens);
  request.sampling.seed = seed;
  request.sampling.temperature = 1.5f;
  return request;
}

Result run_alone(const Request& request, const EngineOptions& options = roomy()) {
  const FakeEngine fake = make_fake_engine(options);
  const RequestId id = fake.engine->submit(request);
  return run(*fake.engine).at(id);
}

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(double{logit});
  }
  std::vector<double> result;
  for (const float logit : logits) {
    result.push_back(double{logit} - std::log(sum));
  }
  return result;
}

TEST(EngineRequests, AnswersToOnePromptAreThoseOfTheirSeedsAlone) {
  for (const std::size_t length : {1, 15, 16, 17, 50}) {
    const FakeEngine fake = make_fake_engine(roomy());
    const Request request = sampled(random_prompt(length, 4), 70);
    const std::vector<RequestId> ids = fake.engine->submit(request, 5);
    const Results results = run(*fake.engine);
    std::set<Tokens> different;
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(results.at(ids[i]).tokens, run_alone(sampled(request.prompt, 70 + i)).tokens) << "answer " << i;
      different.insert(results.at(ids[i]).tokens);
      EXPECT_EQ(results.at(ids[i]).stats->cached_tokens, i == 0 ? 0 : static_cast<std::int32_t>(length) - 1);
    }
    EXPECT_EQ(different.size(), 5u);
    // The prompt once, its last token again for each further answer, and each answer's tokens but the last.
    EXPECT_EQ(fake.model->computed_tokens(), static_cast<std::int64_t>(length) + 4 + 5 * 11);
    expect_nothing_left(*fake.engine);
  }
}

TEST(EngineRequests, AnswersOutliveEachOtherUnderPreemptionAndCancels) {
  for (const bool prefix_cache : {false, true}) {
    const FakeEngine fake =
        make_fake_engine({.max_batch_tokens = 32, .max_sequences = 6, .kv_tokens = 120, .prefix_cache = prefix_cache});
    std::vector<std::vector<RequestId>> ids;
    for (unsigned i = 0; i < 4; ++i) {
      ids.push_back(fake.engine->submit(sampled(random_prompt(30 + i, i), 10 * i, 20), 4));
    }
    Results results;
    for (int steps = 0; steps < 4; ++steps) {
      collect(*fake.engine, results);
    }
    fake.engine->cancel(ids[0][0]);
    fake.engine->cancel(ids[3][0]);
    while (fake.engine->has_work()) {
      collect(*fake.engine, results);
    }
    EXPECT_GT(fake.engine->status().preemptions, 0);
    for (unsigned i = 0; i < 4; ++i) {
      for (std::size_t answer = 0; answer < 4; ++answer) {
        const Result& result = results.at(ids[i][answer]);
        if (result.finish != FinishReason::cancelled) {
          EXPECT_EQ(result.tokens, run_alone(sampled(random_prompt(30 + i, i), 10 * i + answer, 20)).tokens);
        }
      }
    }
    expect_nothing_left(*fake.engine);
  }
}

TEST(EngineRequests, AllAnswersAreTakenOrNone) {
  EngineOptions options = roomy();
  options.max_sequences = 2;
  options.max_waiting = 3;
  const FakeEngine fake = make_fake_engine(options);
  const std::vector<RequestId> refused = fake.engine->submit(make_request({5, 6}, 2), 6);
  const std::vector<RequestId> taken = fake.engine->submit(make_request({5, 6}, 2), 5);
  const RequestId late = fake.engine->submit(make_request({5, 6}, 2));
  const RequestId wrong = fake.engine->submit(make_request({}, 2));
  const RequestId long_one = fake.engine->submit(make_request(Tokens(257, 5), 2));
  const Results results = run(*fake.engine);
  for (const RequestId id : refused) {
    EXPECT_EQ(results.at(id).error, RequestError::queue_full);
  }
  for (const RequestId id : taken) {
    EXPECT_EQ(results.at(id).finish, FinishReason::length);
    EXPECT_EQ(results.at(id).error, RequestError::none);
  }
  EXPECT_EQ(results.at(late).error, RequestError::queue_full);
  EXPECT_THAT(results.at(late).text, HasSubstr("the queue is full"));
  EXPECT_EQ(results.at(wrong).error, RequestError::invalid);
  EXPECT_EQ(results.at(long_one).error, RequestError::too_long);
  EXPECT_THAT(results.at(long_one).text, HasSubstr("257 tokens, the context holds 256"));
}

TEST(EngineRequests, LogProbabilitiesAreTheModelsOwnWhateverIsDoneToTheLogits) {
  const FakeEngine fake = make_fake_engine(roomy());
  Request request = sampled(random_prompt(9, 2), 3);
  request.logprobs = 4;
  request.sampling.repeat_penalty = 1.5f;
  request.sampling.logit_bias = {{40, 5.0f}, {41, -std::numeric_limits<float>::infinity()}};
  Request plain = request;
  plain.logprobs = -1;
  const RequestId id = fake.engine->submit(request);
  const RequestId without = fake.engine->submit(plain);
  const Results results = run(*fake.engine);
  const Result& result = results.at(id);
  EXPECT_EQ(result.tokens, results.at(without).tokens);
  EXPECT_TRUE(results.at(without).logprobs.empty());
  ASSERT_EQ(result.logprobs.size(), result.tokens.size());
  Tokens visible = request.prompt;
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    const std::vector<double> expected = log_softmax(fake.model->logits_after(visible));
    const TokenLogprobs& logprobs = result.logprobs[i];
    EXPECT_EQ(logprobs.token, result.tokens[i]);
    EXPECT_NEAR(logprobs.logprob, expected[static_cast<std::size_t>(logprobs.token)], 1e-5);
    ASSERT_EQ(logprobs.top.size(), 4u);
    EXPECT_NEAR(logprobs.top[0].logprob, std::ranges::max(expected), 1e-5);
    for (std::size_t t = 0; t < 4; ++t) {
      EXPECT_NEAR(logprobs.top[t].logprob, expected[static_cast<std::size_t>(logprobs.top[t].token)], 1e-5);
      EXPECT_TRUE(t == 0 || logprobs.top[t].logprob <= logprobs.top[t - 1].logprob);
    }
    visible.push_back(result.tokens[i]);
  }
}

TEST(EngineRequests, EveryTokenOfThePromptIsScoredInChunksAndBesideOthers) {
  const Tokens prompt = random_prompt(45, 8);
  for (const std::int32_t budget : {3, 16, 64}) {
    EngineOptions options{.max_batch_tokens = budget, .max_sequences = 3, .kv_tokens = 512};
    options.model.max_logit_rows = 7;
    const FakeEngine fake = make_fake_engine(options);
    fake.engine->submit(sampled(random_prompt(20, 1), 1, 30));
    fake.engine->submit(make_request(prompt, 1));  // its blocks are in the prefix cache when scores are requested
    Request request = make_request(prompt, 0);
    request.prompt_logprobs = 2;
    const RequestId scored = fake.engine->submit(request);
    request.max_tokens = 3;
    request.sampling.temperature = 0.0f;
    const std::vector<RequestId> both = fake.engine->submit(request, 2);
    const Results results = run(*fake.engine);
    EXPECT_EQ(results.at(scored).finish, FinishReason::length);
    EXPECT_TRUE(results.at(scored).tokens.empty());
    EXPECT_EQ(results.at(both[0]).tokens.size(), 3u);
    EXPECT_EQ(results.at(both[0]).tokens, results.at(both[1]).tokens);
    EXPECT_TRUE(results.at(both[1]).prompt_logprobs.empty());
    for (const RequestId id : {scored, both[0]}) {
      const std::vector<TokenLogprobs>& scores = results.at(id).prompt_logprobs;
      ASSERT_EQ(scores.size(), prompt.size() - 1);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        const std::vector<double> expected = log_softmax(fake.model->logits_after({prompt.begin(), end}));
        ASSERT_EQ(scores[i].token, prompt[i + 1]);
        ASSERT_NEAR(scores[i].logprob, expected[static_cast<std::size_t>(prompt[i + 1])], 1e-5) << i;
        ASSERT_EQ(scores[i].top.size(), 2u);
      }
    }
    expect_nothing_left(*fake.engine);
  }
}

TEST(EngineRequests, AnEncoderTakesWholeTextsAndWritesNone) {
  const FakeEngine fake = make_fake_engine({.max_batch_tokens = 4, .max_sequences = 4, .kv_tokens = 512}, byte_tokenizer(),
                                           FakeModel::Kind::attention, 64, {.is_encoder = true});
  const RequestId wrong = fake.engine->submit(make_request({1, 5}));
  std::map<RequestId, Tokens> texts;
  for (const std::int32_t length : {64, 1, 30, 30, 5}) {
    Request request = make_request(random_prompt(static_cast<std::size_t>(length), 7));
    request.embedding = Pooling::mean;
    texts[fake.engine->submit(request)] = request.prompt;
  }
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(wrong).error, RequestError::invalid);
  EXPECT_THAT(results.at(wrong).text, HasSubstr("the model (fake) is an encoder"));
  for (const auto& [id, text] : texts) {
    EXPECT_EQ(results.at(id).embedding, FakeModel::hidden_after(text));
    EXPECT_EQ(results.at(id).finish, FinishReason::stop);
  }
  EXPECT_EQ(fake.model->largest_step(), 64) << "the context, although a step was to have fewer tokens";
  EXPECT_EQ(fake.model->computed_tokens(), 64 + 1 + 30 + 30 + 5) << "no prefix is reused";
}

TEST(EngineRequests, EmbeddingsPoolTheHiddenStates) {
  const Tokens prompt = random_prompt(21, 5);
  std::vector<std::vector<float>> states;
  for (std::size_t length = 1; length <= prompt.size(); ++length) {
    states.push_back(FakeModel::hidden_after({prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
  for (const std::int32_t budget : {4, 64}) {
    const FakeEngine fake = make_fake_engine({.max_batch_tokens = budget, .max_sequences = 4, .kv_tokens = 512});
    fake.engine->submit(sampled(prompt, 1));
    std::map<Pooling, RequestId> ids;
    for (const Pooling pooling : {Pooling::mean, Pooling::last, Pooling::cls}) {
      Request request = make_request(prompt);
      request.embedding = pooling;
      ids[pooling] = fake.engine->submit(request);
    }
    const Results results = run(*fake.engine);
    for (std::size_t i = 0; i < states[0].size(); ++i) {
      double mean = 0.0;
      for (const std::vector<float>& state : states) {
        mean += double{state[i]} / static_cast<double>(states.size());
      }
      EXPECT_NEAR(results.at(ids[Pooling::mean]).embedding.at(i), mean, 1e-3);
      EXPECT_EQ(results.at(ids[Pooling::last]).embedding.at(i), states.back()[i]);
      EXPECT_EQ(results.at(ids[Pooling::cls]).embedding.at(i), states.front()[i]);
    }
    for (const auto& [pooling, id] : ids) {
      EXPECT_EQ(results.at(id).finish, FinishReason::stop) << name(pooling);
      EXPECT_TRUE(results.at(id).tokens.empty());
    }
    expect_nothing_left(*fake.engine);
  }
}

/// Allows each of `words` in its turn, byte by byte; then the end.
class Spelling final : public TokenConstraint {
 public:
  explicit Spelling(std::vector<std::string> words, bool has_end = true) : words_(std::move(words)), has_end_(has_end) {}

  bool allowed_within(std::uint64_t, std::span<std::uint32_t> mask) override {
    if (words_.front() == "!") {
      throw Error("the grammar is too large");
    }
    std::ranges::fill(mask, 0u);
    for (const std::string& word : words_) {
      if (word.starts_with(so_far_) && word.size() > so_far_.size()) {
        set(mask, 3 + static_cast<unsigned char>(word[so_far_.size()]));
      } else if (word == so_far_ && has_end_) {
        set(mask, end_token);
      }
    }
    return true;
  }
  [[nodiscard]] bool finished() const override {
    return std::ranges::all_of(words_,
                               [this](const std::string& word) { return !word.starts_with(so_far_) || word == so_far_; });
  }
  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Spelling>(*this); }
  void go_to(const TokenConstraint& earlier) override { *this = dynamic_cast<const Spelling&>(earlier); }

 private:
  void advance(std::int32_t token) override { so_far_ += static_cast<char>(token - 3); }
  static void set(std::span<std::uint32_t> mask, std::int32_t token) {
    mask[static_cast<std::size_t>(token / 32)] |= 1u << (token % 32);
  }
  std::vector<std::string> words_;
  bool has_end_;
  std::string so_far_;
};

TEST(EngineRequests, AConstraintHoldsForEachAnswerAndForNobodyElse) {
  const FakeEngine fake = make_fake_engine(roomy());
  const std::vector<std::string> words{"yes", "yellow", "no", "north", "maybe"};
  Request request = sampled(random_prompt(6, 1), 5, 50);
  request.constraint = std::make_shared<Spelling>(words);
  request.sampling.temperature = 1e6f;
  request.sampling.top_p = 1.0f;
  request.sampling.min_p = 0.0f;
  request.ignore_eos = true;  // an end token under a constraint still ends the answer
  const std::vector<RequestId> ids = fake.engine->submit(request, 8);
  Request greedy = request;
  greedy.sampling.temperature = 0.0f;
  const RequestId likely = fake.engine->submit(greedy);
  const RequestId free = fake.engine->submit(sampled(random_prompt(6, 1), 5));
  const Results results = run(*fake.engine);
  std::set<std::string> seen;
  for (const RequestId id : ids) {
    EXPECT_TRUE(std::ranges::count(words, results.at(id).text) == 1) << results.at(id).text;
    EXPECT_EQ(results.at(id).finish, FinishReason::stop);
    seen.insert(results.at(id).text);
  }
  EXPECT_GE(seen.size(), 3u);
  EXPECT_TRUE(std::ranges::count(words, results.at(likely).text) == 1);
  EXPECT_EQ(results.at(free).tokens, run_alone(sampled(random_prompt(6, 1), 5)).tokens);
  expect_nothing_left(*fake.engine);
}

TEST(EngineRequests, AConstraintThatFailsEndsItsRequestWithTheReason) {
  const FakeEngine fake = make_fake_engine(roomy());
  Request bad = make_request({5, 6}, 10);
  bad.constraint = std::make_shared<Spelling>(std::vector<std::string>{"!"});
  Request stuck = make_request({5, 6}, 10);
  stuck.constraint = std::make_shared<Spelling>(std::vector<std::string>{"ab"});
  stuck.sampling.logit_bias = {{3 + 'b', -std::numeric_limits<float>::infinity()}};
  const RequestId bad_id = fake.engine->submit(bad);
  const RequestId stuck_id = fake.engine->submit(stuck);
  const RequestId good_id = fake.engine->submit(make_request({5, 6}, 10));
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(bad_id).finish, FinishReason::error);
  EXPECT_THAT(results.at(bad_id).text, HasSubstr("the grammar is too large"));
  EXPECT_EQ(results.at(stuck_id).finish, FinishReason::error);
  EXPECT_THAT(results.at(stuck_id).text, HasSubstr("no token can be drawn"));
  EXPECT_EQ(results.at(good_id).finish, FinishReason::length);
  expect_nothing_left(*fake.engine);
}

TEST(EngineRequests, WhatRunsOutOfTimeEndsAtTheNextStep) {
  const FakeEngine fake = make_fake_engine({.max_batch_tokens = 64, .max_sequences = 1, .kv_tokens = 512});
  Request late = make_request(random_prompt(5, 1), 1000);
  late.deadline = Clock::now() + std::chrono::milliseconds(300);
  Request waiting = make_request(random_prompt(5, 2), 5);
  waiting.deadline = Clock::now() - std::chrono::milliseconds(1);
  Request patient = make_request(random_prompt(5, 3), 5);
  patient.deadline = Clock::now() + std::chrono::hours(1);
  fake.model->follow([](const Tokens&) { return 50; });
  late.ignore_eos = true;
  late.context_policy = ContextPolicy::shift;
  late.max_tokens = -1;  // it would never end
  const RequestId late_id = fake.engine->submit(late);
  const RequestId waiting_id = fake.engine->submit(waiting);
  const RequestId patient_id = fake.engine->submit(patient);
  const std::chrono::duration<double> until_deadline = *late.deadline - Clock::now();
  const Results results = run(*fake.engine);
  EXPECT_EQ(results.at(late_id).finish, FinishReason::timeout);
  EXPECT_GT(results.at(late_id).tokens.size(), 0u);
  EXPECT_EQ(results.at(waiting_id).finish, FinishReason::timeout);
  EXPECT_TRUE(results.at(waiting_id).tokens.empty());
  EXPECT_EQ(results.at(patient_id).finish, FinishReason::length);
  EXPECT_GE(results.at(patient_id).stats->queue_seconds, until_deadline.count());
  expect_nothing_left(*fake.engine);
}

TEST(EngineRequests, StatusTellsWhatRuns) {
  const FakeEngine fake = make_fake_engine({.max_batch_tokens = 16, .max_sequences = 2, .kv_tokens = 512});
  const Tokens prompt = random_prompt(20, 1);
  Request urgent = make_request(random_prompt(4, 2), 10);
  urgent.priority = -1;
  const RequestId slow_id = fake.engine->submit(make_request(prompt, 10));
  const RequestId urgent_id = fake.engine->submit(urgent);
  const RequestId third_id = fake.engine->submit(make_request(prompt, 10));
  fake.engine->step();
  EngineStatus status = fake.engine->status();
  EXPECT_EQ(status.running, 2);
  EXPECT_EQ(status.waiting, 1);
  EXPECT_EQ(status.step_tokens, 16);
  EXPECT_EQ(status.step_sequences, 2);
  EXPECT_EQ(status.steps, 1);
  const std::vector<SequenceStatus> sequences = fake.engine->sequences();
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_EQ(sequences[0].id, urgent_id);
  EXPECT_EQ(sequences[0].phase, SequencePhase::decode);
  EXPECT_EQ(sequences[0].priority, -1);
  EXPECT_EQ(sequences[0].generated_tokens, 1);
  EXPECT_EQ(sequences[1].id, slow_id);
  EXPECT_EQ(sequences[1].phase, SequencePhase::prefill);
  EXPECT_EQ(sequences[1].computed_tokens, 12);
  EXPECT_EQ(sequences[1].kv_blocks, 5);
  EXPECT_GE(sequences[1].age_seconds, 0.0);
  EXPECT_EQ(sequences[2].id, third_id);
  EXPECT_EQ(sequences[2].phase, SequencePhase::waiting);
  EXPECT_EQ(name(sequences[2].phase), "waiting");
  EXPECT_EQ(sequences[2].kv_blocks, 0);
  run(*fake.engine);
  status = fake.engine->status();
  EXPECT_EQ(status.prefix_queries, 20 + 4 + 20);
  EXPECT_EQ(status.prefix_hits, 16) << "the last token is always computed";
  expect_nothing_left(*fake.engine);
}

TEST(TokenLogprobs, TiesInfinitiesAndShortVocabularies) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> logits{1.0f, std::nanf(""), 3.0f, 3.0f, -infinity, 2.0f};
  const TokenLogprobs result = token_logprobs(logits, 0, 4);
  EXPECT_EQ(result.token, 0);
  const double sum = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0);
  EXPECT_NEAR(result.logprob, 1.0 - std::log(sum), 1e-6);
  ASSERT_EQ(result.top.size(), 4u);
  EXPECT_EQ(result.top[0].token, 2) << "of equal ones the lower id";
  EXPECT_EQ(result.top[1].token, 3);
  EXPECT_EQ(result.top[2].token, 5);
  EXPECT_EQ(result.top[3].token, 0);
  EXPECT_EQ(token_logprobs(logits, 4, 0).logprob, -infinity);
  EXPECT_TRUE(token_logprobs(logits, 4, 0).top.empty());
  EXPECT_EQ(token_logprobs(logits, 2, 20).top.size(), 6u);
  EXPECT_EQ(token_logprobs(std::vector<float>{infinity, 1.0f}, 0, 0).logprob, 0.0f);
  EXPECT_NEAR(token_logprobs(std::vector<float>{500.0f, 500.0f}, 1, 0).logprob, -std::log(2.0), 1e-6);
  EXPECT_THROW(token_logprobs(logits, 6, 0), LogicError);
}

TEST(TokenLogprobs, OfTokensThatAreAskedForInTheirOrder) {
  const std::vector<float> logits{1.0f, 4.0f, 3.0f, -std::numeric_limits<float>::infinity()};
  const TokenLogprobs most_likely = token_logprobs(logits, 0, 4);
  const TokenLogprobs result = token_logprobs(logits, 0, 1, std::vector<std::int32_t>{2, 3, 0});
  EXPECT_EQ(result.logprob, most_likely.logprob);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0], most_likely.top[1]);
  EXPECT_EQ(result.top[1], most_likely.top[3]);
  EXPECT_EQ(result.top[2], most_likely.top[2]);
  const FakeEngine fake = make_fake_engine({.kv_tokens = 256});
  Request request = make_request(byte_ids("a"), 1);
  request.logprobs = 0;
  request.logprobs_of = {byte_vocab};
  fake.engine->submit(request);
  const std::vector<StepOutput>& outputs = fake.engine->step();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].error, RequestError::invalid);
  EXPECT_EQ(outputs[0].text, "logprobs_of names token 260, the vocabulary has 260 tokens");
}

}  // namespace
}  // namespace rocmforge::engine_requests_test
