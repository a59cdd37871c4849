#include "models/plan/choose_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "error_of.h"

namespace rocmforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t gib = std::int64_t{1} << 30;

StageNeeds equal_layers(int count, std::vector<std::int64_t> available) {
  return {.layers = std::vector<StageNeeds::Layer>(static_cast<std::size_t>(count), {.bytes = gib}),
          .available = std::move(available)};
}

TEST(ChooseStages, LayersAreInProportionToWhatTheDevicesHave) {
  EXPECT_THAT(choose_stages(equal_layers(32, {24 * gib, 24 * gib})), ElementsAre(16, 32));
  EXPECT_THAT(choose_stages(equal_layers(32, {48 * gib, 16 * gib})), ElementsAre(24, 32));
  EXPECT_THAT(choose_stages(equal_layers(32, {10 * gib, 20 * gib, 10 * gib})), ElementsAre(8, 24, 32));
  EXPECT_THAT(choose_stages(equal_layers(5, {gib})), ElementsAre(5));
}

TEST(ChooseStages, EmbeddingOutputAndWorkspaceCount) {
  StageNeeds needs = equal_layers(30, {20 * gib, 20 * gib});
  needs.embedding = 2 * gib;
  EXPECT_THAT(choose_stages(needs), ElementsAre(14, 30));
  needs.output = 6 * gib;
  EXPECT_THAT(choose_stages(needs), ElementsAre(17, 30));
  needs.available = {40 * gib, 20 * gib};
  needs.workspace = 4 * gib;
  EXPECT_THAT(choose_stages(needs), ElementsAre(25, 30));
}

/// Whatever the sizes of layers are: where any division fits, the one that is chosen does.
TEST(ChooseStages, TheChoiceFitsWhereOneDoes) {
  unsigned state = 7;
  const auto random = [&state](unsigned below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
  };
  int fitting = 0;
  for (int round = 0; round < 300; ++round) {
    StageNeeds needs = equal_layers(9, {0, 0, 0});
    std::ranges::for_each(needs.layers, [&](StageNeeds::Layer& layer) { layer.bytes = 1 + random(40); });
    std::ranges::for_each(needs.available, [&](std::int64_t& bytes) { bytes = 30 + random(80); });
    needs.workspace = random(10);
    const auto fits = [&needs](const std::vector<std::int32_t>& ends) {
      std::int32_t first = 0;
      for (std::size_t device = 0; device < ends.size(); first = ends[device++]) {
        std::int64_t bytes = needs.workspace;
        for (std::int32_t layer = first; layer < ends[device]; ++layer) {
          bytes += needs.layers[static_cast<std::size_t>(layer)].bytes;
        }
        if (bytes > needs.available[device]) {
          return false;
        }
      }
      return true;
    };
    bool any = false;
    for (std::int32_t a = 1; a < 8; ++a) {
      for (std::int32_t b = a + 1; b < 9; ++b) {
        any = any || fits({a, b, 9});
      }
    }
    EXPECT_EQ(fits(choose_stages(needs)), any) << round;
    fitting += any ? 1 : 0;
  }
  EXPECT_GT(fitting, 30);
  EXPECT_LT(fitting, 270);
}

/// Llama 3 70B in Q4_K_M with a context of 8,192: 43 GiB.
TEST(ChooseStages, ALargeModelOnCardsOfManySizes) {
  constexpr std::int64_t mib = gib / 1024;
  const auto chosen = [](std::vector<std::int64_t> gibs) {
    StageNeeds needs{.layers = std::vector<StageNeeds::Layer>(80, {.bytes = 522 * mib}),
                     .embedding = 680 * mib,
                     .output = 680 * mib,
                     .workspace = 400 * mib};
    for (const std::int64_t size : gibs) {
      needs.available.push_back(size * gib);
    }
    const std::vector<std::int32_t> ends = choose_stages(needs);
    std::int32_t first = 0;
    for (std::size_t device = 0; device < ends.size(); first = ends[device++]) {
      EXPECT_LE((ends[device] - first) * 522 * mib + 1080 * mib, needs.available[device]);
    }
    return ends;
  };
  EXPECT_THAT(chosen({24, 24}), ElementsAre(40, 80));
  EXPECT_THAT(chosen({32, 16}), ElementsAre(54, 80));
  EXPECT_THAT(chosen({16, 16, 16}), ElementsAre(26, 54, 80));
  EXPECT_THAT(chosen({12, 24, 12}), ElementsAre(19, 61, 80));
  EXPECT_THAT(chosen({80, 80}), ElementsAre(40, 80));
}

TEST(ChooseStages, LayersThatReadOthersKeysStayWithThem) {
  StageNeeds needs = equal_layers(8, {gib, gib});
  needs.layers[5].keys_of = 3;
  EXPECT_THAT(choose_stages(needs), ElementsAre(3, 8)) << "behind layer 3 the first border is before layer 6";
  EXPECT_THAT(stages_in_proportion(needs, std::vector{1.0, 1.0}), ElementsAre(3, 8));
  needs.layers[7].keys_of = 0;
  EXPECT_THAT(test::error_of([&] { static_cast<void>(choose_stages(needs)); }),
              HasSubstr("its layers can't be divided among 2 devices, only among 1"));
}

TEST(ChooseStages, ProportionsAreThoseOfLlamaCpp) {
  const StageNeeds needs = equal_layers(32, {gib, gib});
  EXPECT_THAT(stages_in_proportion(needs, std::vector{3.0, 1.0}), ElementsAre(25, 32)) << "of 33 with the output";
  EXPECT_THAT(stages_in_proportion(needs, std::vector{1.0, 1.0}), ElementsAre(17, 32));
  EXPECT_THAT(stages_in_proportion(needs, std::vector{0.75, 0.25}), ElementsAre(25, 32));
  EXPECT_THAT(stages_in_proportion(needs, std::vector{1.0, 1.0, 1.0}), ElementsAre(11, 22, 32));
}

TEST(ChooseStages, WhatCanNotBeIsRefusedInOneLine) {
  const auto refusal = [](int layers, const std::vector<double>& proportions) {
    const StageNeeds needs = equal_layers(layers, std::vector<std::int64_t>(proportions.size(), gib));
    return test::error_of([&] { static_cast<void>(stages_in_proportion(needs, proportions)); });
  };
  EXPECT_THAT(refusal(8, {1.0, 0.0}), HasSubstr("each number must be above 0"));
  EXPECT_THAT(refusal(8, {-1.0, 2.0}), HasSubstr("each number must be above 0"));
  EXPECT_THAT(refusal(8, {100.0, 1.0}), HasSubstr("--tensor-split leaves device 2 of 2 no layer of 8"));
  EXPECT_THAT(test::error_of([] {
                static_cast<void>(choose_stages(equal_layers(2, {gib, gib, gib})));
              }),
              HasSubstr("its layers can't be divided among 3 devices, only among 2 or fewer"));
}

}  // namespace
}  // namespace rocmforge
