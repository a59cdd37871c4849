// LoRA adapters of experts' matrices: what they add beside other sequences, in parts of a model, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "models/adapters/lora_file.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// An adapter in memory, with its bytes.
struct AdapterInMemory {
  explicit AdapterInMemory(const ModelFile& model)
      : bytes(model.bytes()), file(std::make_shared<const LoraFile>(GgufFile::from_memory(bytes, "tiny-lora.gguf"))) {}
  std::vector<std::byte> bytes;
  std::shared_ptr<const LoraFile> file;
};

std::shared_ptr<const LoraFile> golden_adapter(const std::string& name) {
  return std::make_shared<const LoraFile>(GgufFile(golden_path("lora/" + name)));
}

class LoraExperts : public ::testing::Test {
 protected:
  [[nodiscard]] Piece piece(std::int32_t first_block, std::vector<AdapterUse> uses = {}) const {
    return {
        .tokens = golden_.tokens, .blocks = {first_block, first_block + 1, first_block + 2}, .adapters = std::move(uses)};
  }

  const std::string& set_ = kernel_sets().back();
  Golden golden_ = read_golden("lora/qwen3moe-experts");
  GgufFile file_{golden_path("qwen3moe")};
};

TEST_F(LoraExperts, OtherSequencesOfAStepKeepTheirBits) {
  Runner runner(file_, set_);
  const std::vector<float> plain = runner.step({piece(0)});
  runner.model().load_adapter(0, golden_adapter("qwen3moe-experts"));
  EXPECT_EQ(runner.step({piece(0)}), plain);
  const std::vector<float> changed = runner.step({piece(0, {{0, 1.0f}})});
  const std::vector<float> both = runner.step({piece(3), piece(0, {{0, 1.0f}}), piece(6)});
  const auto size = std::ssize(plain);
  expect_same_logits({both.begin(), both.begin() + size}, plain, set_);
  expect_same_logits({both.begin() + size, both.begin() + 2 * size}, changed, set_);
  expect_same_logits({both.begin() + 2 * size, both.end()}, plain, set_);
}

/// Pairs of some matrices in one adapter, those of others in a second one: together they are the adapter of all, and gate,
/// up and down change the model each by itself.
TEST_F(LoraExperts, EachMatrixHasItsOwnPair) {
  Runner runner(file_, set_);
  const std::vector<float> plain = runner.step({piece(0)});
  std::vector<AdapterUse> all;
  std::vector<std::unique_ptr<AdapterInMemory>> open;
  for (const std::string part : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
    ModelFile model = ModelFile::golden("lora/qwen3moe-experts");
    std::erase_if(model.weights,
                  [&](const ModelFile::Weight& weight) { return weight.name.find(part) == std::string::npos; });
    const auto id = static_cast<std::int32_t>(open.size());
    runner.model().load_adapter(id, open.emplace_back(std::make_unique<AdapterInMemory>(model))->file);
    EXPECT_GT(relative_error(runner.step({piece(0, {{id, 1.0f}})}), plain), 1e-2) << part;
    all.push_back({id, 1.0f});
  }
  EXPECT_LE(relative_error(runner.step({piece(0, all)}), golden_.logits), logit_tolerance(set_));
}

TEST_F(LoraExperts, TheScaleMultiplies) {
  Runner runner(file_, set_);
  ModelFile quarter = ModelFile::golden("lora/qwen3moe-experts");
  for (ModelFile::Weight& weight : quarter.weights) {
    if (weight.name.ends_with(".lora_b")) {
      std::for_each_n(weight.floats(), weight.shape.elems(), [](float& value) { value *= 0.25f; });
    }
  }
  const AdapterInMemory open(quarter);
  runner.model().load_adapter(0, golden_adapter("qwen3moe-experts"));
  runner.model().load_adapter(1, open.file);
  EXPECT_LE(relative_error(runner.step({piece(0, {{0, 0.25f}})}), runner.step({piece(0, {{1, 1.0f}})})), 1e-5);
}

TEST_F(LoraExperts, RanksAndExpertsOnTheHostGiveTheSame) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "ranks are threads of the CPU";
  }
  const auto layers = static_cast<std::size_t>(ModelConfig::from_gguf(file_).layers);
  ModelOptions shared = f32_options(), apart = f32_options(), split = f32_options();
  shared.ranks = 2;
  apart.placement.layers.assign(layers, {Side::device, Side::host});
  split.placement.layers.assign(layers, {});
  split.placement.layers[0] = {Side::host, Side::host};
  for (const ModelOptions& options : {shared, apart, split}) {
    Runner runner(file_, set_, options);
    runner.model().load_adapter(0, golden_adapter("qwen3moe-experts"));
    EXPECT_LE(relative_error(runner.step({piece(0, {{0, 1.0f}})}), golden_.logits), logit_tolerance(set_))
        << options.ranks << " ranks, " << options.placement.split();
  }
}

/// The error of loading "qwen3moe-experts" after `change` for the model `model`.
template <class Change>
std::string refusal_of(Change&& change, const std::string& model = "qwen3moe") {
  ModelFile adapter = ModelFile::golden("lora/qwen3moe-experts");
  change(adapter);
  const GgufFile file{golden_path(model)};
  Runner runner(file, "reference");
  return error_text([&] {
    const AdapterInMemory open(adapter);
    runner.model().load_adapter(0, open.file);
  });
}

TEST(LoraExpertsRefusals, NameTheTensor) {
  const std::string a = "blk.0.ffn_up_exps.weight.lora_a", b = "blk.0.ffn_up_exps.weight.lora_b";
  EXPECT_EQ(refusal_of([](ModelFile&) {}), "no error");
  const auto fewer = [](ModelFile::Weight& weight) {  // one expert less
    const std::int64_t experts = weight.shape[0];
    weight.data.resize(weight.data.size() / static_cast<std::size_t>(experts) * static_cast<std::size_t>(experts - 1));
    weight.shape = {experts - 1, weight.shape[1], weight.shape[2]};
  };
  EXPECT_THAT(
      refusal_of([&](ModelFile& model) { fewer(model.weight(a)); }),
      AllOf(HasSubstr("tiny-lora.gguf: tensor '" + a), HasSubstr("the model's blk.0.ffn_up_exps.weight needs [8, 3")));
  EXPECT_THAT(refusal_of([&](ModelFile& model) { fewer(model.weight(b)); }), HasSubstr("tiny-lora.gguf: tensor '" + b));
  EXPECT_THAT(refusal_of([&](ModelFile& model) {
                ModelFile::Weight& weight = model.weight(a);
                weight.shape = {weight.shape[0], 1, weight.shape[1] * weight.shape[2]};
              }),
              HasSubstr("its rank is not that of '" + b));
}

/// The gate of gpt-oss stands in one kernel with the limits of its outputs.
TEST(LoraExpertsRefusals, NameAnActivationThatCannotStandApart) {
  const ModelFile model = ModelFile::golden("gpt-oss");
  const auto shape = std::ranges::find(model.weights, "blk.0.ffn_up_exps.weight", &ModelFile::Weight::name)->shape;
  const auto change = [&](ModelFile& adapter) {
    adapter.weights.clear();
    adapter.set("general.architecture", std::string("gpt-oss"));
    const auto add = [&](const std::string& name, const Shape& own) {
      adapter.add_vector(name, std::vector<float>(static_cast<std::size_t>(own.elems())));
      adapter.weight(name).shape = own;
    };
    add("blk.0.ffn_up_exps.weight.lora_a", {shape[0], 2, shape[2]});
    add("blk.0.ffn_up_exps.weight.lora_b", {shape[0], shape[1], 2});
  };
  EXPECT_THAT(refusal_of(change, "gpt-oss"), AllOf(HasSubstr("tiny-lora.gguf: "), HasSubstr("clamped_swiglu")));
}

}  // namespace
}  // namespace rocmforge::testing
