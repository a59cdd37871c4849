// A request's greedy tokens are the same whatever else runs, and its other results agree with its tokens.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "error_of.h"
#include "paths.h"

namespace rocmforge::same_tokens_test {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Setting {
  const char* name;
  const char* model;  ///< a golden model in F32, or "" for the demo model, whose matrices are Q8_0
  KvTypes kv_dtype;
};

constexpr KvTypes rotated_types = [] {
  KvTypes types(DType::q5_1, DType::q4_0);
  types.k_rotated = true;
  types.v_rotated = true;
  return types;
}();

class SameTokens : public ::testing::TestWithParam<Setting> {
 protected:
  SameTokens()
      : golden_(*GetParam().model != '\0' ? golden_model_file(GetParam().model) : ""),
        path_(golden_.empty() ? test::source_path("models/forge-demo.gguf") : golden_) {}
  void TearDown() override { std::remove(golden_.c_str()); }

  [[nodiscard]] std::unique_ptr<Engine> load(EngineOptions options) const {
    options.device = "cpu";
    options.threads = options.threads > 0 ? options.threads : 2;
    options.context_length = 128;
    options.model.kv_dtype = GetParam().kv_dtype;
    return load_model(path_, options);
  }

  std::string golden_;
  std::string path_;
};

Request numbered(unsigned index, std::int32_t vocab, std::int32_t max_tokens = 40) {
  Request request;
  for (unsigned i = 0; i < 3 + index * 11 % 70; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>((i * i + index * 13 + 7) % static_cast<unsigned>(vocab)));
  }
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  return request;
}

struct Result {
  Tokens tokens;
  std::vector<TokenLogprobs> logprobs;
  std::vector<TokenLogprobs> prompt_logprobs;
  std::vector<float> embedding;
};

std::map<RequestId, Result> run(Engine& engine) {
  std::map<RequestId, Result> results;
  while (engine.has_work()) {
    for (StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      Result& result = results[output.id];
      result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
      result.logprobs.insert(result.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
      if (!output.prompt_logprobs.empty()) {
        result.prompt_logprobs = std::move(output.prompt_logprobs);
      }
      result.embedding = std::move(output.embedding);
    }
  }
  return results;
}

Result run_one(Engine& engine, const Request& request) {
  const RequestId id = engine.submit(request);
  return run(engine).at(id);
}

TEST_P(SameTokens, AloneAmong64OthersAfterAPrefixHitInChunksAndPreempted) {
  const auto alone = load({.max_batch_tokens = 512, .max_sequences = 1, .prefix_cache = false});
  const std::int32_t vocab = alone->model().config().vocab;
  std::vector<Tokens> expected;
  for (unsigned i = 0; i < 65; ++i) {
    expected.push_back(run_one(*alone, numbered(i, vocab)).tokens);
  }
  const auto expect_all = [&](Engine& engine, const char* how) {
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 65; ++i) {
      ids.push_back(engine.submit(numbered(i, vocab)));
    }
    const auto results = run(engine);
    for (unsigned i = 0; i < 65; ++i) {
      EXPECT_EQ(results.at(ids[i]).tokens, expected[i]) << "request " << i << " " << how;
    }
  };
  const auto together = load({.max_batch_tokens = 512, .max_sequences = 65, .kv_tokens = 8192});
  expect_all(*together, "among 64 others");
  const std::int64_t hits = together->status().prefix_hits;
  expect_all(*together, "after a prefix hit");
  EXPECT_GT(together->status().prefix_hits, hits + 1000);
  EXPECT_EQ(together->status().preemptions, 0);

  const auto chunks = load({.max_batch_tokens = 7, .max_sequences = 3, .kv_tokens = 1024, .threads = 1});
  expect_all(*chunks, "in chunks");
  const auto tight = load({.max_batch_tokens = 64, .max_sequences = 16, .kv_tokens = 416, .prefix_cache = false});
  expect_all(*tight, "when preempted");
  EXPECT_GT(tight->status().preemptions, 2);
}

/// Every architecture, preempted by the scheduler and with drafts. The context of those with an indexer is one block, which
/// no sequence shares.
std::vector<std::string> models_of_several_blocks() {
  std::vector<std::string> names = golden_model_names();
  std::erase_if(names, [](const std::string& name) { return name == "glm-dsa" || name == "deepseek32"; });
  return names;
}

class PreemptedModel : public ::testing::TestWithParam<std::string> {};

TEST_P(PreemptedModel, GivesTheSameTokens) {
  const std::string path = golden_model_file(GetParam());
  const auto run_all = [&](const EngineOptions& wanted) {
    EngineOptions options = wanted;
    options.device = "cpu";
    options.threads = 1;
    options.context_length = 128;
    options.model.kv_dtype = DType::f32;
    const auto engine = load_model(path, options);
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 5; ++i) {
      ids.push_back(engine->submit(numbered(i, engine->model().config().vocab, 60)));
    }
    const auto results = run(*engine);
    std::vector<Tokens> tokens;
    for (const RequestId id : ids) {
      tokens.push_back(results.at(id).tokens);
    }
    return std::tuple{tokens, engine->status().preemptions, engine->status().accepted_tokens};
  };
  const auto [alone, none, no_drafts] = run_all({.max_batch_tokens = 128, .max_sequences = 1, .prefix_cache = false});
  EXPECT_EQ(none, 0);
  EXPECT_EQ(no_drafts, 0);
  EngineOptions options{.max_batch_tokens = 64, .max_sequences = 5, .kv_tokens = 128, .prefix_cache = false};
  const auto [tight, preemptions, still_none] = run_all(options);
  EXPECT_EQ(tight, alone);
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(still_none, 0);
  options.drafts = {.most = 4, .ngram = 1, .adapts = false};
  const auto [drafted, more_preemptions, accepted] = run_all(options);
  EXPECT_EQ(drafted, alone);
  EXPECT_GT(accepted, 0);
  std::remove(path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Golden, PreemptedModel, ::testing::ValuesIn(models_of_several_blocks()), [](const auto& instance) {
  std::string text = instance.param;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

/// A model that drafts for itself is right in all of its greedy tokens, one of other weights in hardly any.
TEST_P(SameTokens, WithADraftModel) {
  const std::string other = golden_model_file("qwen3");
  EngineOptions options{.max_batch_tokens = 64, .max_sequences = 4, .kv_tokens = 1024};
  const auto answers = [&](const std::string& draft_model, std::int64_t& accepted, std::int64_t& drafted) {
    options.drafts = {.most = 4, .model = draft_model, .adapts = false};
    const auto engine = load(options);
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 8; ++i) {
      ids.push_back(engine->submit(numbered(i, engine->model().config().vocab)));
    }
    const auto results = run(*engine);
    std::vector<Tokens> tokens;
    for (const RequestId id : ids) {
      tokens.push_back(results.at(id).tokens);
    }
    accepted = engine->status().accepted_tokens;
    drafted = engine->status().drafted_tokens;
    return tokens;
  };
  std::int64_t accepted = 0, drafted = 0;
  const std::vector<Tokens> expected = answers("", accepted, drafted);
  EXPECT_EQ(drafted, 0);
  EXPECT_EQ(answers(path_, accepted, drafted), expected);
  EXPECT_EQ(accepted, drafted);
  EXPECT_GT(accepted, 150);
  if (!golden_.empty()) {
    EXPECT_EQ(answers(other, accepted, drafted), expected);
    EXPECT_LT(accepted, drafted / 2);
    EXPECT_GT(drafted, 150);
  } else {
    EXPECT_NE(test::error_of([&] { answers(other, accepted, drafted); }).find("it can't draft"), std::string::npos);
  }
  std::remove(other.c_str());
}

TEST_P(SameTokens, AnswersToOnePromptAreThoseOfTheirSeeds) {
  const auto engine = load({.max_batch_tokens = 64, .max_sequences = 8, .kv_tokens = 2048});
  const std::int32_t vocab = engine->model().config().vocab;
  for (const unsigned index : {3u, 5u, 9u}) {
    Request request = numbered(index, vocab);
    request.sampling.temperature = 1.0f;
    request.sampling.seed = 40;
    const std::vector<RequestId> ids = engine->submit(request, 6);
    const auto results = run(*engine);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      request.sampling.seed = 40 + i;
      EXPECT_EQ(results.at(ids[i]).tokens, run_one(*engine, request).tokens) << "answer " << i;
    }
  }
}

TEST_P(SameTokens, ScoresOfAPromptAreThoseOfTheTokensAsTheyWereDrawn) {
  const auto engine = load({.max_batch_tokens = 24, .max_sequences = 4, .kv_tokens = 1024});
  const std::int32_t vocab = engine->model().config().vocab;
  Request request = numbered(4, vocab, 30);
  request.logprobs = 3;
  request.sampling.logit_bias[5] = 2.0f;
  const Result drawn = run_one(*engine, request);
  ASSERT_EQ(drawn.logprobs.size(), 30u);
  double sum = 0.0;
  Request first = request;
  first.logprobs = 20;
  first.max_tokens = 1;
  const Result likely = run_one(*engine, first);
  for (const TokenLogprob& each : likely.logprobs[0].top) {
    sum += std::exp(double{each.logprob});
  }
  EXPECT_GT(sum, 0.0);
  EXPECT_LE(sum, 1.0 + 1e-5);

  Request scored = request;
  scored.prompt.insert(scored.prompt.end(), drawn.tokens.begin(), drawn.tokens.end());
  scored.max_tokens = 0;
  scored.prompt_logprobs = 3;
  engine->submit(numbered(7, vocab, 40));  // another request in the batch
  const Result result = run_one(*engine, scored);
  ASSERT_EQ(result.prompt_logprobs.size(), scored.prompt.size() - 1);
  for (std::size_t i = 0; i < drawn.logprobs.size(); ++i) {
    const TokenLogprobs& score = result.prompt_logprobs[request.prompt.size() - 1 + i];
    ASSERT_EQ(score.token, drawn.logprobs[i].token);
    ASSERT_EQ(score.logprob, drawn.logprobs[i].logprob) << "token " << i;
    ASSERT_EQ(score.top, drawn.logprobs[i].top);
  }
}

TEST_P(SameTokens, EmbeddingsAgreeWithEachOther) {
  const auto engine = load({.max_batch_tokens = 10, .max_sequences = 4, .kv_tokens = 1024});
  const Tokens prompt = numbered(2, engine->model().config().vocab).prompt;
  const auto embed = [&](std::size_t length, Pooling pooling) {
    Request request;
    request.prompt.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(length));
    request.embedding = pooling;
    return run_one(*engine, request).embedding;
  };
  const auto width = static_cast<std::size_t>(engine->model().config().hidden);
  std::vector<double> mean(width, 0.0);
  for (std::size_t length = 1; length <= prompt.size(); ++length) {
    const std::vector<float> last = embed(length, Pooling::last);
    ASSERT_EQ(last.size(), width);
    for (std::size_t i = 0; i < width; ++i) {
      mean[i] += double{last[i]} / static_cast<double>(prompt.size());
    }
  }
  EXPECT_EQ(embed(prompt.size(), Pooling::cls), embed(1, Pooling::last));
  const std::vector<float> pooled = embed(prompt.size(), Pooling::mean);
  for (std::size_t i = 0; i < width; ++i) {
    EXPECT_NEAR(pooled[i], mean[i], 1e-5 * (1.0 + std::abs(mean[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SameTokens,
    ::testing::Values(Setting{"f32", "llama-gqa4", DType::f32}, Setting{"q8_0", "", DType::f16},
                      Setting{"q8_0_cache", "", DType::q8_0}, Setting{"q5_1_and_q4_0_cache", "", rotated_types},
                      Setting{"recurrent", "lfm2", DType::f32}, Setting{"no_pages", "lfm2-conv", DType::f32},
                      Setting{"scans", "granitehybrid", DType::f32}, Setting{"single_parts", "nemotron_h", DType::f32}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace rocmforge::same_tokens_test
