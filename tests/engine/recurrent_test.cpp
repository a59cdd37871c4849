// Models with recurrent state, or with pages that are given up before a window. Whatever happens to a sequence, its answer
// is that of a model that sees all its tokens. The fake model throws an error if a state does not belong to the sequence's
// positions, or if a window's page has other content.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_model.h"
#include "temporary_folder.h"

namespace rocmforge::recurrent_test {
namespace {

using Tokens = std::vector<std::int32_t>;
using Kind = FakeModel::Kind;

struct Outcome {
  Tokens tokens;
  FinishReason finish = FinishReason::none;
  std::int32_t cached_tokens = 0;
  bool operator==(const Outcome& other) const { return tokens == other.tokens && finish == other.finish; }
};
using Outcomes = std::map<RequestId, Outcome>;

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << ::testing::PrintToString(outcome.tokens) << ", finish " << static_cast<int>(outcome.finish);
}

void take(Engine& engine, Outcomes& outcomes) {
  for (const StepOutput& output : engine.step()) {
    Outcome& outcome = outcomes[output.id];
    outcome.tokens.insert(outcome.tokens.end(), output.tokens.begin(), output.tokens.end());
    outcome.finish = output.finish;
    outcome.cached_tokens = output.stats ? output.stats->cached_tokens : 0;
  }
}

Outcomes run(Engine& engine) {
  Outcomes outcomes;
  while (engine.has_work()) {
    take(engine, outcomes);
  }
  const EngineStatus status = engine.status();
  EXPECT_EQ(status.free_blocks + status.evictable_blocks, status.kv_blocks);
  EXPECT_EQ(status.free_slots + status.evictable_states, status.state_slots);
  EXPECT_EQ(status.evictable_states, status.kept_states);
  EXPECT_EQ(status.free_window_blocks + status.evictable_window_blocks, status.window_blocks);
  return outcomes;
}

/// The outcome with an attention model and no other requests.
Outcome alone(const Request& request, EngineOptions options) {
  options.prefix_cache = false;
  const FakeEngine fake = make_fake_engine(options);
  const RequestId id = fake.engine->submit(request);
  return run(*fake.engine).at(id);
}

Tokens random_prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(length);
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(3 + random() % 256);
  }
  return tokens;
}

Request seeded(Tokens prompt, std::int32_t max_tokens, std::uint64_t seed) {
  Request request = make_request(std::move(prompt), max_tokens);
  request.sampling.seed = seed;
  return request;
}

/// With steps that are started ahead, or one by one.
class RecurrentEngine : public ::testing::TestWithParam<std::tuple<Kind, bool>> {
 protected:
  [[nodiscard]] FakeEngine make(const EngineOptions& options) const {
    FakeEngine fake = make_fake_engine(options, true, std::get<0>(GetParam()));
    fake.model->run_ahead(std::get<1>(GetParam()));
    return fake;
  }
};

TEST_P(RecurrentEngine, AKnownPrefixIsReusedWhereItsStateWasKept) {
  const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 1024};
  const FakeEngine fake = make(options);
  const Request request = seeded(random_prompt(50, 5), 20, 1);
  const Outcome expected = alone(request, options);
  for (const std::int32_t hits : {0, 48, 48}) {
    const std::int64_t before = fake.model->computed_tokens();
    const RequestId id = fake.engine->submit(request);
    const Outcome outcome = run(*fake.engine).at(id);
    EXPECT_EQ(outcome, expected);
    EXPECT_EQ(outcome.cached_tokens, hits);
    EXPECT_LE(fake.model->computed_tokens() - before, 50 - hits + 20);
  }
  Request next = request;  // the next turn of the conversation
  next.prompt.insert(next.prompt.end(), expected.tokens.begin(), expected.tokens.end());
  next.prompt.push_back(9);
  const RequestId id = fake.engine->submit(next);
  const Outcome outcome = run(*fake.engine).at(id);
  EXPECT_EQ(outcome, alone(next, options));
  const bool in_pages = std::get<0>(GetParam()) == Kind::windows;  // what was generated is known too
  EXPECT_EQ(outcome.cached_tokens, in_pages ? 68 : 48);
}

TEST_P(RecurrentEngine, AnswersToOnePromptShareItsState) {
  for (const bool prefix_cache : {false, true}) {
    const EngineOptions options{.max_batch_tokens = 64, .max_sequences = 6, .kv_tokens = 512, .prefix_cache = prefix_cache};
    const FakeEngine fake = make(options);
    Request request = seeded(random_prompt(41, 3), 15, 7);
    const std::vector<RequestId> ids = fake.engine->submit(request, 5);
    const Outcomes outcomes = run(*fake.engine);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(outcomes.at(ids[i]), alone(seeded(request.prompt, 15, 7 + i), options));
    }
    EXPECT_LE(fake.model->computed_tokens(), 41 + 5 * 15 + 4 * 1) << "the prompt is computed once, up to its last block";
  }
}

/// A step that fails after it has written states is computed again from the previous states.
TEST_P(RecurrentEngine, AStepThatFailsAdvancesNothing) {
  const EngineOptions options{.max_batch_tokens = 16, .max_sequences = 4, .kv_tokens = 256};
  const auto word = [](const Tokens& visible) {
    return 3 + (visible.back() * 7 + static_cast<std::int32_t>(visible.size())) % 256;
  };
  const auto answers = [&](int failing) {
    const FakeEngine fake = make_fake_engine(options, true, std::get<0>(GetParam()));
    int calls = 0;
    fake.model->follow(
        [&](const Tokens& visible) { return ++calls % 5 == failing ? throw std::bad_alloc() : word(visible); });
    for (unsigned i = 0; i < 4; ++i) {
      fake.engine->submit(make_request(random_prompt(5 + 9 * i, i), 12));
    }
    return run(*fake.engine);
  };
  EXPECT_EQ(answers(1), answers(-1));
}

/// Everything at once: chunks, preemption, prefixes, several answers, shifts, cancels.
void random_requests_get_their_answers(const FakeEngine& fake) {
  std::mt19937 random(11);
  std::map<RequestId, Request> requests;
  Outcomes outcomes;
  for (int event = 0; event < 3000; ++event) {
    const auto choice = random() % 10;
    if (choice == 0 && fake.engine->status().waiting < 8) {
      Request request = seeded(random_prompt(1 + random() % 50, static_cast<unsigned>(random() % 4)),
                               static_cast<std::int32_t>(5 + random() % 30), random() % 1000);
      request.context_policy = random() % 4 == 0 ? ContextPolicy::shift : ContextPolicy::stop;
      request.keep = static_cast<std::int32_t>(random() % 20);
      const int count = random() % 4 == 0 ? 3 : 1;
      for (const RequestId id : fake.engine->submit(request, count)) {
        requests.emplace(id, request);
        ++*request.sampling.seed;
      }
    } else if (choice == 1 && random() % 4 == 0 && !requests.empty()) {
      fake.engine->cancel(requests.rbegin()->first);
    } else {
      take(*fake.engine, outcomes);
    }
  }
  for (auto& [id, outcome] : run(*fake.engine)) {
    outcomes[id].tokens.insert(outcomes[id].tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
    outcomes[id].finish = outcome.finish;
  }
  EXPECT_GT(fake.engine->status().preemptions, 10);
  EXPECT_GT(fake.engine->status().prefix_hits, 100);
  ASSERT_EQ(outcomes.size(), requests.size());
  for (const auto& [id, request] : requests) {
    if (outcomes.at(id).finish != FinishReason::cancelled) {
      ASSERT_EQ(outcomes.at(id), alone(request, {.context_length = 60, .kv_tokens = 60})) << "request " << id;
    }
  }
}

TEST_P(RecurrentEngine, RandomRequestsGetTheirAnswers) {
  // Host memory for nothing, for a few blocks, windows and states, and for all.
  for (const std::int64_t cache_ram : {0, 300'000, 1'000'000}) {
    SCOPED_TRACE(cache_ram);
    EngineOptions options{.context_length = 60, .max_batch_tokens = 24, .max_sequences = 6, .kv_tokens = 120};
    options.cache_ram_bytes = cache_ram;
    const FakeEngine fake = make(options);
    random_requests_get_their_answers(fake);
    const EngineStatus status = fake.engine->status();
    EXPECT_GE(status.host_hits, cache_ram == 1'000'000 ? 1 : 0);
    EXPECT_LE(status.max_host_bytes, cache_ram);
    EXPECT_LE(status.host_bytes, status.max_host_bytes);
  }
}

/// The outcomes of two conversations in turn.
std::vector<Outcome> talk(Engine& engine, int turns) {
  std::vector<Outcome> outcomes;
  std::vector<Tokens> both{random_prompt(60, 1), random_prompt(60, 2)};
  for (int turn = 0; turn < turns; ++turn) {
    for (Tokens& prompt : both) {
      const RequestId id = engine.submit(seeded(prompt, 10, 3));
      outcomes.push_back(run(engine).at(id));
      const Tokens& drawn = outcomes.back().tokens;
      prompt.insert(prompt.end(), drawn.begin(), drawn.end());
    }
  }
  return outcomes;
}

TEST_P(RecurrentEngine, ConversationsInTurnComeBackFromHostMemory) {
  const FakeEngine large = make({.max_batch_tokens = 200, .max_sequences = 2, .kv_tokens = 1024});
  EngineOptions options{.max_batch_tokens = 200, .max_sequences = 2, .kv_tokens = 128};  // pages for one
  options.cache_ram_bytes = 1'000'000;
  const FakeEngine small = make(options);
  const std::vector<Outcome> expected = talk(*large.engine, 5);
  const std::vector<Outcome> found = talk(*small.engine, 5);
  ASSERT_EQ(found, expected);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].cached_tokens, expected[i].cached_tokens) << "turn " << i / 2;
  }
  EXPECT_GT(small.engine->status().host_hits, 4 * 60);
}

TEST_P(RecurrentEngine, ARestartFindsPromptsInFiles) {
  const TemporaryFolder folder;
  EngineOptions options{.max_batch_tokens = 64, .max_sequences = 2, .kv_tokens = 1024};
  options.cache_ram_bytes = 4'000'000;
  options.cache_disk = folder.path().string();
  const auto start = [&] { return make_fake_engine(options, byte_tokenizer(), std::get<0>(GetParam()), 1024); };
  const auto answer = [](const FakeEngine& fake, const Request& request) {
    const RequestId id = fake.engine->submit(request);
    return run(*fake.engine).at(id);
  };
  const Request first = seeded(random_prompt(300, 1), 20, 1);
  Request next = first;
  Outcome expected;
  {
    const FakeEngine fake = start();
    const Outcome begun = answer(fake, first);
    next.prompt.insert(next.prompt.end(), begun.tokens.begin(), begun.tokens.end());
    next.prompt.push_back(9);
    expected = answer(fake, next);
    ASSERT_GE(expected.cached_tokens, 296);
  }
  {
    const FakeEngine fake = start();
    const Outcome found = answer(fake, next);
    EXPECT_EQ(found, expected);
    EXPECT_GE(found.cached_tokens, expected.cached_tokens);
    EXPECT_GE(fake.engine->status().disk_loads, expected.cached_tokens);
    const Outcome shorter = answer(fake, first);
    EXPECT_EQ(shorter.cached_tokens, std::get<0>(GetParam()) == Kind::windows ? shorter.cached_tokens : 296);
    Request other = next;
    other.cache_salt = "other";
    EXPECT_EQ(answer(fake, other).cached_tokens, 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".prompt") {
      continue;
    }
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(entry.path())) - 3);
    file.put('?');
  }
  options.max_sequences = 1;  // has no part in what files hold
  const FakeEngine fake = start();
  const Outcome anew = answer(fake, next);
  EXPECT_EQ(anew, expected);
  EXPECT_EQ(anew.cached_tokens, 0) << "damaged files";
  EXPECT_EQ(fake.engine->status().disk_loads, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentEngine,
                         ::testing::Combine(::testing::Values(Kind::recurrent, Kind::state_alone, Kind::windows),
                                            ::testing::Bool()),
                         [](const auto& instance) {
                           const Kind kind = std::get<0>(instance.param);
                           return std::string(kind == Kind::windows       ? "Windows"
                                              : kind == Kind::state_alone ? "StateAlone"
                                                                          : "StateAndPages") +
                                  (std::get<1>(instance.param) ? "Ahead" : "");
                         });

}  // namespace
}  // namespace rocmforge::recurrent_test
