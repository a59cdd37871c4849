#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/fake_model.h"
#include "engine/plan_model.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;

std::string message(const std::function<void(EngineOptions&)>& change) {
  EngineOptions options;
  options.device = "cpu";
  change(options);
  try {
    load_model("no/such/model.gguf", options);
  } catch (const Error& error) {
    return error.what();
  }
  return "loaded";
}

TEST(LoadModel, MissingFileIsNamed) {
  EXPECT_THAT(message([](EngineOptions&) {}), HasSubstr("no/such/model.gguf"));
}

TEST(LoadModel, ImpossibleOptionsAreNamedBeforeAnythingIsRead) {
  EXPECT_EQ(message([](EngineOptions& o) { o.threads = -1; }), "threads is -1, must be at least 0");
  EXPECT_EQ(message([](EngineOptions& o) { o.context_length = -1; }), "context_length is -1, must be at least 0");
  EXPECT_EQ(message([](EngineOptions& o) { o.max_batch_tokens = 0; }), "max_batch_tokens is 0, must be at least 1");
  EXPECT_EQ(message([](EngineOptions& o) { o.max_sequences = 0; }), "max_sequences is 0, must be at least 1");
  EXPECT_EQ(message([](EngineOptions& o) { o.kv_tokens = -7; }), "kv_tokens is -7, must be at least 0");
  EXPECT_THAT(message([](EngineOptions& o) { o.isa = "sse9"; }),
              HasSubstr("'sse9' is not one of generic, neon, avx2, avxvnni, avx512"));
  EXPECT_THAT(message([](EngineOptions& o) { o.model.kv_dtype = DType::q4_k; }), HasSubstr("Q4_K"));
}

TEST(MemoryNeeds, OfAProcessorAreTheFilesBytesOrThoseOfItsCopiesIfThereAreMore) {
  FakeModel model(byte_vocab, 256);
  Device cpu;
  for (const auto& [packed, expected] : {std::pair(0, 1000), {900, 1000}, {2100, 2100}}) {
    model.pack(static_cast<std::size_t>(packed));
    const MemoryNeeds needs = memory_needs(1000, model, cpu, 10, 1, 512);
    EXPECT_EQ(needs.weight_bytes, expected);
    EXPECT_EQ(needs.total_bytes(), expected + 10 * needs.kv_bytes_per_token);
  }
}

constexpr std::int64_t gibibyte = std::int64_t{1} << 30;

MemoryNeeds memory_of(std::int64_t weight_bytes, std::int64_t kv_bytes_per_token, std::int64_t available_bytes) {
  MemoryNeeds needs;
  needs.weight_bytes = weight_bytes;
  needs.kv_bytes_per_token = kv_bytes_per_token;
  needs.available_bytes = available_bytes;
  return needs;
}

TEST(FittingContext, IsTheModelsWhereMemoryHasRoom) {
  MemoryNeeds needs = memory_of(4 * gibibyte, 1 << 17, 64 * gibibyte);
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 131'072), 131'072);
  EXPECT_EQ(fitting_context(needs, true, 3, 0, 131'072), 131'072);
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 2048), 2048) << "never more";
  EXPECT_EQ(fitting_context(needs, true, 4, 0, 131'072), 115'200) << "15/16 of 60 GiB for four";
  EXPECT_EQ(fitting_context(needs, false, 3, 0, 131'072), 81'920) << "half of a host's memory";
}

TEST(FittingContext, IsTheUsualOneWhereMemoryHasNone) {
  MemoryNeeds needs = memory_of(4 * gibibyte, 1 << 17, 5 * gibibyte);
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 131'072), default_context_limit) << "512 MiB are 4,096 tokens";
  needs.available_bytes = 3 * gibibyte;
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 131'072), default_context_limit) << "then the model is split, or refused";
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 4096), 4096);
  needs.available_bytes.reset();
  EXPECT_EQ(fitting_context(needs, true, 1, 0, 131'072), default_context_limit) << "nothing is known";
}

TEST(FittingContext, ACacheOfAGivenSizeIsOneContext) {
  const MemoryNeeds needs = memory_of(0, 1 << 17, gibibyte);
  EXPECT_EQ(fitting_context(needs, true, 4, 65'536, 131'072), 65'536);
  EXPECT_EQ(fitting_context(needs, true, 4, 1 << 20, 131'072), 131'072);
}

TEST(FittingContext, AStateNeedsNoMemoryForPositions) {
  MemoryNeeds needs = memory_of(gibibyte, 0, 4 * gibibyte);
  EXPECT_EQ(fitting_context(needs, true, 8, 0, 1 << 20), 1 << 20);
  needs.weight_bytes = 5 * gibibyte;
  EXPECT_EQ(fitting_context(needs, true, 8, 0, 1 << 20), default_context_limit);
}

TEST(MemoryNeeds, OfAWindowDoNotGrowWithTheContext) {
  FakeModel model(byte_vocab, 256, FakeModel::Kind::windows);
  Device cpu;
  const auto needs = [&](std::int64_t tokens) { return memory_needs(0, model, cpu, tokens, 2, 10); };
  EXPECT_EQ(needs(1000).blocks, (std::vector<std::int32_t>{250, 2 * 4 + 3}));
  EXPECT_EQ(needs(100'000).blocks, (std::vector<std::int32_t>{25'000, 2 * 4 + 3}));
  EXPECT_EQ(needs(20).blocks, (std::vector<std::int32_t>{5, 5})) << "never more than positions";
  const std::int64_t block_bytes = FakeModel::layers * 2 * FakeModel::block_tokens * std::int64_t{sizeof(float)};
  EXPECT_EQ(needs(100'000).window_bytes, 11 * block_bytes);
  EXPECT_EQ(needs(100'000).total_bytes(), (25'000 + 11) * block_bytes);
}

}  // namespace
}  // namespace rocmforge
