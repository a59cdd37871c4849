// Requests with LoRA adapters: which they use, what they share, and what loading and unloading does to them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "error_of.h"

namespace rocmforge::adapters_test {
namespace {

using test::error_of;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

struct Outcome {
  Tokens tokens;
  FinishReason finish = FinishReason::none;
  std::int32_t cached_tokens = 0;
  std::string text;
  std::vector<float> scores;  ///< log probabilities of the prompt's tokens
};
using Outcomes = std::map<RequestId, Outcome>;

Outcomes run(Engine& engine) {
  Outcomes outcomes;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      Outcome& outcome = outcomes[output.id];
      outcome.tokens.insert(outcome.tokens.end(), output.tokens.begin(), output.tokens.end());
      outcome.finish = output.finish;
      outcome.cached_tokens = output.stats ? output.stats->cached_tokens : 0;
      outcome.text += output.text;
      for (const TokenLogprobs& score : output.prompt_logprobs) {
        outcome.scores.push_back(score.logprob);
      }
    }
  }
  return outcomes;
}

std::string adapter_file(const std::string& name) { return test::test_data("golden/models/lora/") + name + ".gguf"; }

using Adapters = std::optional<std::vector<AdapterScale>>;

Tokens numbered(std::int32_t first, std::int32_t count) {
  Tokens tokens;
  for (std::int32_t i = 0; i < count; ++i) {
    tokens.push_back((first + 37 * i) % 112);
  }
  return tokens;
}

/// Greedy.
Request asking(const Tokens& prompt, const Adapters& adapters) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 12;
  request.sampling.temperature = 0.0f;
  request.ignore_eos = true;
  request.adapters = adapters;
  return request;
}
/// Of 40 tokens; the 32 first are a block of the cache.
Request request(const Adapters& adapters, std::int32_t first_token = 1) {
  return asking(numbered(first_token, 40), adapters);
}

Outcome answer(Engine& engine, const Request& request) {
  const RequestId id = engine.submit(request);
  return run(engine).at(id);
}

class EngineWithAdapters : public ::testing::Test {
 protected:
  ~EngineWithAdapters() override { std::remove(path_.c_str()); }

  /// With the adapters 0 and 1.
  [[nodiscard]] std::unique_ptr<Engine> load(bool applies, bool prefixes = true) const {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 64;
    options.kv_tokens = 1024;
    options.prefix_cache = prefixes;
    options.model.kv_dtype = DType::f32;
    options.adapters = {{.path = adapter_file("llama-gqa4"), .applies = applies},
                        {.path = adapter_file("llama-gqa4-b"), .scale = 0.5f, .applies = applies, .name = "b"}};
    return load_model(path_, options);
  }
  static Outcome one(Engine& engine, const Adapters& adapters) { return answer(engine, request(adapters)); }

  std::string path_ = golden_model_file("llama-gqa4");
};

TEST_F(EngineWithAdapters, AnswersInOneBatchAreThoseAlone) {
  const std::vector<Adapters> all{{{{0, 1.0f}}}, {{{1, 1.0f}}}, std::nullopt,
                                  {{{0, 1.0f}}}, {{{0, 0.5f}}}, {{{0, 1.0f}, {1, 1.0f}}},
                                  {{}},          {{{1, 2.0f}}}};
  const auto engine = load(false, false);
  std::vector<RequestId> ids;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ids.push_back(engine->submit(request(all[i], static_cast<std::int32_t>(i % 3))));
  }
  const Outcomes together = run(*engine);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RequestId id = engine->submit(request(all[i], static_cast<std::int32_t>(i % 3)));
    EXPECT_EQ(together.at(ids[i]).tokens, run(*engine).at(id).tokens) << "request " << i;
    EXPECT_EQ(together.at(ids[i]).tokens.size(), 12u);
  }
}

TEST_F(EngineWithAdapters, PrefixesAreSharedWithTheSameAdaptersAndScalesAlone) {
  const auto engine = load(false);
  const Outcome plain = one(*engine, {});
  const Outcome changed = one(*engine, {{{0, 1.0f}}});
  EXPECT_EQ(plain.cached_tokens, 0);
  EXPECT_EQ(changed.cached_tokens, 0);
  EXPECT_NE(changed.tokens, plain.tokens);
  for (const Adapters& others : {Adapters{{{0, 0.5f}}}, Adapters{{{1, 1.0f}}}, Adapters{{{0, 1.0f}, {1, 1.0f}}}}) {
    EXPECT_EQ(one(*engine, others).cached_tokens, 0);
  }
  EXPECT_GT(one(*engine, {{{1, 1.0f}, {0, 1.0f}}}).cached_tokens, 0) << "the order does not matter";
  const Outcome again = one(*engine, {{{0, 1.0f}}}), plain_again = one(*engine, {{{0, 0.0f}}});
  EXPECT_GT(again.cached_tokens, 0);
  EXPECT_EQ(again.tokens, changed.tokens);
  EXPECT_GT(plain_again.cached_tokens, 0) << "an adapter with scale 0 is none";
  EXPECT_EQ(plain_again.tokens, plain.tokens);
}

TEST_F(EngineWithAdapters, NoSaltStandsForAnAdapter) {
  const auto engine = load(false);
  one(*engine, {{{0, 1.0f}}});
  for (const std::string& salt :
       {std::string("1 ") + std::string(4, '\0') + std::string("\0\0\x80\x3f", 4), std::string("0 ")}) {
    Request salted = request({});
    salted.cache_salt = salt;
    const RequestId id = engine->submit(salted);
    EXPECT_EQ(run(*engine).at(id).cached_tokens, 0);
  }
}

TEST_F(EngineWithAdapters, RequestsThatNameNoneUseThoseForAll) {
  const auto engine = load(true);
  EXPECT_EQ(one(*engine, {}).tokens, one(*engine, {{{0, 1.0f}, {1, 0.5f}}}).tokens);
  const Outcome plain = one(*engine, {{}});
  EXPECT_NE(one(*engine, {}).tokens, plain.tokens);
  const AdapterScale second{1, 2.0f};
  EXPECT_TRUE(engine->set_adapter_scales({&second, 1}));
  EXPECT_EQ(one(*engine, {}).tokens, one(*engine, {{{1, 2.0f}}}).tokens);
  EXPECT_TRUE(engine->set_adapter_scales({}));
  EXPECT_EQ(one(*engine, {}).tokens, plain.tokens);
  const AdapterScale unknown{7, 1.0f};
  EXPECT_FALSE(engine->set_adapter_scales({&unknown, 1}));
}

TEST_F(EngineWithAdapters, AnUnloadedAdapterStaysForRequestsThatUseIt) {
  const auto engine = load(false, false);
  const Outcome expected = one(*engine, {{{0, 1.0f}}});
  const RequestId running = engine->submit(request({{{0, 1.0f}}}));
  Tokens first;
  while (first.size() < 3) {
    for (const StepOutput& output : engine->step()) {
      first.insert(first.end(), output.tokens.begin(), output.tokens.end());
    }
  }
  EXPECT_TRUE(engine->unload_adapter(0));
  EXPECT_FALSE(engine->unload_adapter(0));
  const RequestId late = engine->submit(request({{{0, 1.0f}}}));
  const Outcomes outcomes = run(*engine);
  Tokens tokens = first;
  tokens.insert(tokens.end(), outcomes.at(running).tokens.begin(), outcomes.at(running).tokens.end());
  EXPECT_EQ(tokens, expected.tokens);
  EXPECT_EQ(outcomes.at(late).finish, FinishReason::error);
  EXPECT_EQ(outcomes.at(late).text, "adapter 0 is not loaded");
  EXPECT_EQ(engine->load_adapter({.path = adapter_file("llama-gqa4"), .applies = false}), 2) << "ids are not used again";
  EXPECT_EQ(one(*engine, {{{2, 1.0f}}}).tokens, expected.tokens);
}

TEST_F(EngineWithAdapters, FilesAndNamesThatAreRefused) {
  const auto engine = load(false);
  EXPECT_THAT(error_of([&] { engine->load_adapter({.path = "no/such.gguf"}); }), HasSubstr("no/such.gguf"));
  EXPECT_THAT(error_of([&] { engine->load_adapter({.path = adapter_file("phi3")}); }),
              HasSubstr("phi3.gguf: an adapter for 'phi3' models, the model is 'llama'"));
  EXPECT_THAT(error_of([&] { engine->load_adapter({.path = path_}); }), HasSubstr("no LoRA adapter"));
  EXPECT_THAT(error_of([&] { engine->load_adapter({.path = adapter_file("llama-gqa4")}); }),
              HasSubstr("an adapter 'llama-gqa4' is loaded already"));
  EXPECT_EQ(one(*engine, {{{0, 1.0f}, {0, 2.0f}}}).text, "adapter 0 is named twice");
  EXPECT_EQ(engine->adapters().size(), 2u);
}

/// An adapter that acts from the last occurrence of its invocation tokens in a prompt on (aLoRA). Blocks have 32 tokens.
class InvokedAdapters : public ::testing::Test {
 protected:
  ~InvokedAdapters() override { std::remove(path_.c_str()); }

  [[nodiscard]] std::unique_ptr<Engine> load(bool prefixes = true) const {
    EngineOptions options{.context_length = 128};
    options.device = "cpu";
    options.threads = 2;
    options.kv_tokens = 1024;
    options.prefix_cache = prefixes;
    options.model.kv_dtype = DType::f32;
    const std::string folder = test::test_data("golden/models/lora");
    options.adapters = {{.path = folder + "/llama-gqa4-invoked.gguf", .applies = false},
                        {.path = folder + "/llama-gqa4-b.gguf", .applies = false}};
    return load_model(path_, options);
  }
  /// A prompt with the invocation tokens at these places, ascending.
  static Tokens invoked_at(const Engine& engine, const std::vector<std::int32_t>& places, std::int32_t length) {
    Tokens prompt = numbered(1, length);
    const Tokens& invocation = engine.adapters()[0].invocation_tokens;
    for (const std::int32_t place : places) {
      std::copy(invocation.begin(), invocation.end(), prompt.begin() + place);
    }
    return prompt;
  }

  std::string path_ = golden_model_file("llama-gqa4");
  const std::vector<AdapterScale> late_{{0, 1.0f}};
};

TEST_F(InvokedAdapters, TokensBeforeAreThoseOfTheModelAloneToTheBit) {
  const auto engine = load();
  const Tokens prompt = invoked_at(*engine, {5, 21}, 40);
  Request scored = asking(prompt, {});
  scored.prompt_logprobs = 0;
  const Outcome plain = answer(*engine, scored);
  scored.adapters = late_;
  const Outcome late = answer(*engine, scored);
  ASSERT_EQ(plain.scores.size(), 39u);
  ASSERT_EQ(late.scores.size(), 39u);
  for (std::size_t i = 0; i < 20; ++i) {  // the score of token i + 1 comes from row i
    EXPECT_EQ(late.scores[i], plain.scores[i]) << i;
  }
  EXPECT_NE(late.scores[21], plain.scores[21]);
  EXPECT_NE(late.tokens, plain.tokens);
}

TEST_F(InvokedAdapters, BlocksBeforeAreSharedWithTheModelAlone) {
  const auto engine = load();
  const auto uncached = load(false);
  const Tokens prompt = invoked_at(*engine, {70}, 110);
  EXPECT_EQ(answer(*engine, asking(prompt, {})).cached_tokens, 0);
  const Outcome late = answer(*engine, asking(prompt, late_));
  EXPECT_EQ(late.cached_tokens, 64);
  EXPECT_EQ(late.tokens, answer(*uncached, asking(prompt, late_)).tokens);
  EXPECT_EQ(answer(*engine, asking(prompt, late_)).cached_tokens, 96) << "its own blocks behind";
  EXPECT_EQ(answer(*engine, asking(prompt, {{{0, 0.5f}}})).cached_tokens, 64) << "another scale";
  EXPECT_EQ(answer(*engine, asking(prompt, {})).cached_tokens, 96);
  EXPECT_EQ(answer(*engine, asking(prompt, {{{1, 1.0f}}})).cached_tokens, 0) << "another adapter";
  const Outcome both = answer(*engine, asking(prompt, {{{0, 1.0f}, {1, 1.0f}}}));
  EXPECT_EQ(both.cached_tokens, 64) << "with an adapter that acts everywhere";
  EXPECT_EQ(both.tokens, answer(*uncached, asking(prompt, {{{0, 1.0f}, {1, 1.0f}}})).tokens);
}

/// The next turn of a conversation has the invocation behind the answer: what was before is the model's alone again.
TEST_F(InvokedAdapters, TheLastOccurrenceCounts) {
  const auto engine = load();
  const auto uncached = load(false);
  const Tokens first = invoked_at(*engine, {40}, 80);
  answer(*engine, asking(first, late_));
  const Tokens second = invoked_at(*engine, {40, 100}, 112);
  const Outcome next = answer(*engine, asking(second, late_));
  EXPECT_EQ(next.cached_tokens, 32) << "the blocks behind the first occurrence are the adapter's";
  EXPECT_EQ(next.tokens, answer(*uncached, asking(second, late_)).tokens);
  EXPECT_EQ(answer(*engine, asking(second, {})).cached_tokens, 96);
  EXPECT_EQ(answer(*engine, asking(first, late_)).cached_tokens, 64) << "those of the first turn are still there";
}

TEST_F(InvokedAdapters, APromptWithoutTheTokensIsForTheModelAlone) {
  const auto engine = load();
  const Tokens prompt = numbered(1, 40);
  const Outcome plain = answer(*engine, asking(prompt, {}));
  const Outcome named = answer(*engine, asking(prompt, late_));
  EXPECT_EQ(named.tokens, plain.tokens);
  EXPECT_EQ(named.cached_tokens, 32);
  const Tokens cut = invoked_at(*engine, {38}, 41);
  EXPECT_NE(answer(*engine, asking(cut, late_)).tokens, answer(*engine, asking(cut, {})).tokens) << "as the last tokens";
  EXPECT_EQ(answer(*engine, asking(Tokens(cut.begin(), cut.end() - 1), late_)).tokens,
            answer(*engine, asking(Tokens(cut.begin(), cut.end() - 1), {})).tokens);
}

/// An answer is computed in one step for each token behind a prompt in several: the adapter acts in all of them.
TEST_F(InvokedAdapters, StepsOfAnySizeGiveTheSame) {
  const auto engine = load(false);
  const Tokens prompt = invoked_at(*engine, {21}, 40);
  const Outcome alone = answer(*engine, asking(prompt, late_));
  Tokens longer = prompt;
  longer.insert(longer.end(), alone.tokens.begin(), alone.tokens.end() - 1);
  Request last = asking(longer, late_);
  last.max_tokens = 1;
  EXPECT_EQ(answer(*engine, last).tokens, Tokens{alone.tokens.back()});
}

}  // namespace
}  // namespace rocmforge::adapters_test
