// A model whose layers lie on several devices gives what one device gives: on CPUs that each have memory of their own, and
// on a pair of GPUs, real or emulated, that ROCMFORGE_TEST_DEVICE names.

#include "models/layer_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/config/model_config.h"
#include "models/opened_devices.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using Tokens = std::vector<std::int32_t>;
using Route = StepLink::Route;

/// Whether a stage may begin with this layer: it and those behind it read no K and V of earlier ones.
bool may_begin(const ModelConfig& config, int first) {
  for (int index = first; index < config.layers; ++index) {
    const LayerConfig& layer = config.layer(index);
    if (layer.attends() && !layer.attention.has_keys() && layer.attention.keys_of < first) {
      return false;
    }
  }
  return true;
}

/// So many stages, of as many layers each as the model allows.
std::vector<std::int32_t> stages(const ModelConfig& config, int count) {
  std::vector<std::int32_t> ends;
  for (int stage = 1; stage < count; ++stage) {
    int end = config.layers * stage / count;
    while (end > 0 && !may_begin(config, end)) {
      --end;
    }
    if (end > (ends.empty() ? 0 : ends.back())) {
      ends.push_back(end);
    }
  }
  ends.push_back(config.layers);
  return ends;
}

/// The tokens that are drawn behind a prompt of 20, where `runs_ahead` each step before the draw of the one before is read.
Tokens greedy(Runner& runner, const Tokens& text, bool runs_ahead) {
  const Tokens prompt(text.begin(), text.begin() + 20);
  Tokens drawn = runner.draw({{prompt, 0, {5, 11, 2}}});
  for (std::int32_t position = 20; position < 44; ++position) {
    const std::int32_t token = runs_ahead ? EmbeddingRows::drawn_token(0) : drawn.back();
    runner.start_draw({{{token}, position, {5, 11, 2}}});
    if (!runs_ahead) {
      drawn.push_back(runner.model().sampled()[0]);
    } else if (position > 20) {
      drawn.push_back(runner.model().previous_sampled()[0]);
    }
  }
  if (runs_ahead) {
    drawn.push_back(runner.model().sampled()[0]);
  }
  return drawn;
}

class LayerPipelineTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (is_gpu(kernel_sets().back())) {
      GTEST_SKIP() << "on the CPU; DevicePipelineTest is for GPUs";
    }
  }
  [[nodiscard]] ModelOptions on(int devices) const {
    ModelOptions options = f32_options();
    options.stage_ends = stages(config_, devices);
    return options;
  }
  [[nodiscard]] std::unique_ptr<Runner> pipeline(const ModelOptions& options, Route route = Route::peer) {
    std::vector<Device*> devices;
    for (std::size_t stage = 0; stage < options.stage_ends.size(); ++stage) {
      devices.push_back(devices_[stage].get());
    }
    return std::make_unique<Runner>(file_, devices, options, route);
  }
  [[nodiscard]] std::unique_ptr<Runner> one() { return std::make_unique<Runner>(file_, *devices_[0], f32_options()); }

  Golden golden_ = read_golden(GetParam());
  GgufFile file_{golden_path(GetParam())};
  ModelConfig config_ = ModelConfig::from_gguf(file_);
  std::unique_ptr<Device> devices_[3] = {std::make_unique<Device>(), std::make_unique<Device>(), std::make_unique<Device>()};
};

TEST_P(LayerPipelineTest, LogitsAreThoseOfOneDeviceInStepsOfAnyForm) {
  const std::vector<float> expected = one()->whole(golden_.tokens);
  for (const int devices : {2, 3}) {
    const auto runner = pipeline(on(devices), devices == 2 ? Route::peer : Route::host);
    const std::vector<float> whole = runner->whole(golden_.tokens);
    EXPECT_EQ(whole, expected) << devices;
    std::vector<float> logits;
    for (std::int32_t first = 0; first < std::ssize(golden_.tokens);) {
      const std::int32_t count = first < 30 ? 15 : 1;
      const auto begin = golden_.tokens.begin() + first;
      const auto end = begin + std::min<std::ptrdiff_t>(count, golden_.tokens.end() - begin);
      const std::vector<float> rows = runner->step({{{begin, end}, first, {17, 3, 9}}});
      logits.insert(logits.end(), rows.begin(), rows.end());
      first += count;
    }
    EXPECT_EQ(logits, expected) << devices;
    const auto last = static_cast<std::int32_t>(golden_.tokens.size()) - 1;
    EXPECT_EQ(runner->rows(golden_.tokens, {last}), std::vector(whole.end() - golden_.vocab, whole.end())) << devices;
  }
}

TEST_P(LayerPipelineTest, AStepTakesTheTokensThatTheOneBeforeDrew) {
  const Tokens expected = greedy(*one(), golden_.tokens, false);
  const auto runner = pipeline(on(2));
  EXPECT_EQ(greedy(*runner, golden_.tokens, false), expected);
  EXPECT_EQ(greedy(*runner, golden_.tokens, true), expected);
}

/// Each device has the weights and the memory of its layers alone.
TEST_P(LayerPipelineTest, WeightsAndCacheAreDivided) {
  const auto alone = one();
  const auto runner = pipeline(on(3));
  const Model& model = runner->model();
  EXPECT_EQ(model.bytes_per_token(), alone->model().bytes_per_token());
  EXPECT_EQ(model.state_bytes(), alone->model().state_bytes());
  EXPECT_EQ(runner->memory().page_bytes(), alone->memory().page_bytes());
  std::size_t weights = 0;
  for (const RankBytes& rank : model.rank_bytes()) {
    EXPECT_GT(rank.weights, 0u);
    weights += rank.weights;
  }
  EXPECT_GE(weights, alone->model().device_weight_bytes());  // a tied table lies on the first device and the last
  EXPECT_EQ(model.kv_groups().size(), alone->model().kv_groups().size());
}

/// The host beside the devices has parts of their layers.
TEST_P(LayerPipelineTest, StagesHavePartsOnTheHostToo) {
  const std::vector<float> expected = one()->whole(golden_.tokens);
  for (const bool experts : {true, false}) {
    ModelOptions options = on(2);
    options.placement.layers.resize(static_cast<std::size_t>(config_.layers));
    if (experts) {
      std::ranges::for_each(options.placement.layers, [](Placement::Layer& layer) { layer.experts = Side::host; });
    } else {
      options.placement.embedding = Side::host;
      options.placement.layers[0] = {Side::host, Side::host};
      options.placement.output = Side::host;
      for (int index = 1; index < config_.layers; ++index) {
        const LayerConfig& layer = config_.layer(index);
        if (layer.attends() && !layer.attention.has_keys()) {
          options.placement.layers[static_cast<std::size_t>(index)] = options.placement.layer(layer.attention.keys_of);
        }
      }
    }
    const auto runner = pipeline(options);
    EXPECT_LE(relative_error(runner->whole(golden_.tokens), expected), logit_tolerance("cpu")) << experts;
    EXPECT_FALSE(runner->model().runs_ahead());
    EXPECT_EQ(greedy(*runner, golden_.tokens, true), greedy(*one(), golden_.tokens, false)) << experts;
  }
}

TEST(LayerPipelineMtp, PredictsAsOneDeviceDoes) {
  if (is_gpu(kernel_sets().back())) {
    GTEST_SKIP() << "on the CPU";
  }
  const GgufFile file(golden_path("mtp/glm4moe"));
  const ModelConfig config = ModelConfig::from_gguf(file);
  Tokens tokens;
  for (std::int32_t i = 0; i < 21; ++i) {
    tokens.push_back((i * i + 3) % config.vocab);
  }
  const Runner::Predicted part{{{tokens.begin(), tokens.end() - 1}, 0, {5, 11}}, {tokens.begin() + 1, tokens.end()}};
  ModelOptions options = f32_options();
  options.load_mtp = true;
  Device first;
  Device second;
  const std::vector<float> expected = Runner(file, first, options).predict({part});
  options.stage_ends = stages(config, 2);
  Runner runner(file, std::vector{&first, &second}, options);
  EXPECT_EQ(runner.predict({part}), expected);
  EXPECT_EQ(runner.model().mtp_blocks(), 1);
}

const auto name_of = [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
};

INSTANTIATE_TEST_SUITE_P(Golden, LayerPipelineTest, ::testing::ValuesIn(golden_names()), name_of);

/// On two GPUs.
class DevicePipelineTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (opened_devices().devices.empty()) {
      GTEST_SKIP() << opened_devices().problem;
    }
    if (emulated() && GetParam() != "llama-gqa4") {
      GTEST_SKIP() << "an emulated pair takes hours for all models";
    }
  }
  [[nodiscard]] static bool emulated() { return !opened_devices().devices[0]->info().vendor_runtime; }
  [[nodiscard]] std::unique_ptr<Runner> pair(std::optional<Route> route = {}) const {
    ModelOptions options = f32_options();
    options.stage_ends = stages(ModelConfig::from_gguf(file_), 2);
    return std::make_unique<Runner>(file_, opened_devices().pair(), options, route);
  }
  [[nodiscard]] std::unique_ptr<Runner> one() const {
    return std::make_unique<Runner>(file_, *opened_devices().devices[0], f32_options());
  }

  Golden golden_ = read_golden(GetParam());
  GgufFile file_{golden_path(GetParam())};
};

TEST_P(DevicePipelineTest, TwoGiveTheLogitsOfTheReferenceImplementationOnBothRoutes) {
  for (const Route route : {Route::peer, Route::host}) {
    EXPECT_LE(relative_error(pair(route)->whole(golden_.tokens), golden_.logits), logit_tolerance("gpu"));
  }
}

/// Steps are recorded and replayed from the third on.
TEST_P(DevicePipelineTest, TwoDrawTheSameGreedyTokensAlsoAhead) {
  const Tokens expected = greedy(*one(), golden_.tokens, false);
  const auto runner = pair();
  EXPECT_TRUE(runner->model().runs_ahead());
  EXPECT_EQ(greedy(*runner, golden_.tokens, false), expected);
  EXPECT_EQ(greedy(*runner, golden_.tokens, true), expected);
}

/// Parts of a prompt that follow each other without a wait have the bits of parts with one between each two.
TEST_P(DevicePipelineTest, PartsOfAPromptThatOverlapHaveTheSameBits) {
  const auto runner = pair();
  const auto logits = [&](bool waits) {
    for (std::int32_t first = 0; first < 40; first += 8) {
      runner->advance({{golden_.tokens.begin() + first, golden_.tokens.begin() + first + 8}, first, {5, 11, 2}});
      if (waits) {
        runner->model().wait();
      }
    }
    return runner->step({{{golden_.tokens.begin() + 40, golden_.tokens.begin() + 44}, 40, {5, 11, 2}}});
  };
  const std::vector<float> in_turn = logits(true);
  for (int time = 0; time < (emulated() ? 1 : 8); ++time) {
    EXPECT_EQ(logits(false), in_turn);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, DevicePipelineTest, ::testing::ValuesIn(golden_names()), name_of);

}  // namespace
}  // namespace rocmforge::testing
