// A model that is split over a device and the host gives what the whole one gives. The device is a CPU with memory of its
// own unless ROCMFORGE_TEST_DEVICE names a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/ceilings.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

class SplitModel : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { std::remove(path_.c_str()); }

  static EngineOptions options(const PlacementOptions& placement = {}) {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 128;
    options.max_batch_tokens = 64;
    options.max_sequences = 5;
    options.kv_tokens = 1024;
    options.model.kv_dtype = DType::f32;
    options.placement = placement;
    options.placement.host_beside_cpu = true;
    return options;
  }

  static EngineOptions on_two(const PlacementOptions& placement = {}) {
    EngineOptions two = options(placement);
    two.device = "cpu,cpu";
    return two;
  }

  struct Answers {
    std::vector<Tokens> tokens;
    std::int64_t preemptions = 0;
    std::int64_t hits = 0;
  };
  /// Greedy answers to five prompts, of which two begin alike.
  [[nodiscard]] Answers run(const EngineOptions& options) const {
    const auto engine = load_model(path_, options);
    const auto vocab = static_cast<unsigned>(engine->model().config().vocab);
    std::map<RequestId, Tokens> results;
    std::vector<RequestId> ids;
    for (const unsigned index : {0u, 1u, 2u, 3u, 2u}) {
      Request request;
      for (unsigned i = 0; i < 20 + index * 11; ++i) {
        request.prompt.push_back(static_cast<std::int32_t>((i * i + index * 13 + 7) % vocab));
      }
      request.max_tokens = 50;
      request.ignore_eos = true;
      request.sampling.temperature = 0.0f;
      ids.push_back(engine->submit(request));
      if (index == 2) {
        step_all(*engine, results);  // so that the next one finds its prefix
      }
    }
    step_all(*engine, results);
    Answers answers{{}, engine->status().preemptions, engine->status().prefix_hits};
    for (const RequestId id : ids) {
      answers.tokens.push_back(results.at(id));
    }
    return answers;
  }

  std::string path_ = golden_model_file(GetParam());

 private:
  static void step_all(Engine& engine, std::map<RequestId, Tokens>& results) {
    while (engine.has_work()) {
      for (const StepOutput& output : engine.step()) {
        EXPECT_NE(output.finish, FinishReason::error) << output.text;
        Tokens& tokens = results[output.id];
        tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
      }
    }
  }
};

TEST_P(SplitModel, GivesTheSameGreedyTokensAlsoAfterAPrefixHitAndPreempted) {
  const Answers whole = run(options());
  for (const PlacementOptions& placement :
       {PlacementOptions{.gpu_layers = 1}, PlacementOptions{.cpu_experts = 1000},
        PlacementOptions{.overrides = {"^token_embd=cpu"}}, PlacementOptions{.gpu_layers = 0}}) {
    const Answers split = run(options(placement));
    EXPECT_EQ(split.tokens, whole.tokens);
    EXPECT_EQ(split.hits, whole.hits);
    EngineOptions tight = options(placement);
    tight.kv_tokens = 160;
    tight.prefix_cache = false;
    const Answers preempted = run(tight);
    EXPECT_EQ(preempted.tokens, whole.tokens);
    EXPECT_GT(preempted.preemptions, 0);
  }
}

TEST_P(SplitModel, RanksThatShareItGiveTheSameGreedyTokens) {
  const Answers one = run(options());
  EngineOptions shared = options();
  shared.model.ranks = 2;
  const Answers two = run(shared);
  EXPECT_EQ(two.tokens, one.tokens);
  EXPECT_EQ(two.hits, one.hits);
  shared.kv_tokens = 160;
  shared.prefix_cache = false;
  const Answers preempted = run(shared);
  EXPECT_EQ(preempted.tokens, one.tokens);
  EXPECT_GT(preempted.preemptions, 0);
}

TEST_P(SplitModel, LayersOnTwoDevicesGiveTheSameGreedyTokens) {
  const Answers one = run(options());
  for (const PlacementOptions& placement :
       {PlacementOptions{}, PlacementOptions{.cpu_experts = 1000}, PlacementOptions{.gpu_layers = 1}}) {
    EngineOptions layers = on_two(placement);
    layers.split = DeviceSplit::layer;
    const Answers two = run(layers);
    EXPECT_EQ(two.tokens, one.tokens);
    EXPECT_EQ(two.hits, one.hits);
    layers.kv_tokens = 160;
    layers.prefix_cache = false;
    const Answers preempted = run(layers);
    EXPECT_EQ(preempted.tokens, one.tokens);
    EXPECT_GT(preempted.preemptions, 0);
  }
}

/// What one card can't hold, two can; what two can't hold either is on the host beside them.
TEST_P(SplitModel, LayersAreOnBothDevicesBeforeTheyAreOnTheHost) {
  const auto limited = [](std::int64_t bytes) {
    return PlacementOptions{.margin_bytes = 0, .gpu_memory_bytes = bytes, .crossing_seconds = 0.0};
  };
  EngineOptions layers = on_two(limited(std::int64_t{1} << 40));
  layers.split = DeviceSplit::layer;
  const PlannedModel free = plan_model(path_, layers);
  ASSERT_EQ(free.stage_memory.size(), 2u);
  EXPECT_FALSE(free.placement);
  EXPECT_THAT(free.split, HasSubstr(", as asked for: at least "));
  const std::int64_t fullest = std::max(free.stage_memory[0].total_bytes(), free.stage_memory[1].total_bytes());
  EXPECT_LT(fullest, plan_model(path_, options(limited(std::int64_t{1} << 40))).memory.total_bytes());

  layers.placement.gpu_memory_bytes = fullest;
  const PlannedModel exact = plan_model(path_, layers);
  EXPECT_FALSE(exact.placement);
  EXPECT_EQ(exact.lacking(), nullptr);
  EXPECT_EQ(exact.model->stage_ends(), free.model->stage_ends());

  layers.placement.gpu_memory_bytes = fullest - 1;
  const PlannedModel less = plan_model(path_, layers);
  for (const MemoryNeeds& stage : less.stage_memory) {
    EXPECT_TRUE(less.lacking() != nullptr || stage.total_bytes() < fullest);
  }
  EXPECT_TRUE(less.placement || less.lacking() != nullptr || less.model->stage_ends() != free.model->stage_ends());
}

/// Less memory than the model needs, as if the device were a small card.
TEST_P(SplitModel, IsChosenWhereTheDeviceIsTooSmallAndFits) {
  const MemoryNeeds whole =
      plan_model(path_, options({.margin_bytes = 0, .gpu_memory_bytes = std::int64_t{1} << 40})).memory;
  const Answers expected = run(options());
  std::int64_t before = 0;
  for (const int percent : {95, 80, 65}) {
    const PlacementOptions small{
        .margin_bytes = 0, .gpu_memory_bytes = whole.total_bytes() * percent / 100, .crossing_seconds = 0.0};
    const PlannedModel planned = plan_model(path_, options(small));
    ASSERT_TRUE(planned.placement) << percent;
    if (planned.lacking() != nullptr) {
      continue;  // the workspace alone is too much
    }
    EXPECT_LE(planned.memory.total_bytes(), small.gpu_memory_bytes);
    EXPECT_GE(planned.host_memory->total_bytes(), before);
    before = planned.host_memory->total_bytes();
    EXPECT_THAT(planned.placement->describe(), HasSubstr("as the GPU's memory can't hold all"));
    EXPECT_EQ(run(options(small)).tokens, expected.tokens) << percent;
  }
  EXPECT_GT(before, 0) << "at least one of the sizes is enough for a part";
}

INSTANTIATE_TEST_SUITE_P(Golden, SplitModel, ::testing::Values("llama-gqa4", "lfm2", "qwen3moe", "nemotron_h", "gemma4"),
                         [](const auto& instance) {
                           std::string text = instance.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

/// Two CPUs that count as devices, one memory of which is as fast as `bytes_per_second`.
PlannedModel planned_for_two(const std::string& model, std::vector<double> tensor_split, double bytes_per_second = 0.0) {
  const TemporaryFolder folder;
  EngineOptions options;
  options.device = "cpu,cpu";
  options.placement.host_beside_cpu = true;
  options.tensor_split = std::move(tensor_split);
  if (bytes_per_second > 0.0) {
    options.ceilings_file = folder.path() / "ceilings";
    CeilingCache(options.ceilings_file).store(Device().info(), {bytes_per_second, bytes_per_second, 1e12});
  }
  const std::string path = golden_model_file(model);
  try {
    PlannedModel planned = plan_model(path, options);
    std::remove(path.c_str());
    return planned;
  } catch (...) {
    std::remove(path.c_str());
    throw;
  }
}

TEST(DeviceSplits, TheFastestIsChosenAndOneLineSaysWhy) {
  const PlannedModel fast = planned_for_two("llama-gqa4", {}, 1e12);
  EXPECT_EQ(fast.model->stage_ends().size(), 2u) << "sums would take longer than reading all weights in turn";
  EXPECT_THAT(fast.split, HasSubstr("layers 0 to "));
  EXPECT_THAT(fast.split, HasSubstr(", as a part of each layer on each takes 0."));
  const PlannedModel slow = planned_for_two("llama-gqa4", {}, 1e8);
  EXPECT_TRUE(slow.model->stage_ends().empty());
  EXPECT_EQ(slow.model->ranks(), 2);
  EXPECT_THAT(slow.split, HasSubstr("a part of each layer on each of 2 devices, as whole layers take "));
  const PlannedModel by_hand = planned_for_two("llama-gqa4", {1.0, 2.0}, 1e8);
  EXPECT_EQ(by_hand.model->stage_ends().size(), 2u) << "proportions are of layers";
}

TEST(DeviceSplits, WhatCannotBeIsOneLine) {
  const auto refusal_of = [](const std::string& model, const std::vector<double>& tensor_split) {
    return test::error_of([&] { static_cast<void>(planned_for_two(model, tensor_split)); });
  };
  EXPECT_THAT(refusal_of("llama-gqa4", {1.0, 1.0, 1.0}),
              HasSubstr("--tensor-split has 3 numbers, --device names 2 devices"));
  EXPECT_THAT(refusal_of("llama-gqa4", {1.0, 0.0}), HasSubstr("--tensor-split: each number must be above 0"));
  EngineOptions options;
  options.device = "cpu,cpu";
  options.placement.host_beside_cpu = true;
  options.split = DeviceSplit::layer;
  EXPECT_THAT(test::error_of([&] { plan_model(test::test_data("golden/models/encoders/bert.gguf"), options); }),
              HasSubstr("the layers of an encoder are on one device"));
}

std::string refusal(const PlacementOptions& placement, std::int32_t ranks = 1) {
  const std::string path = golden_model_file("llama-gqa4");
  EngineOptions options;
  options.device = "cpu";
  options.placement = placement;
  options.placement.host_beside_cpu = true;
  options.model.ranks = ranks;
  std::string message = "planned";
  try {
    const PlannedModel planned = plan_model(path, options);
    if (const MemoryNeeds* lacking = planned.lacking()) {
      message = describe_shortage(*lacking);
    }
  } catch (const Error& error) {
    message = error.what();
  }
  std::remove(path.c_str());
  return message;
}

TEST(RanksMemory, IsCountedForAllOfThem) {
  // Four KV heads of two ranks are shared, the single one of the other model is repeated.
  for (const auto& [model, repeated] : {std::pair("llama-linear", 1), {"llama-mqa", 2}}) {
    const std::string path = golden_model_file(model);
    EngineOptions options;
    options.device = "cpu";
    const std::int64_t one = plan_model(path, options).memory.kv_bytes_per_token;
    options.model.ranks = 2;
    const PlannedModel two = plan_model(path, options);
    EXPECT_EQ(two.memory.kv_bytes_per_token, repeated * one) << model;
    EXPECT_EQ(two.model->rank_bytes().size(), 2u);
    std::remove(path.c_str());
  }
}

TEST(Placement, WhatCannotBeIsOneLine) {
  EXPECT_THAT(refusal({.overrides = {"blk.0.ffn_.*=tpu"}}), HasSubstr("device 'tpu' is not cpu, gpu, cuda or hip"));
  EXPECT_THAT(refusal({.overrides = {"blk.0.ffn"}}), HasSubstr("--override-tensor blk.0.ffn: must be REGEX=DEVICE"));
  EXPECT_THAT(refusal({.overrides = {"(=cpu"}}), HasSubstr("--override-tensor (=cpu: "));
  EXPECT_THAT(refusal({.overrides = {"nothing_like_it=cpu"}}), HasSubstr("nothing_like_it=cpu matches no tensor"));
  EXPECT_THAT(refusal({.overrides = {"blk.0.ffn_.*=cpu"}}), HasSubstr("apart, which are computed on one device"));
  EXPECT_THAT(refusal({.gpu_layers = 1000, .gpu_memory_bytes = 1 << 20}), HasSubstr("GiB of memory"));
  EXPECT_THAT(refusal({.gpu_layers = 1}, 2), HasSubstr("a model that ranks share can't be split"));
  EXPECT_THAT(refusal({}, 3), HasSubstr("layer 0: 8 query heads can't be shared by 3 ranks"));
  EXPECT_EQ(refusal({.overrides = {"blk\\.0\\.=cpu", "token_embd=cuda:0"}}), "planned");
}

TEST(Placement, NothingIsSplitWhereHostAndDeviceAreOneMemory) {
  DeviceInfo device;
  device.kind = DeviceKind::hip;
  EXPECT_TRUE(can_split(device, {}));
  device.integrated = true;
  EXPECT_FALSE(can_split(device, {.gpu_layers = 3}));
  EXPECT_FALSE(can_split(DeviceInfo(), {.gpu_layers = 3})) << "the processor itself";
}

}  // namespace
}  // namespace rocmforge
