// Llama 4, Laguna, Muse Glimmer, Step 3.5, Kimi Linear and Ling 3: what their files do not say, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::newest_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of_key(const std::string& name, const std::string& key, GgufValue value) {
  return refusal(name, [&](ModelFile& model) { model.set(key, std::move(value)); });
}

ModelConfig config_of(ModelFile model) {
  const OpenModel open(model);
  return ModelConfig::from_gguf(open.file);
}

std::vector<std::int32_t> windows_of(const ModelConfig& config) {
  std::vector<std::int32_t> windows;
  for (const LayerConfig& layer : config.blocks) {
    windows.push_back(layer.attention.chunked ? layer.attention.window : 0);
  }
  return windows;
}

/// What converters write: no key at all.
TEST(Llama4, ChunksAreThoseOfTheReleasedModelsWhereTheFileHasNoKey) {
  ModelFile model = ModelFile::golden("llama4");
  model.remove("llama4.attention.sliding_window");
  model.remove("llama4.attention.temperature_scale");
  model.remove("llama4.attention.temperature_length");
  const ModelConfig config = config_of(model);
  EXPECT_THAT(windows_of(config), ElementsAre(8192, 8192, 8192, 0));
  EXPECT_EQ(config.layer(3).attention.rope.kind, RopeKind::none);
  EXPECT_FLOAT_EQ(config.layer(3).attention.temperature_scale, 0.1f);
  EXPECT_EQ(config.layer(3).attention.temperature_length, 8192);
  EXPECT_EQ(config.layer(0).attention.temperature_scale, 0.0f);
}

TEST(Llama4, WithoutChunksAllLayersTurnTheirHeads) {
  ModelFile model = ModelFile::golden("llama4");
  model.set("llama4.attention.sliding_window", std::uint64_t{0});
  model.remove("llama4.attention.temperature_scale");
  const ModelConfig config = config_of(model);
  EXPECT_THAT(windows_of(config), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(config.layer(3).attention.rope.kind, RopeKind::adjacent);
  EXPECT_EQ(config.layer(3).attention.temperature_scale, 0.0f);
}

TEST(Llama4, TheModelWith128ExpertsDoesNotNormaliseHeads) {
  EXPECT_EQ(config_of(ModelFile::golden("llama4")).layer(0).attention.qk_norm, QkNorm::plain_heads);
  EXPECT_EQ(config_of(ModelFile::golden("llama4")).layer(3).attention.qk_norm, QkNorm::none);
  EXPECT_EQ(config_of(ModelFile::golden("llama4-128")).layer(0).attention.qk_norm, QkNorm::none);
}

TEST(Llama4, WhatIsNotComputedIsRefused) {
  EXPECT_THAT(refusal_of_key("llama4", "llama4.expert_used_count", std::uint64_t{2}),
              HasSubstr("'llama4.expert_used_count' is 2, but rows are weighted before experts"));
  EXPECT_THAT(refusal_of_key("llama4", "llama4.attention.sliding_window", std::uint64_t{24}),
              HasSubstr("'llama4.attention.sliding_window' is 24, chunks of positions must be a power of two"));
  EXPECT_THAT(refusal("llama4",
                      [](ModelFile& model) {
                        model.remove("llama4.attention.sliding_window");
                        model.set("llama4.attention.sliding_window_pattern", std::uint64_t{2});
                      }),
              HasSubstr("'llama4.attention.sliding_window' is missing, but there is a pattern of it"));
  EXPECT_THAT(refusal_of_key("llama4", "llama4.attention.sliding_window", std::uint64_t{0}),
              HasSubstr("'llama4.attention.temperature_scale'"));
  EXPECT_THAT(refusal("llama4", [](ModelFile& model) { model.remove("llama4.expert_count"); }),
              HasSubstr("llama4.expert_count"));
}

/// Up to a chunk's length every kernel computes the model: the plan has no chunks.
TEST(Llama4, AContextOfOneChunkIsPlannedWithoutChunks) {
  const OpenModel open(ModelFile::golden("llama4"));
  KernelRegistry registry;
  register_all_kernels(registry);
  const auto has_chunks = [&](std::int32_t context) {
    ModelOptions options = f32_options();
    options.context_length = context;
    const auto model = Model::plan(open.file, registry, cpu_device_info(), 1, options);
    return std::ranges::any_of(model->plan(), [](const PlannedOperation& operation) {
      return operation.spec.find("chunks of 16") != std::string::npos;
    });
  };
  EXPECT_TRUE(has_chunks(17));
  EXPECT_FALSE(has_chunks(16));
}

TEST(Laguna, GatesAreOfHeadsOrOfElements) {
  EXPECT_TRUE(config_of(ModelFile::golden("laguna")).layer(0).attention.gates_of_heads);
  EXPECT_FALSE(config_of(ModelFile::golden("laguna-m")).layer(0).attention.gates_of_heads);
  EXPECT_THAT(refusal("laguna",
                      [](ModelFile& model) {
                        ModelFile::Weight& gate = model.weight("blk.1.attn_gate.weight");
                        gate.shape = Shape{7, gate.shape.cols()};
                        gate.data.resize(static_cast<std::size_t>(gate.shape.elems()) * sizeof(float));
                      }),
              HasSubstr("tensor 'blk.1.attn_gate.weight' has 7 rows, neither one for each of 8 heads nor for their 128 "
                        "elements"));
  EXPECT_THAT(refusal("muse-glimmer", [](ModelFile& model) { model.remove_weight("blk.2.attn_gate.weight"); }),
              HasSubstr("blk.2.attn_gate.weight"));
}

TEST(Laguna, RotationsOfLayersWithAWindowAreChecked) {
  EXPECT_THAT(refusal_of_key("laguna", "laguna.rope.dimension_count_swa", std::uint64_t{7}),
              HasSubstr("'laguna.rope.dimension_count_swa' is 7, it must be even and at most the head length 16"));
}

TEST(MuseGlimmer, LayersWithoutAWindowDoNotTurnTheirHeads) {
  const ModelConfig config = config_of(ModelFile::golden("muse-glimmer"));
  EXPECT_EQ(config.layer(0).attention.rope.kind, RopeKind::adjacent);
  EXPECT_EQ(config.layer(3).attention.rope.kind, RopeKind::none);
  EXPECT_THAT(refusal_of_key("muse-glimmer", "muse-glimmer.logit_scale", 0.0),
              HasSubstr("'muse-glimmer.logit_scale' is 0, it must be positive"));
}

TEST(Step35, LayersWithoutAWindowTurnHalfOfWhatTheOthersTurn) {
  const ModelConfig config = config_of(ModelFile::golden("step35"));
  EXPECT_EQ(config.layer(0).attention.rope.n_rot, 8);
  EXPECT_EQ(config.layer(1).attention.rope.n_rot, 16);
  EXPECT_EQ(config.layer(0).attention.q_heads, 4);
  EXPECT_EQ(config.layer(1).attention.q_heads, 8);
  EXPECT_THAT(refusal("step35",
                      [](ModelFile& model) {
                        model.remove_weight("rope_freqs.weight");
                        model.set("step35.rope.dimension_count", std::uint64_t{14});
                      }),
              HasSubstr("'step35.rope.dimension_count' or the head length must be a multiple of 4, half of it is rotated"));
  EXPECT_THAT(refusal("step35", [](ModelFile& model) { model.remove("step35.attention.sliding_window_pattern"); }),
              HasSubstr("'step35.attention.sliding_window_pattern' is missing"));
}

TEST(Step35, LimitsAreOfTheBlocksThatTheFileNames) {
  const ModelConfig config = config_of(ModelFile::golden("step35"));
  EXPECT_FLOAT_EQ(config.layer(0).feed_forward.swiglu_limit, 0.8f);
  EXPECT_EQ(config.layer(1).feed_forward.swiglu_limit, 0.0f);
  EXPECT_FLOAT_EQ(config.layer(2).feed_forward.experts.swiglu_limit, 0.9f);
  EXPECT_EQ(config.layer(3).feed_forward.experts.swiglu_limit, 0.0f);
  ModelFile model = ModelFile::golden("step35");
  model.set("step35.swiglu_clamp_exp", 7.0);
  EXPECT_FLOAT_EQ(config_of(model).layer(3).feed_forward.experts.swiglu_limit, 7.0f) << "one for all";
  EXPECT_THAT(refusal_of_key("step35", "step35.swiglu_clamp_exp", GgufArray{GgufType::f32, std::vector<double>(4, 7.0)}),
              HasSubstr("'step35.swiglu_clamp_exp' has 4 values for 5 layers"));
  EXPECT_THAT(refusal_of_key("step35", "step35.swiglu_clamp_shexp", -1.0),
              HasSubstr("'step35.swiglu_clamp_shexp' has the limit -1, it can't be negative"));
  EXPECT_THAT(refusal_of_key("step35", "step35.swiglu_clamp_shexp", GgufArray{GgufType::f32, std::vector<double>(5, NAN)}),
              HasSubstr("'step35.swiglu_clamp_shexp' has the value nan"));
}

/// Their graph is a chain of blocks. What follows the last layer is left out, with its gates.
TEST(Step35, BlocksOfMultiTokenPredictionAreLeftOut) {
  ModelFile model = ModelFile::golden("step35");
  model.set("step35.nextn_predict_layers", std::uint64_t{1});
  model.remove_weight("blk.4.attn_gate.weight");
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.layers, 4);
  EXPECT_FALSE(config.mtp_supported);
}

TEST(KimiLinear, LayersWithoutKvHeadsAreDeltaNetsAndNothingTurns) {
  const ModelConfig config = config_of(ModelFile::golden("kimi-linear"));
  EXPECT_EQ(config.layer(0).mixer, MixerKind::kimi_delta);
  EXPECT_EQ(config.layer(1).mixer, MixerKind::attention);
  EXPECT_EQ(config.layer(2).mixer, MixerKind::kimi_delta);
  EXPECT_EQ(config.layer(0).delta_net.value_heads, 4);
  EXPECT_EQ(config.layer(0).delta_net.key_dim, 12);
  EXPECT_EQ(config.layer(1).attention.latent.rank, 48);
  EXPECT_EQ(config.layer(1).attention.rope.kind, RopeKind::none);
  EXPECT_EQ(config.layer(0).feed_forward.experts.count, 0);
  EXPECT_EQ(config.layer(1).feed_forward.experts.score, RouteScore::sigmoid);
}

TEST(KimiLinear, ImpossibleNumbersAreRefused) {
  EXPECT_THAT(refusal("kimi-linear", [](ModelFile& model) { model.remove("kimi-linear.kda.head_dim"); }),
              HasSubstr("'kimi-linear.kda.head_dim' is missing"));
  EXPECT_THAT(refusal_of_key("kimi-linear", "kimi-linear.kda.head_dim", std::uint64_t{65537}),
              HasSubstr("'kimi-linear.kda.head_dim' is 65537"));
  EXPECT_THAT(refusal_of_key("kimi-linear", "kimi-linear.ssm.conv_kernel", std::uint64_t{1}),
              HasSubstr("'kimi-linear.ssm.conv_kernel' is 1"));
  EXPECT_THAT(refusal_of_key("kimi-linear", "kimi-linear.attention.head_count_kv",
                             GgufArray{GgufType::u32, std::vector<std::uint64_t>{0, 2, 0}}),
              HasSubstr("'kimi-linear.attention.head_count_kv' is 2, expected 1, all heads share the latent"));
  EXPECT_THAT(refusal("kimi-linear", [](ModelFile& model) { model.remove_weight("blk.0.ssm_conv1d_k.weight"); }),
              HasSubstr("blk.0.ssm_conv1d_k.weight"));
}

TEST(BailingMoe3, DecaysHaveAFloorAndLatentAttentionGates) {
  const ModelConfig config = config_of(ModelFile::golden("bailingmoe3"));
  EXPECT_EQ(config.layer(0).mixer, MixerKind::kimi_delta);
  EXPECT_EQ(config.layer(1).mixer, MixerKind::kimi_delta);
  EXPECT_EQ(config.layer(2).mixer, MixerKind::attention);
  EXPECT_TRUE(config.layer(0).delta_net.full_gates);
  EXPECT_EQ(config.layer(0).delta_net.decay_floor, -3.0f);
  EXPECT_EQ(config.layer(2).attention.own_gate, OutputGate::Gate::sigmoid);
  EXPECT_EQ(config.layer(2).attention.own_gates(), 4);
  EXPECT_EQ(config.layer(2).attention.rope.kind, RopeKind::adjacent);
  EXPECT_FALSE(config_of(ModelFile::golden("kimi-linear")).layer(1).attention.own_gate.has_value());
}

/// Files without kda.safe_gate are of models that have it.
TEST(BailingMoe3, DecaysWithoutAFloorAreRefused) {
  ModelFile model = ModelFile::golden("bailingmoe3");
  model.remove("bailingmoe3.kda.safe_gate");
  EXPECT_EQ(config_of(std::move(model)).layer(0).delta_net.decay_floor, -3.0f);
  EXPECT_THAT(refusal_of_key("bailingmoe3", "bailingmoe3.kda.safe_gate", false),
              HasSubstr("'bailingmoe3.kda.safe_gate' is false, decays without a floor are not supported here"));
  EXPECT_THAT(refusal_of_key("bailingmoe3", "bailingmoe3.kda.gate_lower_bound", 0.0),
              HasSubstr("'bailingmoe3.kda.gate_lower_bound' is 0, it must be below 0"));
  EXPECT_THAT(refusal("bailingmoe3", [](ModelFile& file) { file.remove("bailingmoe3.kda.gate_lower_bound"); }),
              HasSubstr("'bailingmoe3.kda.gate_lower_bound' is missing"));
}

TEST(BailingMoe3, WhatIsNotComputedIsRefused) {
  EXPECT_THAT(refusal_of_key("bailingmoe3", "bailingmoe3.rope.dimension_sections",
                             GgufArray{GgufType::u32, std::vector<std::uint64_t>{4, 2, 2, 0}}),
              HasSubstr("'bailingmoe3.rope.dimension_sections' is of a model that sees, which is not supported"));
  EXPECT_THAT(refusal("bailingmoe3", [](ModelFile& model) { model.remove_weight("blk.2.attn_gate.weight"); }),
              HasSubstr("blk.2.attn_gate.weight"));
}

}  // namespace
}  // namespace rocmforge::testing::newest_test
