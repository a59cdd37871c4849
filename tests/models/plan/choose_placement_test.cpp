#include "models/plan/choose_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace rocmforge::testing::choose_placement_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t gib = std::int64_t{1} << 30;

/// The sizes of a model in MiB, with a context of 8192.
struct Shape {
  std::string name;
  std::size_t layers = 0;
  std::int64_t own = 0;      ///< of a layer without experts
  std::int64_t experts = 0;  ///< of a layer
  std::int64_t used = 1;     ///< one part of so many of the experts is read for a token
  std::int64_t ends = 0;     ///< the embedding, and the output
  std::int64_t memory = 0;   ///< K and V of a layer
};

// Q4_K_M, and MXFP4 for gpt-oss.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{
      {"Llama 3.2 1B", 16, 38, 0, 1, 205, 8},      {"Llama 3 8B", 32, 124, 0, 1, 340, 32},
      {"Qwen3 32B", 64, 276, 0, 1, 500, 32},       {"Llama 3 70B", 80, 490, 0, 1, 680, 32},
      {"Qwen3 30B-A3B", 48, 14, 340, 16, 200, 16}, {"gpt-oss 120B", 36, 40, 1640, 32, 600, 16}};
  return all;
}

PlacementNeeds needs_of(const Shape& shape, std::int64_t device_bytes, std::int64_t host_bytes = 96 * gib) {
  const auto part = [](std::int64_t weights, std::int64_t read) {
    return PlacementNeeds::Part{{weights * mib, weights * mib}, {read * mib, read * mib}};
  };
  PlacementNeeds needs{.embedding = part(shape.ends, 0), .output = part(shape.ends, shape.ends)};
  for (std::size_t i = 0; i < shape.layers; ++i) {
    needs.layers.push_back({.own = part(shape.own, shape.own),
                            .experts = part(shape.experts, shape.experts / shape.used),
                            .memory = {shape.memory * mib, shape.memory * mib}});
  }
  needs.workspace = {200 * mib, 100 * mib};
  needs.available = {device_bytes, host_bytes};
  needs.device_bytes_per_second = 800e9;
  needs.host_bytes_per_second = 60e9;
  needs.crossing_seconds = 30e-6;
  return needs;
}

std::size_t on_device(const Placement& placement) {
  return static_cast<std::size_t>(std::ranges::count(placement.layers, Side::device, &Placement::Layer::side));
}

TEST(ChoosePlacement, FitsEveryCardAndIsNoSlowerThanSplitsMadeByHand) {
  for (const Shape& shape : shapes()) {
    double before = 1e9;
    for (const std::int64_t size : {2, 4, 6, 8, 12, 16, 24}) {
      const PlacementNeeds needs = needs_of(shape, size * gib);
      const std::string what = shape.name + " with " + std::to_string(size) + " GiB";
      const ChosenPlacement chosen = choose_placement(needs, {});
      ASSERT_TRUE(chosen.fits) << what;
      EXPECT_LE(chosen.bytes.device, needs.available.device) << what;
      EXPECT_LE(chosen.seconds, before) << what << ": more memory makes nothing slower";
      before = chosen.seconds;
      const auto layers = static_cast<std::int32_t>(shape.layers);
      for (std::int32_t gpu_layers = 0; gpu_layers <= layers; ++gpu_layers) {
        for (const std::int32_t experts : {0, layers / 2, layers}) {
          const ChosenPlacement by_hand = choose_placement(needs, {.gpu_layers = gpu_layers, .cpu_experts = experts});
          EXPECT_TRUE(!by_hand.fits || by_hand.seconds >= chosen.seconds * 0.999) << what << ", " << gpu_layers;
        }
      }
    }
  }
}

TEST(ChoosePlacement, SplitsNothingThatFits) {
  for (const Shape& shape : shapes()) {
    const ChosenPlacement chosen = choose_placement(needs_of(shape, 90 * gib), {});
    EXPECT_TRUE(chosen.fits);
    EXPECT_FALSE(chosen.placement.split()) << shape.name;
  }
}

TEST(ChoosePlacement, ExpertsGoToTheHostBeforeLayersDo) {
  const ChosenPlacement chosen = choose_placement(needs_of(shapes()[4], 8 * gib), {});
  EXPECT_EQ(on_device(chosen.placement), 48u);
  EXPECT_EQ(chosen.placement.layers.front().experts, Side::host);
  EXPECT_EQ(chosen.placement.layers.back().experts, Side::device) << "as many as fit stay";
  EXPECT_EQ(chosen.placement.output, Side::device);
}

TEST(ChoosePlacement, TheLastLayersAndTheOutputAreOnTheDevice) {
  const PlacementNeeds needs = needs_of(shapes()[2], 8 * gib);
  const ChosenPlacement chosen = choose_placement(needs, {});
  const std::size_t count = on_device(chosen.placement);
  EXPECT_GT(count, 18u);
  EXPECT_LT(count, 30u);
  EXPECT_EQ(chosen.placement.embedding, Side::host);
  EXPECT_EQ(chosen.placement.output, Side::device);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(chosen.placement.layers[i].side, i < 64 - count ? Side::host : Side::device);
  }
  EXPECT_EQ(chosen.describe(needs), std::to_string(count) + " of 64 layers on the GPU");
}

TEST(ChoosePlacement, WishesAreKept) {
  const PlacementNeeds needs = needs_of(shapes()[4], 90 * gib);
  const ChosenPlacement half = choose_placement(needs, {.gpu_layers = 24, .cpu_experts = 30});
  EXPECT_EQ(on_device(half.placement), 24u);
  EXPECT_EQ(half.placement.layers[29].experts, Side::host);
  EXPECT_EQ(half.placement.layers[30].experts, Side::device);
  EXPECT_EQ(half.describe(needs), "24 of 48 layers on the GPU, the experts of 6 of them on the CPU");
  const ChosenPlacement none = choose_placement(needs, {.gpu_layers = 0});
  EXPECT_EQ(on_device(none.placement), 0u);
  EXPECT_EQ(none.placement.output, Side::host);
  EXPECT_FALSE(choose_placement(needs, {.gpu_layers = 1000}).placement.split());
  PlacementWishes single;
  single.output = Side::host;
  single.layers.resize(48);
  single.layers[7].experts = Side::host;
  const ChosenPlacement one = choose_placement(needs, single);
  EXPECT_EQ(one.placement.layers[7].experts, Side::host);
  EXPECT_EQ(one.placement.layers[8].experts, Side::device);
  EXPECT_EQ(one.describe(needs), "48 of 48 layers on the GPU, the experts of 1 of them on the CPU, the output on the CPU");
}

TEST(ChoosePlacement, WhereNothingFitsTheLeastIsMissing) {
  const ChosenPlacement chosen = choose_placement(needs_of(shapes()[3], 8 * gib, 16 * gib), {});
  EXPECT_FALSE(chosen.fits);
  const PlacementNeeds needs = needs_of(shapes()[3], 8 * gib, 16 * gib);
  EXPECT_NEAR(static_cast<double>(chosen.bytes.device + chosen.bytes.host) / gib, 42.2, 1.0);
  EXPECT_TRUE(chosen.bytes.device > needs.available.device || chosen.bytes.host > needs.available.host);
}

TEST(ChoosePlacement, LayersThatShareKeysStayTogether) {
  PlacementNeeds needs = needs_of(shapes()[1], 3 * gib);
  for (std::size_t i = 20; i < 32; ++i) {
    needs.layers[i].keys_of = 19;
  }
  const Placement placement = choose_placement(needs, {}).placement;
  for (std::size_t i = 20; i < 32; ++i) {
    EXPECT_EQ(placement.layers[i].side, placement.layers[19].side);
  }
}

}  // namespace
}  // namespace rocmforge::testing::choose_placement_test
