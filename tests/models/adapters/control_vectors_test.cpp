#include "models/adapters/control_vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "temporary_folder.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;

constexpr float golden_scale = 0.75f;  // of tools/goldens/control_golden.py

std::shared_ptr<const ControlVectors> vectors(const std::vector<ControlVectorFile>& files, const GgufFile& model,
                                              const ControlLayers& layers = {}) {
  return std::make_shared<const ControlVectors>(files, layers, ModelConfig::from_gguf(model), 256);
}

ModelOptions with(std::shared_ptr<const ControlVectors> control) {
  ModelOptions options = f32_options();
  options.control = std::move(control);
  return options;
}

class GoldenControl : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] ModelOptions options() const {
    return with(vectors({{golden_path("control/" + std::string(GetParam())), golden_scale}}, file_));
  }

  Golden golden_ = read_golden("control/" + std::string(GetParam()));
  GgufFile file_{golden_path(GetParam())};
};

TEST_P(GoldenControl, LogitsAreThoseOfTransformersWithHooks) {
  for (const std::string& set : kernel_sets()) {
    if (missing(set, file_).empty()) {
      Runner runner(file_, set, options());
      EXPECT_LE(relative_error(runner.whole(golden_.tokens), golden_.logits), logit_tolerance(set)) << set;
    }
  }
}

TEST_P(GoldenControl, StepsOfAnySizeGiveTheSame) {
  const std::string& set = kernel_sets().back();
  Runner runner(file_, set, options());
  const std::vector<float> whole = runner.whole(golden_.tokens);
  std::vector<float> parts;
  for (std::int32_t first = 0; first < std::ssize(golden_.tokens); first += 11) {
    const std::vector<std::int32_t> tokens(golden_.tokens.begin() + first, golden_.tokens.begin() + first + 11);
    const std::vector<float> rows = runner.step({{tokens, first, {5, 1, 8}}});
    parts.insert(parts.end(), rows.begin(), rows.end());
  }
  expect_same_logits(parts, whole, set);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenControl,
                         ::testing::Values("llama-gqa4", "gemma2", "qwen3moe", "falcon-h1", "deepseek-v2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Control : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<float> logits(const ModelOptions& options) const {
    Runner runner(file_, set_, options);
    return runner.whole(golden_.tokens);
  }
  /// The golden vector after `change`, in a file.
  template <class Change>
  std::string changed(Change&& change) {
    ModelFile model = ModelFile::golden("control/gemma2");
    change(model);
    const std::vector<std::byte> bytes = model.bytes();
    folder_.write("tiny.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return (folder_.path() / "tiny.gguf").string();
  }
  /// What is said of the file, or of the layers, less the folder.
  std::string refusal(const std::string& path, const ControlLayers& layers = {}, float scale = 1.0f) const {
    std::string text = error_text([&] { vectors({{path, scale}}, file_, layers); });
    const std::string folder = folder_.path().string() + "/";
    return text.starts_with(folder) ? text.substr(folder.size()) : text;
  }

  const std::string& set_ = kernel_sets().back();
  Golden golden_ = read_golden("control/gemma2");
  GgufFile file_{golden_path("gemma2")};
  std::string path_ = golden_path("control/gemma2");
  TemporaryFolder folder_;
};

TEST_F(Control, SeveralAddUpAndOppositeOnesCancel) {
  const std::vector<float> whole = logits(with(vectors({{path_, golden_scale}}, file_)));
  EXPECT_LE(relative_error(logits(with(vectors({{path_, 1.0f}, {path_, -0.25f}}, file_))), whole), 1e-5);
  const std::vector<float> plain = logits(f32_options());
  EXPECT_GT(relative_error(whole, plain), 1e-2);
  EXPECT_LE(relative_error(logits(with(vectors({{path_, 1.0f}, {path_, -1.0f}}, file_))), plain), 1e-5);
}

TEST_F(Control, LayersAreChosen) {
  const auto second = vectors({{path_, golden_scale}}, file_, {2, 2});
  EXPECT_TRUE(second->behind(0).empty());
  EXPECT_TRUE(second->behind(1).empty());
  EXPECT_EQ(second->behind(2).size(), 32u);
  EXPECT_TRUE(second->behind(3).empty()) << "a block of MTP";
  const std::string only = changed([](ModelFile& model) { model.remove_weight("direction.1"); });
  EXPECT_EQ(logits(with(second)), logits(with(vectors({{only, golden_scale}}, file_))));
  EXPECT_NE(logits(with(second)), logits(with(vectors({{path_, golden_scale}}, file_))));
  EXPECT_NE(second->fingerprint(), vectors({{path_, golden_scale}}, file_)->fingerprint());
  EXPECT_EQ(second->fingerprint(), vectors({{only, golden_scale}}, file_)->fingerprint());
}

TEST_F(Control, RanksAndSplitModelsGiveTheSame) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "ranks are threads of the CPU";
  }
  ModelOptions shared = with(vectors({{path_, golden_scale}}, file_)), split = shared;
  shared.ranks = 2;
  split.placement.layers = {{Side::host, Side::host}, {Side::host, Side::host}, {}};
  EXPECT_LE(relative_error(logits(shared), golden_.logits), logit_tolerance(set_));
  EXPECT_LE(relative_error(logits(split), golden_.logits), logit_tolerance(set_));
}

TEST_F(Control, LayersOnSeveralDevicesGiveTheSame) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "on the CPU";
  }
  ModelOptions options = with(vectors({{path_, golden_scale}}, file_));
  Device first, second;
  const std::vector<float> expected = Runner(file_, first, options).whole(golden_.tokens);
  for (const std::int32_t end : {1, 2}) {
    options.stage_ends = {end, 3};
    EXPECT_EQ(Runner(file_, std::vector{&first, &second}, options).whole(golden_.tokens), expected) << end;
  }
}

TEST_F(Control, RefusalsNameTheFileAndTheTensor) {
  const auto refused = [&](auto&& change) { return refusal(changed(change)); };
  EXPECT_EQ(refused([](ModelFile&) {}), "no error");
  EXPECT_EQ(refused([](ModelFile& model) { model.set("general.architecture", std::string("llama")); }),
            "tiny.gguf: no control vector: key 'general.architecture' is 'llama', not 'controlvector'");
  EXPECT_EQ(refused([](ModelFile& model) { model.weights.clear(); }), "tiny.gguf: a control vector without directions");
  EXPECT_EQ(refused([](ModelFile& model) { model.weight("direction.1").name = "direction.3"; }),
            "tiny.gguf: tensor 'direction.3' is for no layer of this model: its directions are 1 to 2");
  EXPECT_THAT(refused([](ModelFile& model) { model.weight("direction.1").name = "direction.0"; }),
              HasSubstr("is for no layer of this model"));
  for (const std::string name : {"direction.1x", "direction.", "blk.1.attn_q.weight"}) {
    EXPECT_EQ(refused([&](ModelFile& model) { model.weight("direction.1").name = name; }),
              "tiny.gguf: tensor '" + name + "' is no direction of a control vector");
  }
  EXPECT_THAT(refused([](ModelFile& model) {
                ModelFile::Weight& weight = model.weight("direction.1");
                weight.shape = {31};
                weight.data.resize(31 * sizeof(float));
              }),
              HasSubstr("has type F32 and shape [31], the model needs F32 [32]"));
  EXPECT_THAT(refused([](ModelFile& model) { model.convert("direction.2", DType::f16); }),
              HasSubstr("tiny.gguf: tensor 'direction.2' has type F16 and shape [32], the model needs F32 [32]"));
  EXPECT_EQ(
      refused([](ModelFile& model) { model.weight("direction.2").floats()[3] = std::numeric_limits<float>::quiet_NaN(); }),
      "tiny.gguf: tensor 'direction.2' has numbers that are not finite");
  EXPECT_THAT(refusal(path_, {}, INFINITY), HasSubstr("scale is no finite number"));
  EXPECT_THAT(refusal(path_, {2, 3}), HasSubstr("are to change layers 2 to 3, of this model they may change 1 to 2"));
  EXPECT_THAT(refusal("/nowhere.gguf"), HasSubstr("/nowhere.gguf"));
}

}  // namespace
}  // namespace rocmforge::testing
