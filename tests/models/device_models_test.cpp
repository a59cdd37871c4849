// A model that two GPUs share gives what one GPU gives: on a pair of real GPUs, "cuda" or "hip" in ROCMFORGE_TEST_DEVICE.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "models/model_file.h"
#include "models/opened_devices.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using Tokens = std::vector<std::int32_t>;

ModelOptions on_two() {
  ModelOptions options = f32_options();
  options.ranks = 2;
  return options;
}

struct NamedGolden : Golden {
  explicit NamedGolden(const std::string& golden) : Golden(read_golden(golden)), name(golden) {}
  std::string name;
};

class DeviceModelsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (opened_devices().devices.empty()) {
      GTEST_SKIP() << opened_devices().problem;
    }
    if (!opened_devices().devices[0]->info().vendor_runtime && golden_.name != "llama-gqa4") {
      GTEST_SKIP() << "an emulated pair takes hours for all models";
    }
  }
  [[nodiscard]] std::unique_ptr<Runner> pair() const {
    return std::make_unique<Runner>(file_, opened_devices().pair(), on_two());
  }
  [[nodiscard]] std::unique_ptr<Runner> one() const {
    return std::make_unique<Runner>(file_, *opened_devices().devices[0], f32_options());
  }
  /// The tokens that are drawn behind a prompt of 20. Steps are recorded and replayed from the third on.
  [[nodiscard]] Tokens greedy(Runner& runner) const {
    Tokens tokens(golden_.tokens.begin(), golden_.tokens.begin() + 20);
    tokens.push_back(runner.draw({{tokens, 0, {5, 11, 2}}})[0]);
    while (tokens.size() < 44) {
      tokens.push_back(runner.draw({{{tokens.back()}, static_cast<std::int32_t>(tokens.size()) - 1, {5, 11, 2}}})[0]);
    }
    return tokens;
  }

  NamedGolden golden_{GetParam()};
  GgufFile file_{golden_path(GetParam())};
};

TEST_P(DeviceModelsTest, TwoGiveTheLogitsOfTheReferenceImplementation) {
  const auto runner = pair();
  EXPECT_LE(relative_error(runner->whole(golden_.tokens), golden_.logits), logit_tolerance("gpu"));
}

/// A prompt's sums cross from GPU to GPU beside its other half's products.
TEST_P(DeviceModelsTest, TwoInHalvesGiveTheLogitsOfTheReferenceImplementation) {
  ModelOptions options = on_two();
  options.halves_from = 20;
  Runner halves(file_, opened_devices().pair(), options);
  EXPECT_LE(relative_error(halves.whole(golden_.tokens), golden_.logits), logit_tolerance("gpu"));
}

TEST_P(DeviceModelsTest, TwoDrawTheSameGreedyTokens) { EXPECT_EQ(greedy(*pair()), greedy(*one())); }

/// A rank without memory throws before it computes: the other's kernels end, and the next step is right.
TEST_P(DeviceModelsTest, OneThatThrowsEndsTheStepForAll) {
  const auto runner = pair();
  const std::vector<float> whole = runner->whole(golden_.tokens);
  SequenceMemory of_one(runner->device(), runner->memory().groups(),
                        {.blocks = runner->memory().num_blocks(),
                         .block_tokens = Runner::block_tokens,
                         .slot_bytes = runner->model().state_bytes(),
                         .slots = runner->model().state_bytes() > 0 ? Runner::num_slots : 0});
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(golden_.tokens, 0, Tokens{0, 1, 2}, true, true);
  plan.finish();
  EXPECT_ANY_THROW(runner->model().forward(plan, of_one));
  EXPECT_LE(relative_error(runner->whole(golden_.tokens), whole), logit_tolerance("gpu"));
}

INSTANTIATE_TEST_SUITE_P(Golden, DeviceModelsTest, ::testing::ValuesIn(golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace rocmforge::testing
