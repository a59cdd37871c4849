// Drafts change the number of steps, and nothing that an answer has.
#include "engine/drafts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <random>

#include "engine/engine.h"
#include "engine/fake_model.h"
#include "error_of.h"
#include "grammar/gbnf_parser.h"
#include "grammar/grammar_constraint.h"

namespace rocmforge::drafts_test {
namespace {

using Tokens = std::vector<std::int32_t>;
using Kind = FakeModel::Kind;

struct Outcome {
  Tokens tokens;
  std::string text;
  FinishReason finish = FinishReason::none;
  std::string stop;
  std::vector<TokenLogprobs> logprobs;
  std::vector<float> logits;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    const auto same = [](const TokenLogprobs& one, const TokenLogprobs& other) {
      return one.token == other.token && one.logprob == other.logprob && one.top == other.top;
    };
    return a.tokens == b.tokens && a.text == b.text && a.finish == b.finish && a.stop == b.stop && a.logits == b.logits &&
           std::ranges::equal(a.logprobs, b.logprobs, same);
  }
};
using Outcomes = std::map<RequestId, Outcome>;

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << ::testing::PrintToString(outcome.tokens) << " \"" << outcome.text << "\", finish "
             << static_cast<int>(outcome.finish) << ", " << outcome.logprobs.size() << " log probabilities";
}

void take(Engine& engine, Outcomes& outcomes) {
  for (StepOutput& output : engine.step()) {
    Outcome& outcome = outcomes[output.id];
    EXPECT_EQ(outcome.finish, FinishReason::none) << "output after the end";
    outcome.tokens.insert(outcome.tokens.end(), output.tokens.begin(), output.tokens.end());
    outcome.text += output.text;
    outcome.finish = output.finish;
    outcome.stop = output.stop;
    outcome.logits.insert(outcome.logits.end(), output.logits.begin(), output.logits.end());
    std::ranges::move(output.logprobs, std::back_inserter(outcome.logprobs));
  }
}

Outcomes run(Engine& engine) {
  Outcomes outcomes;
  for (int steps = 0; engine.has_work() && steps < 20'000; ++steps) {
    take(engine, outcomes);
  }
  const EngineStatus status = engine.status();
  EXPECT_FALSE(engine.has_work());
  EXPECT_EQ(status.free_blocks + status.evictable_blocks, status.kv_blocks);
  EXPECT_EQ(status.free_slots + status.evictable_states, status.state_slots);
  EXPECT_EQ(status.free_window_blocks + status.evictable_window_blocks, status.window_blocks);
  return outcomes;
}

/// A text that repeats, with a token drawn freely here and there.
std::int32_t repeating(const Tokens& visible) {
  return visible.size() % 11 == 5 ? FakeModel::any_token : byte_ids("repeats")[visible.size() % 7];
}

EngineOptions with_drafts(EngineOptions options, std::int32_t ngram = 2) {
  options.drafts = {.most = 5, .ngram = ngram, .adapts = false};
  return options;
}

Request varied_request(unsigned index) {
  Request request = make_request(byte_ids(std::string("repeatsrepeatsrepeats").substr(index % 7, 4 + 3 * index % 15)),
                                 20 + static_cast<std::int32_t>(index * 7 % 30));
  request.sampling.seed = index;
  request.sampling.temperature = index % 4 == 0 ? 0.0f : 0.5f * static_cast<float>(index % 4);
  request.sampling.frequency_penalty = index % 3 == 0 ? 0.1f : 0.0f;
  request.sampling.min_tokens = index % 5 == 1 ? 12 : 0;
  request.logprobs = index % 3 == 1 ? 2 : -1;
  request.logits = index % 7 == 2;
  if (index % 4 == 3) {
    request.stop = {"tsrepeat"};
  }
  if (index % 6 == 5) {
    request.stop_tokens = {byte_ids("r")[0]};
  }
  return request;
}

struct Setting {
  const char* name;
  Kind kind;
  bool ahead;
};

class DraftedEngine : public ::testing::TestWithParam<Setting> {
 protected:
  static FakeEngine make(const EngineOptions& options) {
    FakeEngine fake = make_fake_engine(options, true, GetParam().kind);
    fake.model->run_ahead(GetParam().ahead);
    fake.model->follow(repeating);
    return fake;
  }
  static Outcomes run_all(const FakeEngine& fake, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      fake.engine->submit(varied_request(i));
    }
    return run(*fake.engine);
  }
};

TEST_P(DraftedEngine, GivesTheSameAnswersInFewerSteps) {
  for (const std::int32_t sequences : {1, 3, 8}) {
    const EngineOptions options{.max_batch_tokens = 64, .max_sequences = sequences, .kv_tokens = 1024};
    const FakeEngine plain = make(options);
    const FakeEngine drafted = make(with_drafts(options));
    EXPECT_EQ(run_all(drafted, 24), run_all(plain, 24)) << sequences << " sequences";
    EXPECT_LT(drafted.model->steps(), plain.model->steps() * 3 / 4);
    const EngineStatus status = drafted.engine->status();
    EXPECT_GT(status.accepted_tokens, 200);
    EXPECT_GT(status.drafted_tokens, status.accepted_tokens);
    EXPECT_LE(status.drafted_tokens, 5 * status.drafts);
    EXPECT_EQ(plain.engine->status().drafted_tokens, 0);
  }
}

TEST_P(DraftedEngine, GivesTheSameAnswersWhenPagesAreShort) {
  for (const bool prefix_cache : {false, true}) {
    const EngineOptions options{.max_batch_tokens = 24, .max_sequences = 6, .kv_tokens = 120, .prefix_cache = prefix_cache};
    const FakeEngine plain = make(options);
    const FakeEngine drafted = make(with_drafts(options));
    EXPECT_EQ(run_all(drafted, 30), run_all(plain, 30));
    EXPECT_GT(drafted.engine->status().accepted_tokens, 100);
    EXPECT_GT(drafted.engine->status().preemptions, 0);
  }
}

TEST_P(DraftedEngine, AdaptsToWhatIsAccepted) {
  EngineOptions options = with_drafts({.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 1024});
  const FakeEngine plain = make({.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 1024});
  options.drafts.adapts = true;
  const FakeEngine drafted = make(options);
  EXPECT_EQ(run_all(drafted, 24), run_all(plain, 24));
  EXPECT_GT(drafted.engine->status().drafts, 0);
}

/// A step with drafts that fails is computed again, with the same random numbers.
TEST_P(DraftedEngine, AStepThatFailsChangesNothing) {
  const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 3, .kv_tokens = 512};
  const Outcomes expected = run_all(make(options), 6);
  for (const std::int32_t first : {2, 5, 6, 9}) {
    const FakeEngine failing = make(with_drafts(options));
    failing.model->lack_memory(first, 2);
    EXPECT_EQ(run_all(failing, 6), expected) << "step " << first;
    EXPECT_GT(failing.engine->status().accepted_tokens, 50);
  }
}

TEST_P(DraftedEngine, EndsWhereTheContextEnds) {
  EngineOptions options{.context_length = 40, .max_batch_tokens = 64, .max_sequences = 2, .kv_tokens = 128};
  for (const ContextPolicy policy : {ContextPolicy::stop, ContextPolicy::shift}) {
    const auto answer = [&](const EngineOptions& chosen) {
      const FakeEngine fake = make(chosen);
      for (std::int32_t length = 5; length < 9; ++length) {
        Request request = make_request(byte_ids(std::string("repeatsre").substr(0, static_cast<std::size_t>(length))),
                                       policy == ContextPolicy::stop ? -1 : 90);
        request.context_policy = policy;
        request.sampling.seed = 5;
        fake.engine->submit(request);
      }
      return run(*fake.engine);
    };
    EXPECT_EQ(answer(with_drafts(options)), answer(options));
  }
}

EngineOptions with_mtp(EngineOptions options, std::int32_t ngram = 0) {
  options.drafts = {.most = 5, .ngram = ngram, .mtp = MtpUse::on, .adapts = false};
  return options;
}

/// An MTP block that is wrong now and then, in chunks and batches, with few pages, beside the table, and
/// where some of its passes lack memory. Its K and V have no gaps but those.
TEST_P(DraftedEngine, GivesTheSameAnswersWithAnMtpBlock) {
  for (const bool tight : {false, true}) {
    const EngineOptions options{
        .max_batch_tokens = 24, .max_sequences = 6, .kv_tokens = tight ? 120 : 1024, .prefix_cache = !tight};
    const Outcomes expected = run_all(make(options), 16);
    const FakeEngine drafted = make(with_mtp(options));
    EXPECT_EQ(run_all(drafted, 16), expected);
    const EngineStatus status = drafted.engine->status();
    EXPECT_GT(status.accepted_tokens, 100);
    EXPECT_GT(status.drafted_tokens, status.accepted_tokens);
    EXPECT_TRUE(!tight || status.preemptions > 0);
    EXPECT_EQ(drafted.model->mtp_gaps(), 0);

    const FakeEngine with_table = make(with_mtp(options, 2));
    EXPECT_EQ(run_all(with_table, 16), expected);
    EXPECT_EQ(with_table.model->mtp_gaps(), 0);

    const FakeEngine failing = make(with_mtp(options));
    failing.model->lack_mtp_memory(5, 7);
    failing.model->lack_memory(3, 2);
    EXPECT_EQ(run_all(failing, 16), expected);
    EXPECT_GT(failing.engine->status().accepted_tokens, 60);
  }
}

/// Where its tokens are not accepted it pauses, and steps are started ahead; its K and V follow them.
TEST_P(DraftedEngine, AnMtpBlockPausesWhereItDoesNotPay) {
  EngineOptions options{.max_batch_tokens = 64, .max_sequences = 2, .kv_tokens = 1024};
  const auto answer = [&](const EngineOptions& chosen, FakeEngine& fake) {
    fake = make(chosen);
    fake.model->follow({});
    Request request = make_request(byte_ids("a prompt"), 150);
    request.ignore_eos = true;
    request.sampling = {.temperature = 3.0f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = 5};
    fake.engine->submit(request);
    return run(*fake.engine);
  };
  FakeEngine plain;
  FakeEngine drafted;
  const Outcomes expected = answer(options, plain);
  options.drafts = {.mtp = MtpUse::on};
  EXPECT_EQ(answer(options, drafted), expected);
  EXPECT_GT(drafted.engine->status().drafted_tokens, 3);
  EXPECT_LT(drafted.engine->status().drafted_tokens, 40);
  EXPECT_EQ(drafted.model->mtp_gaps(), 0);
}

/// A draft model that is wrong now and then.
std::unique_ptr<Engine> fake_draft_model() {
  FakeEngine fake = make_fake_engine({.max_batch_tokens = 16, .max_sequences = 8, .kv_tokens = 1024});
  fake.model->follow([](const Tokens& visible) {
    return visible.size() % 5 == 0 ? FakeModel::any_token : byte_ids("repeats")[visible.size() % 7];
  });
  return std::move(fake.engine);
}

TEST_P(DraftedEngine, GivesTheSameAnswersWithADraftModel) {
  EngineOptions options{.max_batch_tokens = 24, .max_sequences = 6, .kv_tokens = 160};
  const Outcomes expected = run_all(make(options), 24);
  for (const bool with_table : {false, true}) {
    options.drafts = {.most = 5, .ngram = with_table ? 2 : 0, .adapts = with_table};
    const FakeEngine drafted = make_fake_engine(options, byte_tokenizer(), GetParam().kind, 256, {}, fake_draft_model());
    drafted.model->run_ahead(GetParam().ahead);
    drafted.model->follow(repeating);
    EXPECT_EQ(run_all(drafted, 24), expected);
    EXPECT_GT(drafted.engine->status().accepted_tokens, with_table ? 0 : 150);
  }
}

/// Forced tokens, tokens of the table where they are allowed, and those that are not.
TEST_P(DraftedEngine, GivesTheSameAnswersUnderAGrammar) {
  const auto trie = std::make_shared<const TokenTrie>(*byte_tokenizer());
  const char* const texts[] = {
      R"(root ::= ("{\"name\": \"" [a-z]{1,6} "\", \"count\": " [0-9]{1,3} "}" [ ]){4})",
      R"(root ::= ("repeats"){2,9})",
      R"(root ::= [a-z ]*)",
  };
  for (const char* text : texts) {
    const std::shared_ptr<const TokenConstraint> constraint =
        make_grammar_constraint(GrammarMatcher::create(parse_gbnf(text), trie));
    const auto answer = [&](const EngineOptions& options, int failing, std::int32_t& steps) {
      const FakeEngine fake = make(options);
      fake.model->follow([](const Tokens&) { return FakeModel::any_token; });
      for (unsigned i = 0; i < 5; ++i) {
        Request request = varied_request(i);
        request.constraint = constraint;
        request.max_tokens = 90;
        request.sampling.min_tokens = 0;
        fake.engine->submit(request);
      }
      if (failing > 0) {
        fake.model->lack_memory(failing);
      }
      Outcomes outcomes = run(*fake.engine);
      steps = fake.model->steps();
      return outcomes;
    };
    const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 3, .kv_tokens = 1024};
    std::int32_t plain = 0, drafted = 0, failing = 0;
    const Outcomes expected = answer(options, 0, plain);
    EXPECT_EQ(answer(with_drafts(options), 0, drafted), expected) << text;
    EXPECT_EQ(answer(with_drafts(options), 4, failing), expected) << text;
    EXPECT_EQ(answer(with_mtp(options), 0, drafted), expected) << text;
    if (text != texts[2]) {
      EXPECT_LT(drafted, plain * 2 / 3) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , DraftedEngine,
    ::testing::Values(Setting{"Attention", Kind::attention, false}, Setting{"AttentionAhead", Kind::attention, true},
                      Setting{"Recurrent", Kind::recurrent, false}, Setting{"RecurrentAhead", Kind::recurrent, true},
                      Setting{"StateAlone", Kind::state_alone, false}, Setting{"Windows", Kind::windows, false},
                      Setting{"WindowsAhead", Kind::windows, true}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Drafts, AModelDraftsForItsOwnVocabularyAlone) {
  const auto tokenizer = byte_tokenizer();
  const auto refusal = [&](const Tokenizer* model, std::int32_t vocab, const Tokenizer* draft, std::int32_t draft_vocab) {
    return test::error_of([&] { check_draft_vocabulary(model, vocab, draft, draft_vocab); });
  };
  EXPECT_EQ(refusal(tokenizer.get(), 260, tokenizer.get(), 260), "no error");
  EXPECT_EQ(refusal(nullptr, 1000, nullptr, 1100), "no error") << "the ends may differ";
  EXPECT_EQ(refusal(nullptr, 1000, nullptr, 1129), "it can't draft: its vocabulary has 1129 tokens, the model's 1000");
  EXPECT_EQ(refusal(tokenizer.get(), 260, nullptr, 260), "it can't draft: it has no tokenizer");
  const auto with = [&](const char* word) {
    Vocabulary vocabulary = tokenizer->vocabulary();
    vocabulary.tokens.emplace_back(word);
    vocabulary.types.push_back(TokenType::normal);
    if (!vocabulary.scores.empty()) {
      vocabulary.scores.push_back(0.0f);
    }
    return Tokenizer::create(std::move(vocabulary));
  };
  EXPECT_EQ(refusal(with("one").get(), 261, with("other").get(), 261),
            "it can't draft: its token 260 is \"other\", the model's is \"one\"");
  EXPECT_EQ(refusal(with("one").get(), 261, tokenizer.get(), 260), "no error");
}

TEST(Drafts, AreRunAheadWhereNothingRepeats) {
  const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 2, .kv_tokens = 512};
  const auto counting = [](const Tokens& visible) { return 3 + static_cast<std::int32_t>(visible.size()); };
  const auto steps = [&](const EngineOptions& chosen) {
    const FakeEngine fake = make_fake_engine(chosen);
    fake.model->run_ahead(true);
    fake.model->follow([&](const Tokens& visible) { return visible.size() < 40 ? counting(visible) : end_token; });
    fake.engine->submit(make_request(byte_ids("abc")));
    run(*fake.engine);
    EXPECT_EQ(fake.engine->status().drafts, 0);
    return fake.model->steps();
  };
  EXPECT_EQ(steps(with_drafts(options)), steps(options)) << "the step behind the end was under way";
}

TEST(Drafts, ASequencePaysForItsOwnAlone) {
  const FakeEngine fake = make_fake_engine(with_drafts({.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 512}));
  fake.model->follow(
      [](const Tokens& visible) { return visible.front() == byte_ids("r")[0] ? repeating(visible) : FakeModel::any_token; });
  const RequestId repeats = fake.engine->submit(make_request(byte_ids("repeatsrepeats"), 30));
  Request other = make_request(byte_ids("xyz"), 30);
  other.ignore_eos = true;
  const RequestId differs = fake.engine->submit(other);
  std::map<RequestId, RequestStats> stats;
  while (fake.engine->has_work()) {
    for (const StepOutput& output : fake.engine->step()) {
      if (output.stats) {
        stats[output.id] = *output.stats;
      }
    }
  }
  EXPECT_GT(stats[repeats].accepted_tokens, 10);
  EXPECT_GE(stats[repeats].drafted_tokens, stats[repeats].accepted_tokens);
  EXPECT_EQ(stats[repeats].generated_tokens, 30);
  EXPECT_LT(stats[differs].drafted_tokens, 10);
}

/// Draws at draft rows have the model's distribution: chi-square of the second and third token of many answers, where the
/// tokens before are the likeliest ones.
void expect_own_distributions(const EngineOptions& options) {
  constexpr std::int32_t kept = 5;
  const FakeEngine fake = make_fake_engine(options);
  const Tokens prompt = byte_ids("a prompt");
  std::map<Tokens, std::map<std::int32_t, int>> counts;
  std::map<RequestId, Tokens> answers;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    Request request = make_request(prompt, 3);
    request.ignore_eos = true;
    request.sampling = {.temperature = 2.0f, .top_k = kept, .top_p = 1.0f, .min_p = 0.0f, .seed = seed};
    fake.engine->submit(request);
  }
  while (fake.engine->has_work()) {
    for (const StepOutput& output : fake.engine->step()) {
      Tokens& answer = answers[output.id];
      answer.insert(answer.end(), output.tokens.begin(), output.tokens.end());
    }
  }
  EXPECT_GT(fake.engine->status().accepted_tokens, 1000);
  EXPECT_GT(fake.engine->status().drafted_tokens - fake.engine->status().accepted_tokens, 1000);
  for (const auto& [id, answer] : answers) {
    ASSERT_EQ(answer.size(), 3u);
    for (std::ptrdiff_t length = 1; length < 3; ++length) {
      ++counts[Tokens(answer.begin(), answer.begin() + length)][answer[static_cast<std::size_t>(length)]];
    }
  }
  int tested = 0;
  for (const auto& [before, drawn] : counts) {
    const int all =
        std::accumulate(drawn.begin(), drawn.end(), 0, [](int sum, const auto& each) { return sum + each.second; });
    if (all < 300) {
      continue;
    }
    Tokens visible = prompt;
    visible.insert(visible.end(), before.begin(), before.end());
    std::vector<float> logits = fake.model->logits_after(visible);
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    double sum = 0.0;
    for (std::size_t i = 0; i < kept; ++i) {
      sum += std::exp(logits[order[i]] / 2.0);
    }
    double chi_square = 0.0;
    for (std::size_t i = 0; i < kept; ++i) {
      const double expected = all * std::exp(logits[order[i]] / 2.0) / sum;
      const auto found = drawn.find(static_cast<std::int32_t>(order[i]));
      const double difference = (found != drawn.end() ? found->second : 0) - expected;
      chi_square += difference * difference / expected;
    }
    EXPECT_LT(chi_square, 18.5) << "0.1 % of samples of four degrees of freedom";
    ++tested;
  }
  EXPECT_GE(tested, 5);
}

TEST(Drafts, DistributionsStayTheModelsOwn) {
  const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 8, .kv_tokens = 1024};
  expect_own_distributions(with_drafts(options, 1));
  expect_own_distributions(with_mtp(options));
}

}  // namespace
}  // namespace rocmforge::drafts_test
