// Gemma 3n: residual streams, cuts of gates and shared keys by the keys of a file, and the errors for damaged files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/adapters/control_vectors.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::gemma3n_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Optional;

constexpr double infinity = std::numeric_limits<double>::infinity();

ModelConfig config_of(ModelFile model) {
  const OpenModel open(model);
  return ModelConfig::from_gguf(open.file);
}

std::string refusal_of_key(const std::string& key, GgufValue value) {
  return refusal("gemma3n", [&](ModelFile& model) { model.set("gemma3n." + key, std::move(value)); });
}

GgufArray cuts(std::vector<double> values) { return {GgufType::f32, std::move(values)}; }

TEST(Gemma3n, LayersDifferInCutsWidthsWindowsAndKeys) {
  const ModelConfig config = config_of(ModelFile::golden("gemma3n"));
  EXPECT_EQ(config.residual_streams, 4);
  EXPECT_EQ(config.stream_elements(), 4 * 32);
  EXPECT_EQ(config.per_layer_width, 12);
  EXPECT_THAT(config.layer(0).feed_forward.cut, Optional(FloatNear(0.8416212f, 1e-6f)));
  EXPECT_EQ(config.layer(1).feed_forward.cut, std::nullopt);
  EXPECT_THAT(config.layer(2).feed_forward.cut, Optional(FloatNear(-0.2533471f, 1e-6f)));
  EXPECT_EQ(config.layer(5).feed_forward.width, 40);
  EXPECT_EQ(config.layer(5).graph.laurel_rank, 10);
  std::vector<std::int32_t> windows;
  std::vector<std::int32_t> keys_of;
  for (const LayerConfig& layer : config.blocks) {
    windows.push_back(layer.attention.window);
    keys_of.push_back(layer.attention.keys_of);
  }
  EXPECT_THAT(windows, ElementsAre(11, 11, 11, 0, 11, 0));
  EXPECT_THAT(keys_of, ElementsAre(-1, -1, -1, -1, 2, 3));
}

/// As in released models: every fifth layer has no window.
TEST(Gemma3n, WithoutAPatternEveryFifthLayerSeesAll) {
  ModelFile model = ModelFile::golden("gemma3n");
  model.remove("gemma3n.attention.sliding_window_pattern");
  model.set("gemma3n.attention.shared_kv_layers", std::uint64_t{0});
  const ModelConfig config = config_of(std::move(model));
  EXPECT_EQ(config.layer(3).attention.window, 11);
  EXPECT_EQ(config.layer(4).attention.window, 0);
  EXPECT_EQ(config.layer(5).attention.keys_of, -1);
}

TEST(Gemma3n, OtherStreamsAreRefused) {
  EXPECT_THAT(refusal_of_key("altup.num_inputs", std::uint64_t{2}),
              HasSubstr("'gemma3n.altup.num_inputs' is 2, 4 are supported"));
  EXPECT_THAT(refusal_of_key("altup.active_idx", std::uint64_t{1}),
              HasSubstr("'gemma3n.altup.active_idx' is 1, only the first stream may be the active one"));
  for (const char* tensor : {"altup_proj.weight", "altup_unembd_proj.weight", "blk.1.altup_router.weight",
                             "blk.2.altup_correct_coef.weight", "blk.3.laurel_r.weight", "blk.0.laurel_l.weight"}) {
    EXPECT_THAT(refusal("gemma3n", [&](ModelFile& model) { model.remove_weight(tensor); }), HasSubstr(tensor));
  }
}

TEST(Gemma3n, ImpossibleNumbersAreRefused) {
  EXPECT_THAT(refusal_of_key("activation_sparsity_scale", cuts({1.0, 1.0})),
              HasSubstr("'gemma3n.activation_sparsity_scale' has 2 values for 6 layers"));
  EXPECT_THAT(refusal_of_key("activation_sparsity_scale", cuts({1.0, 1.0, infinity, 1.0, 1.0, 1.0})),
              HasSubstr("'gemma3n.activation_sparsity_scale' has the value inf"));
  EXPECT_THAT(refusal_of_key("activation_sparsity_scale", cuts({1.0, 1.0, std::nan(""), 1.0, 1.0, 1.0})),
              HasSubstr("'gemma3n.activation_sparsity_scale' has the value nan"));
  EXPECT_THAT(refusal_of_key("attention.shared_kv_layers", std::uint64_t{6}),
              HasSubstr("'gemma3n.attention.shared_kv_layers' is 6 of 6 layers"));
  for (const char* key : {"activation_sparsity_scale", "attention.shared_kv_layers", "embedding_length_per_layer_input",
                          "altup.num_inputs", "altup.active_idx"}) {
    const std::string full = std::string("gemma3n.") + key;
    EXPECT_THAT(refusal("gemma3n", [&](ModelFile& model) { model.remove(full); }), HasSubstr("'" + full + "' is missing"));
  }
}

TEST(Gemma3n, ControlVectorsAreRefused) {
  const ModelConfig config = config_of(ModelFile::golden("gemma3n"));
  EXPECT_EQ(error_text([&] { const ControlVectors vectors({}, {}, config, 16); }),
            "control vectors: gemma3n models have 4 residual streams, to which none can be added");
}

/// Every cut changes the logits.
TEST(Gemma3n, CutsMatter) {
  ModelFile model = ModelFile::golden("gemma3n");
  model.set("gemma3n.activation_sparsity_scale", cuts(std::vector<double>(6, -infinity)));
  const OpenModel open(model);
  const Golden golden = read_golden("gemma3n");
  EXPECT_GT(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-2);
}

}  // namespace
}  // namespace rocmforge::testing::gemma3n_test
