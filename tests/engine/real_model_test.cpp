#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace rocmforge {
namespace {

using Tokens = std::vector<std::int32_t>;

/// A golden model as a file without tokenizer, which is said by a key that the golden files lack.
std::string path_of(const std::string& model) {
  std::ifstream in(ROCMFORGE_TEST_DATA "/golden/models/" + model + ".gguf", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto number = [](auto value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto entry = [&](std::string_view key, std::string_view value) {
    constexpr std::uint32_t string_type = 8;
    return number(std::uint64_t{key.size()}) + std::string(key) + number(string_type) + number(std::uint64_t{value.size()}) +
           std::string(value);
  };
  // Multiples of the alignment leave the data where the tensors expect it.
  const std::string added = entry("tokenizer.ggml.model", "no_vocab") + entry("general.description", "a fixture");
  EXPECT_EQ(added.size() % 32, 0u);
  constexpr std::size_t count_offset = 16;  // magic, version, number of tensors, number of keys
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + count_offset, sizeof count);
  count += 2;
  std::memcpy(bytes.data() + count_offset, &count, sizeof count);
  bytes.insert(count_offset + sizeof count, added);
  const std::string path = testing::TempDir() + "engine_" + std::to_string(::getpid()) + "_" + model + ".gguf";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

EngineOptions small() {
  EngineOptions options;
  options.context_length = 128;
  options.max_batch_tokens = 32;
  options.kv_tokens = 1024;
  options.threads = 2;
  return options;
}

Request numbered(unsigned index, std::int32_t vocab) {
  Request request;
  for (unsigned i = 0; i < 3 + index * 11 % 50; ++i) {
    request.prompt.push_back(static_cast<std::int32_t>((i * i + index * 13 + 7) % static_cast<unsigned>(vocab)));
  }
  request.max_tokens = 16;
  request.sampling.temperature = index % 2 == 0 ? 0.0f : 1.0f;
  request.sampling.seed = index;
  return request;
}

std::map<RequestId, Tokens> run(Engine& engine) {
  std::map<RequestId, Tokens> tokens;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      if (output.token >= 0) {
        tokens[output.id].push_back(output.token);
      }
    }
  }
  return tokens;
}

class RealModel : public testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  const std::string path_ = path_of(GetParam());
};

TEST_P(RealModel, EightInOneBatchGiveTheSameTokensAsOneByOne) {
  EngineOptions options = small();
  options.prefix_cache = false;
  const auto engine = load_model(path_, options);
  const std::int32_t vocab = engine->model().config().vocab;
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 8; ++i) {
    ids.push_back(engine->submit(numbered(i, vocab)));
  }
  const std::map<RequestId, Tokens> together = run(*engine);
  for (unsigned i = 0; i < 8; ++i) {
    const RequestId id = engine->submit(numbered(i, vocab));
    EXPECT_EQ(run(*engine).at(id), together.at(ids[i])) << "request " << i;
  }
  EXPECT_EQ(engine->status().free_blocks, engine->status().kv_blocks);
}

TEST_P(RealModel, ChunksPrefixesAndPreemptionChangeNoToken) {
  EngineOptions whole = small();
  whole.threads = 1;
  whole.max_batch_tokens = 128;
  whole.prefix_cache = false;
  const auto reference = load_model(path_, whole);
  EngineOptions pieces = small();
  pieces.threads = 1;
  pieces.max_batch_tokens = 9;
  pieces.kv_tokens = 160;
  const auto engine = load_model(path_, pieces);
  const std::int32_t vocab = engine->model().config().vocab;
  for (int round = 0; round < 2; ++round) {  // the second finds the first one's prefixes
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 8; ++i) {
      ids.push_back(engine->submit(numbered(i, vocab)));
    }
    const std::map<RequestId, Tokens> results = run(*engine);
    for (unsigned i = 0; i < 8; ++i) {
      const RequestId id = reference->submit(numbered(i, vocab));
      EXPECT_EQ(results.at(ids[i]), run(*reference).at(id)) << "request " << i << " in round " << round;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, RealModel, testing::Values("llama-gqa4", "qwen2", "qwen3"), [](const auto& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
});

class LoadedModel : public testing::Test {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }
  const std::string path_ = path_of("qwen2");
};

TEST_F(LoadedModel, SizesFollowTheOptions) {
  EngineOptions options = small();
  options.kv_tokens = 100;
  const auto engine = load_model(path_, options);
  const std::int32_t block_tokens = engine->cache().layout().block_tokens;
  EXPECT_EQ(engine->cache().num_blocks(), (100 + block_tokens - 1) / block_tokens);
  EXPECT_LE(engine->context_length(), 128);
  EXPECT_EQ(engine->threads(), 2);
  EXPECT_EQ(engine->file().path(), path_);

  const auto plain = load_model(path_);
  EXPECT_EQ(plain->context_length(), plain->model().config().context_length);
  EXPECT_GE(plain->cache().num_blocks() * block_tokens, plain->context_length()) << "one full context by default";
}

TEST_F(LoadedModel, TooLargeACacheIsRefusedWithTheNumbers) {
  EngineOptions options = small();
  options.kv_tokens = std::int64_t{1} << 40;
  try {
    load_model(path_, options);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("_qwen2.gguf: needs "),
                                             testing::HasSubstr("KV cache of 1099511627776 tokens"),
                                             testing::HasSubstr("are available: "), testing::HasSubstr("tokens would fit")));
  }
}

}  // namespace
}  // namespace rocmforge
