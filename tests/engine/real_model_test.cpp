#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/fake_driver.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "greedy_comparison.h"
#include "temporary_folder.h"
#include "test_device.h"

namespace rocmforge::real_model_test {
namespace {

using Tokens = std::vector<std::int32_t>;

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
      tokens[output.id].insert(tokens[output.id].end(), output.tokens.begin(), output.tokens.end());
    }
  }
  return tokens;
}

/// Models run on the device that ROCMFORGE_TEST_DEVICE names.
class OnTestDevice : public ::testing::Test {
 protected:
  explicit OnTestDevice(const std::string& model) : path_(golden_model_file(model)) {}
  void SetUp() override {
    opened_ = test::open_test_device();
    if (opened_.device == nullptr) {
      GTEST_SKIP() << opened_.problem;
    }
  }
  void TearDown() override { std::remove(path_.c_str()); }

  std::unique_ptr<Engine> load(const EngineOptions& options) {
    if (opened_.device == nullptr) {
      opened_ = test::open_test_device();
    }
    return load_model(path_, options, std::move(opened_.device));
  }
  std::unique_ptr<Engine> load_on_cpu(EngineOptions options) {
    options.device = "cpu";
    return load_model(path_, options);
  }

  /// On the CPU a request's tokens are the same whatever else is in the batch. A GPU has separate kernels for few tokens, so
  /// there the most likely token may differ where two are almost equally likely.
  static void expect_same(Engine& reference, const Request& request, const Tokens& expected, const Tokens& actual) {
    if (!reference.device_info().is_gpu()) {
      EXPECT_EQ(actual, expected);
    } else if (request.sampling.temperature <= 0.0f) {
      EXPECT_TRUE(test::equal_but_for_ties(reference, request.prompt, expected, actual, batch_tokens));
    }
  }

  static constexpr std::int32_t batch_tokens = 32;
  const std::string path_;
  test::TestDevice opened_;
};

class RealModel : public OnTestDevice, public ::testing::WithParamInterface<const char*> {
 protected:
  RealModel() : OnTestDevice(GetParam()) {}
};

TEST_P(RealModel, EightInOneBatchGiveTheSameTokensAsOneByOne) {
  EngineOptions options = small();
  options.prefix_cache = false;
  const auto engine = load(options);
  const std::int32_t vocab = engine->model().config().vocab;
  std::vector<RequestId> ids;
  for (unsigned i = 0; i < 8; ++i) {
    ids.push_back(engine->submit(numbered(i, vocab)));
  }
  const std::map<RequestId, Tokens> together = run(*engine);
  for (unsigned i = 0; i < 8; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    const RequestId id = engine->submit(numbered(i, vocab));
    const Tokens alone = run(*engine).at(id);
    expect_same(*engine, numbered(i, vocab), alone, together.at(ids[i]));
  }
  EXPECT_EQ(engine->status().free_blocks, engine->status().kv_blocks);
}

TEST_P(RealModel, ChunksPrefixesAndPreemptionChangeNoToken) {
  EngineOptions whole = small();
  whole.threads = 1;
  whole.max_batch_tokens = 128;
  whole.prefix_cache = false;
  const auto reference = load(whole);
  EngineOptions pieces = small();
  pieces.threads = 1;
  pieces.max_batch_tokens = 9;
  pieces.kv_tokens = 160;
  const auto engine = load(pieces);
  const std::int32_t vocab = engine->model().config().vocab;
  for (int round = 0; round < 2; ++round) {  // the second finds the first one's prefixes
    std::vector<RequestId> ids;
    for (unsigned i = 0; i < 8; ++i) {
      ids.push_back(engine->submit(numbered(i, vocab)));
    }
    const std::map<RequestId, Tokens> results = run(*engine);
    for (unsigned i = 0; i < 8; ++i) {
      SCOPED_TRACE("request " + std::to_string(i) + " in round " + std::to_string(round));
      const RequestId id = reference->submit(numbered(i, vocab));
      const Tokens expected = run(*reference).at(id);
      expect_same(*reference, numbered(i, vocab), expected, results.at(ids[i]));
    }
  }
}

TEST_P(RealModel, GivesTheGreedyTokensOfTheCpu) {
  EngineOptions options = small();
  options.prefix_cache = false;
  const auto engine = load(options);
  if (!engine->device_info().is_gpu()) {
    GTEST_SKIP() << "ROCMFORGE_TEST_DEVICE names no GPU";
  }
  const auto cpu = load_on_cpu(options);
  const std::int32_t vocab = cpu->model().config().vocab;
  for (unsigned i = 0; i < 16; ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    Request request = numbered(i, vocab);
    request.sampling.temperature = 0.0f;
    const RequestId expected_id = cpu->submit(request);
    const RequestId id = engine->submit(request);
    const Tokens expected = run(*cpu).at(expected_id);
    EXPECT_TRUE(test::equal_but_for_ties(*cpu, request.prompt, expected, run(*engine).at(id), options.max_batch_tokens));
  }
}

/// Allows every third token, and never the end token.
class EveryThird final : public TokenConstraint {
 public:
  explicit EveryThird(std::int32_t vocab) : vocab_(vocab) {}
  bool allowed_within(std::uint64_t, std::span<std::uint32_t> mask) override {
    std::ranges::fill(mask, 0u);
    for (std::int32_t token = 0; token < vocab_; token += 3) {
      mask[static_cast<std::size_t>(token / 32)] |= 1u << (token % 32);
    }
    return true;
  }
  [[nodiscard]] bool finished() const override { return false; }
  [[nodiscard]] std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<EveryThird>(*this); }
  void go_to(const TokenConstraint&) override {}

 private:
  void advance(std::int32_t) override {}
  std::int32_t vocab_;
};

TEST_P(RealModel, AnswersMasksScoresAndHiddenStatesAreThoseOfTheCpu) {
  EngineOptions options = small();
  const auto engine = load(options);
  const auto cpu = load_on_cpu(options);
  const std::int32_t vocab = cpu->model().config().vocab;
  Request request = numbered(6, vocab);
  const std::vector<RequestId> answers = engine->submit(request, 3);  // greedy: all the same, each on its own last page
  Request masked = numbered(8, vocab);
  masked.constraint = std::make_shared<EveryThird>(vocab);
  const RequestId masked_id = engine->submit(masked);
  masked.sampling.temperature = 2.0f;
  const RequestId wild_id = engine->submit(masked);
  masked.sampling.temperature = 0.0f;
  const std::map<RequestId, Tokens> results = run(*engine);
  const RequestId alone_id = engine->submit(request);
  const Tokens alone = run(*engine).at(alone_id);
  for (const RequestId id : answers) {
    expect_same(*engine, request, alone, results.at(id));
  }
  for (const RequestId id : {masked_id, wild_id}) {
    EXPECT_TRUE(std::ranges::all_of(results.at(id), [](std::int32_t token) { return token % 3 == 0; }));
  }

  const auto last_output = [](Engine& of, const Request& asked) {
    of.submit(asked);
    StepOutput last;
    while (of.has_work()) {
      for (StepOutput& output : of.step()) {
        last = std::move(output);
      }
    }
    return last;
  };
  Request scored = numbered(6, vocab);
  scored.max_tokens = 0;
  scored.prompt_logprobs = 2;
  Request embedded = numbered(6, vocab);
  embedded.embedding = Pooling::mean;
  const StepOutput expected_scores = last_output(*cpu, scored);
  const StepOutput scores = last_output(*engine, scored);
  ASSERT_EQ(scores.prompt_logprobs.size(), scored.prompt.size() - 1);
  for (std::size_t i = 0; i < scores.prompt_logprobs.size(); ++i) {
    EXPECT_NEAR(scores.prompt_logprobs[i].logprob, expected_scores.prompt_logprobs[i].logprob, 0.05) << "token " << i;
    EXPECT_EQ(scores.prompt_logprobs[i].token, scored.prompt[i + 1]);
  }
  const std::vector<float> expected = last_output(*cpu, embedded).embedding;
  const std::vector<float> actual = last_output(*engine, embedded).embedding;
  ASSERT_EQ(actual.size(), expected.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(double{actual[i]} - double{expected[i]}, 2.0);
    norm += std::pow(double{expected[i]}, 2.0);
  }
  EXPECT_LE(std::sqrt(difference / norm), 0.01);
}

/// Counted by the driver: a step copies in the plan's arrays, copies out the drawn ids and waits once for them. The first
/// call starts two steps. Each later call starts the step after the one that it waits for, and the last call starts none.
TEST_P(RealModel, EveryStepIsAllOnTheDevice) {
  EngineOptions options = small();
  options.prefix_cache = false;
  const auto engine = load(options);
  if (!engine->device_info().is_gpu()) {
    GTEST_SKIP() << "ROCMFORGE_TEST_DEVICE names no GPU";
  }
  Request request = numbered(2, engine->model().config().vocab);
  constexpr int steps = 12;
  request.max_tokens = steps;
  engine->submit(std::move(request));
  for (int step = 0; engine->has_work(); ++step) {
    const DriverCounters before = engine->device().driver().counters();
    engine->step();
    const DriverCounters counted = engine->device().driver().counters() - before;
    const int started = step == 0 ? 2 : step + 1 == steps ? 0 : 1;
    EXPECT_EQ(counted.copies_to_device, started) << "step " << step;
    EXPECT_EQ(counted.copies_to_host, started) << "step " << step;
    EXPECT_EQ(counted.bytes_to_host, 4 * started) << "step " << step;
    EXPECT_EQ(counted.synchronizations, 1) << "step " << step;
    EXPECT_EQ(counted.allocations, 0) << "step " << step;
    if (step > 2) {
      EXPECT_EQ(counted.graph_launches, started) << "step " << step;
      EXPECT_EQ(counted.launches, 0) << "step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, RealModel, ::testing::Values("llama-gqa4", "qwen2", "qwen3"), [](const auto& parameter) {
  std::string name = parameter.param;
  std::erase(name, '-');
  return name;
});

class LoadedModel : public OnTestDevice {
 protected:
  LoadedModel() : OnTestDevice("qwen2") {}
};

TEST_F(LoadedModel, SizesFollowTheOptions) {
  EngineOptions options = small();
  options.kv_tokens = 100;
  const auto engine = load(options);
  const std::int32_t block_tokens = engine->memory().block_tokens();
  EXPECT_EQ(engine->memory().pages().num_blocks(), (100 + block_tokens - 1) / block_tokens);
  EXPECT_LE(engine->context_length(), 128);
  EXPECT_EQ(engine->threads(), 2);
  EXPECT_EQ(engine->file().path(), path_);

  const auto plain = load({});
  EXPECT_EQ(plain->context_length(), plain->model().config().context_length);
  EXPECT_GE(plain->memory().pages().num_blocks() * block_tokens, plain->context_length()) << "one full context by default";
}

TEST_F(LoadedModel, TheContextThatFitsIsPlannedAndLoaded) {
  EngineOptions options = small();
  options.context_length = 0;
  options.kv_tokens = 0;
  options.fitting_contexts = 3;
  options.placement = {.gpu_memory_bytes = std::int64_t{1} << 40, .host_beside_cpu = true};  // limits what counts as free
  const PlannedModel planned = plan_model(path_, options);
  const std::int32_t own = planned.model->config().context_length;
  EXPECT_EQ(planned.context_length, own);
  EXPECT_EQ(planned.memory.kv_tokens, std::max<std::int64_t>(3 * own, std::min(own, 1024) * options.max_sequences));
  options.kv_tokens = 96;
  EXPECT_EQ(plan_model(path_, options).memory.kv_tokens, 96);
  options.placement = {};
  EXPECT_EQ(load(options)->memory().pages().num_blocks(), (96 + 31) / 32) << "the cache decides how long a sequence may be";
}

TEST_F(LoadedModel, WhatAGpuCannotHoldIsRefusedBeforeAnythingIsCopied) {
  const TemporaryFolder folder;
  folder.write("gfx1100/any.hsaco",
               "\x7f"
               "ELF code");
  const auto log = std::make_shared<FakeDriver::Log>();
  const auto gpu = [&] {
    return std::make_unique<Device>(std::make_unique<FakeDriver>(log), KernelLibrary::from_folder(folder.path()));
  };
  EngineOptions options = small();
  options.placement.gpu_layers = std::numeric_limits<std::int32_t>::max();  // else the host takes what is too much
  const MemoryNeeds needs = plan_model(path_, options, gpu()).memory;
  EXPECT_TRUE(needs.fits());
  EXPECT_GT(needs.weight_bytes, 0);
  EXPECT_GT(needs.workspace_bytes, 0);
  EXPECT_EQ(needs.kv_tokens, 1024);
  log->free_bytes = needs.total_bytes() - 24 * needs.kv_bytes_per_token;
  log->calls.clear();
  try {
    load_model(path_, options, gpu());
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("_qwen2.gguf: needs "), ::testing::HasSubstr("workspace "),
                                 ::testing::HasSubstr("KV cache of 1024 tokens"),
                                 ::testing::HasSubstr("are available: 1000 tokens would fit")));
  }
  EXPECT_EQ(std::ranges::count(log->calls, "allocate") + std::ranges::count(log->calls, "copy_to_device"), 0);
  log->free_bytes = 10;
  try {
    load_model(path_, options, gpu());
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no context would fit"));
  }
}

TEST_F(LoadedModel, SafeRunsOneKernelAfterTheOther) {
  const TemporaryFolder folder;
  folder.write("gfx1100/any.hsaco",
               "\x7f"
               "ELF code");
  const auto waits = [&](bool safe) {
    const auto log = std::make_shared<FakeDriver::Log>();
    EngineOptions options = small();
    options.safe = safe;
    options.merge_launches = MergeLaunches::on;
    PlannedModel planned =
        plan_model(path_, options,
                   std::make_unique<Device>(std::make_unique<FakeDriver>(log), KernelLibrary::from_folder(folder.path())));
    EXPECT_EQ(planned.merging.on, !safe) << planned.merging.why;
    const DriverCounters before = planned.device->driver().counters();
    planned.device->stream().launch("any", "any", {}, std::as_bytes(std::span("a")));
    return (planned.device->driver().counters() - before).synchronizations;
  };
  EXPECT_EQ(waits(false), 0);
  EXPECT_EQ(waits(true), 1);
}

TEST_F(LoadedModel, TooLargeACacheIsRefusedWithTheNumbers) {
  EngineOptions options = small();
  options.kv_tokens = std::int64_t{1} << 40;
  try {
    load(options);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("_qwen2.gguf: needs "),
                                 ::testing::HasSubstr("KV cache of 1099511627776 tokens"),
                                 ::testing::HasSubstr("are available: "), ::testing::HasSubstr("tokens would fit")));
  }
}

}  // namespace
}  // namespace rocmforge::real_model_test
