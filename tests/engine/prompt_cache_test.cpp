// Prompts whose pages were taken come back from host memory: the same tokens and log probabilities as without, and no more
// computed than the ends of prompts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/prompt_cache.h"
#include "paths.h"
#include "temporary_folder.h"

namespace rocmforge::prompt_cache_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

std::unique_ptr<Engine> load(std::int64_t cache_ram_bytes, std::int64_t kv_tokens, const KvTypes& kv_dtype = DType::f16,
                             const std::string& cache_disk = {}) {
  EngineOptions options{.context_length = 512, .max_batch_tokens = 64, .max_sequences = 2};
  options.kv_tokens = kv_tokens;
  options.threads = 2;
  options.device = "cpu";
  options.model.kv_dtype = kv_dtype;
  options.cache_ram_bytes = cache_ram_bytes;
  options.cache_disk = cache_disk;
  return load_model(test::source_path("models/forge-demo.gguf"), options);
}

struct Result {
  Tokens tokens;
  std::vector<float> logprobs;
  RequestStats stats;
};

std::map<RequestId, Result> run(Engine& engine) {
  std::map<RequestId, Result> results;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      Result& result = results[output.id];
      result.tokens.insert(result.tokens.end(), output.tokens.begin(), output.tokens.end());
      for (const TokenLogprobs& drawn : output.logprobs) {
        result.logprobs.push_back(drawn.logprob);
      }
      result.stats = output.stats.value_or(RequestStats());
    }
  }
  return results;
}

Request request_of(const Tokens& prompt, std::string salt = {}) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 6;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  request.logprobs = 0;
  request.cache_salt = std::move(salt);
  return request;
}

Result answer(Engine& engine, const Tokens& prompt, const std::string& salt = {}) {
  const RequestId id = engine.submit(request_of(prompt, salt));
  return run(engine).at(id);
}

Tokens numbered(unsigned seed, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int32_t>((i * i + seed * 37 + 5) % 200);
  }
  return tokens;
}

struct Conversation {
  Tokens prompt;
  std::vector<Result> answers;
};

/// Two conversations in turn, each of which fills the pages; every turn asks some more.
std::vector<Conversation> talk(Engine& engine, int turns) {
  std::vector<Conversation> both{{numbered(1, 330), {}}, {numbered(2, 330), {}}};
  for (int turn = 0; turn < turns; ++turn) {
    for (Conversation& each : both) {
      each.answers.push_back(answer(engine, each.prompt));
      const Tokens& drawn = each.answers.back().tokens;
      each.prompt.insert(each.prompt.end(), drawn.begin(), drawn.end());
      const Tokens more = numbered(static_cast<unsigned>(turn), 3);
      each.prompt.insert(each.prompt.end(), more.begin(), more.end());
    }
  }
  return both;
}

TEST(PromptCache, TwoConversationsInTurnWithPagesForOne) {
  for (const KvTypes& type :
       {KvTypes(DType::f32), KvTypes(DType::f16), KvTypes(DType::q8_0), KvTypes(DType::q5_0, DType::q4_0)}) {
    const auto kept = load(0, 2048, type);  // pages for both: nothing is ever copied
    const auto host = load(16 * mebibyte, 512, type);
    constexpr int turns = 6;
    const std::vector<Conversation> expected = talk(*kept, turns);
    const std::vector<Conversation> found = talk(*host, turns);
    std::int64_t prompt_tokens = 0, reused = 0, from_host = 0;
    for (std::size_t c = 0; c < found.size(); ++c) {
      for (std::size_t turn = 0; turn < turns; ++turn) {
        const Result& got = found[c].answers[turn];
        EXPECT_EQ(got.tokens, expected[c].answers[turn].tokens) << "turn " << turn;
        EXPECT_EQ(got.logprobs, expected[c].answers[turn].logprobs) << "the same bits";
        EXPECT_EQ(got.stats.cached_tokens, expected[c].answers[turn].stats.cached_tokens);
        if (turn > 0) {
          const std::int32_t known = found[c].answers[turn - 1].stats.prompt_tokens;
          EXPECT_GE(got.stats.cached_tokens, known / 32 * 32) << "all whole blocks of the turn before";
          prompt_tokens += got.stats.prompt_tokens;
          reused += got.stats.cached_tokens;
          from_host += got.stats.host_tokens;
        }
      }
    }
    EXPECT_GT(from_host, reused / 2);
    const EngineStatus status = host->status();
    EXPECT_EQ(status.host_hits, from_host);
    EXPECT_GT(status.host_blocks, 0);
    EXPECT_LE(status.host_bytes, status.max_host_bytes);
    EXPECT_LE(status.max_host_bytes, 16 * mebibyte);
    EXPECT_EQ(kept->status().max_host_bytes, 0);
    std::printf("[ measured ] %lld of %lld prompt tokens reused, %lld from host memory\n", static_cast<long long>(reused),
                static_cast<long long>(prompt_tokens), static_cast<long long>(from_host));
  }
}

TEST(PromptCache, SaltsKeepClientsApartInHostMemoryToo) {
  const auto engine = load(16 * mebibyte, 512);
  const Tokens first = numbered(1, 300);
  answer(*engine, first, "one");
  answer(*engine, numbered(2, 400), "two");  // takes the pages
  EXPECT_EQ(answer(*engine, first, "two").stats.cached_tokens, 0);
  EXPECT_EQ(answer(*engine, first).stats.cached_tokens, 0);
  const Result again = answer(*engine, first, "one");
  EXPECT_EQ(again.stats.cached_tokens, 288);
  EXPECT_GT(again.stats.host_tokens, 0);
}

// The prompt has one piece and less than a block behind it: so a kept prompt is as long as one in files, and what follows is
// computed in the same chunks.
TEST(PromptCache, ARestartFindsPromptsInFiles) {
  const TemporaryFolder folder;
  const std::string place = folder.path().string();
  const auto kept = load(0, 2048);
  const auto block_bytes = static_cast<std::int64_t>(kept->memory().pages().block_bytes());
  const std::int64_t block_tokens = kept->memory().block_tokens();
  const auto in_files = static_cast<std::int32_t>((mebibyte + block_bytes - 1) / block_bytes * block_tokens);
  ASSERT_LT(in_files, 440) << "a piece fits into the context";
  const Tokens prompt = numbered(1, static_cast<std::size_t>(in_files) + 10);
  Tokens longer = prompt;
  const Tokens more = numbered(3, 40);
  longer.insert(longer.end(), more.begin(), more.end());
  answer(*kept, prompt);
  const Result expected = answer(*kept, longer);
  ASSERT_EQ(expected.stats.cached_tokens, in_files);
  {
    const auto first = load(16 * mebibyte, 1024, DType::f16, place);
    answer(*first, prompt);
    answer(*first, prompt, "salted");
  }
  const auto second = load(16 * mebibyte, 1024, DType::f16, place);
  EXPECT_GT(second->status().disk_bytes, 2 * mebibyte);
  const Result found = answer(*second, longer);
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logprobs, expected.logprobs);
  EXPECT_EQ(found.stats.cached_tokens, in_files);
  EXPECT_EQ(found.stats.disk_tokens, in_files);
  EXPECT_EQ(second->status().disk_loads, in_files);
  EXPECT_EQ(answer(*second, longer, "another").stats.cached_tokens, 0);
  EXPECT_EQ(answer(*second, longer, "salted").stats.disk_tokens, in_files);
  EXPECT_EQ(answer(*second, longer).stats.disk_tokens, 0) << "it is on the device now";

  const auto other_type = load(16 * mebibyte, 1024, DType::f32, place);
  EXPECT_EQ(answer(*other_type, longer).stats.cached_tokens, 0) << "files of another type of cache";
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() == ".prompt") {
      std::filesystem::resize_file(entry.path(), 1000);
    }
  }
  EXPECT_EQ(answer(*load(16 * mebibyte, 1024, DType::f16, place), longer).stats.cached_tokens, 0) << "damaged files";
}

TEST(PromptCache, TheLimitHolds) {
  const auto small = load(0, 512);
  const std::int64_t block_bytes = static_cast<std::int64_t>(small->memory().pages().block_bytes());
  const auto engine = load(4 * block_bytes + 1, 512);
  for (unsigned i = 0; i < 12; ++i) {
    answer(*engine, numbered(i % 4, 300 + i));
    EXPECT_LE(engine->status().host_blocks, 4);
    EXPECT_EQ(engine->status().max_host_bytes, 4 * block_bytes);
  }
  EXPECT_EQ(engine->status().host_blocks, 4);
  const auto none = load(block_bytes - 1, 512);
  answer(*none, numbered(1, 300));
  answer(*none, numbered(2, 300));
  EXPECT_EQ(none->status().host_blocks, 0);
}

}  // namespace
}  // namespace rocmforge::prompt_cache_test
