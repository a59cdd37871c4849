#include "models/config/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "models/config/rope_frequencies.h"
#include "models/error_text.h"
#include "models/model_file.h"

namespace rocmforge::testing::model_config_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ModelConfig config_of(const ModelFile& model) { return ModelConfig::from_gguf(OpenModel(model).file); }

/// The error of from_gguf for the golden model `name` after `change`.
template <class Change>
std::string refusal(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  return error_text([&] { config_of(model); });
}

std::string refusal_of_key(const std::string& key, GgufValue value) {
  return refusal("llama-gqa4", [&](ModelFile& model) { model.set(key, std::move(value)); });
}

GgufArray per_layer(std::vector<std::uint64_t> values) { return {GgufType::u64, std::move(values)}; }

/// What is logged while `body` runs.
template <class Body>
std::string logged(Body&& body) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  body();
  spdlog::set_default_logger(before);
  return text.str();
}

TEST(ModelConfig, ReadsEveryNumber) {
  const ModelConfig config = config_of(ModelFile::golden("llama-gqa4"));
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "llama-gqa4");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.hidden, 64);
  EXPECT_EQ(config.vocab, 112);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-2f);
  ASSERT_EQ(config.blocks.size(), 2u);
  for (const LayerConfig& layer : config.blocks) {
    EXPECT_EQ(layer.feed_forward.width, 64);
    EXPECT_EQ(layer.attention.q_heads, 8);
    EXPECT_EQ(layer.attention.kv_heads, 2);
    EXPECT_EQ(layer.attention.head_dim, 8);
    EXPECT_EQ(layer.attention.window, 0);
    EXPECT_EQ(layer.attention.rope.kind, RopeKind::adjacent);
    EXPECT_EQ(layer.attention.rope.n_rot, 8);
    EXPECT_FALSE(layer.attention.needs_bias);
    EXPECT_EQ(layer.attention.qk_norm, QkNorm::none);
  }
  EXPECT_EQ(config.layer(0).attention.rope.frequencies, config.layer(1).attention.rope.frequencies) << "one copy";
}

TEST(ModelConfig, ArchitecturesDiffer) {
  const AttentionConfig qwen2 = config_of(ModelFile::golden("qwen2")).layer(1).attention;
  EXPECT_EQ(qwen2.rope.kind, RopeKind::half);
  EXPECT_TRUE(qwen2.needs_bias);
  EXPECT_EQ(qwen2.qk_norm, QkNorm::none);
  const AttentionConfig qwen3 = config_of(ModelFile::golden("qwen3")).layer(1).attention;
  EXPECT_EQ(qwen3.rope.kind, RopeKind::half);
  EXPECT_FALSE(qwen3.needs_bias);
  EXPECT_EQ(qwen3.qk_norm, QkNorm::heads);
  EXPECT_EQ(qwen3.head_dim, 32);  // not hidden / heads
  EXPECT_EQ(config_of(ModelFile::golden("mistral-window")).layer(1).attention.window, 12);
}

TEST(ModelConfig, AbsentKeysHaveTheirDefaults) {
  ModelFile model = ModelFile::golden("llama-linear");
  for (const char* key : {"llama.attention.head_count_kv", "llama.rope.freq_base", "llama.rope.dimension_count",
                          "llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.vocab_size", "general.name"}) {
    model.remove(key);
  }
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.name, "");
  const AttentionConfig& attention = config.layer(0).attention;
  EXPECT_EQ(attention.kv_heads, attention.q_heads);
  EXPECT_EQ(attention.rope.n_rot, attention.head_dim);
  EXPECT_EQ(config.vocab, 112);  // rows of the embedding
  const std::vector<float>& frequencies = attention.rope.frequencies->inverse_frequency;
  ASSERT_EQ(frequencies.size(), 8u);
  EXPECT_FLOAT_EQ(frequencies[1], std::pow(10000.0f, -2.0f / 16.0f));
}

TEST(ModelConfig, LayersAreGatedDeltaNetsButThoseThatTheFileNames) {
  const ModelConfig config = config_of(ModelFile::golden("qwen35moe"));
  EXPECT_EQ(config.layer(0).mixer, MixerKind::delta_net);
  EXPECT_EQ(config.layer(1).mixer, MixerKind::attention);
  EXPECT_EQ(config.layer(2).mixer, MixerKind::delta_net);
  EXPECT_TRUE(config.layer(1).attention.output_gate);
  const DeltaNetConfig& delta_net = config.layer(0).delta_net;
  EXPECT_EQ(delta_net.key_heads, 2);
  EXPECT_EQ(delta_net.value_heads, 6);
  EXPECT_EQ(delta_net.key_dim, 8);
  EXPECT_EQ(delta_net.value_dim, 12);
  EXPECT_EQ(delta_net.taps, 4);
  EXPECT_TRUE(delta_net.tiled);
  EXPECT_FALSE(config_of(ModelFile::golden("qwen3next")).layer(0).delta_net.tiled);

  ModelFile model = ModelFile::golden("qwen35");
  model.set("qwen35.attention.recurrent_layers", per_layer({0, 1, 1}));
  EXPECT_EQ(config_of(model).layer(0).mixer, MixerKind::attention);
  EXPECT_EQ(config_of(model).layer(1).mixer, MixerKind::delta_net);
  model.remove("qwen35.attention.recurrent_layers");
  model.set("qwen35.nextn_predict_layers", std::uint64_t{1});
  EXPECT_EQ(config_of(model).layers, 2);

  const auto refusal_with = [](const std::string& key, GgufValue value) {
    return refusal("qwen35", [&](ModelFile& changed) { changed.set("qwen35." + key, std::move(value)); });
  };
  EXPECT_EQ(refusal_with("attention.recurrent_layers", per_layer({0, 1})),
            "tiny.gguf: key 'qwen35.attention.recurrent_layers' has 2 values for 3 layers");
  EXPECT_EQ(refusal_with("ssm.conv_kernel", std::uint64_t{1}),
            "tiny.gguf: key 'qwen35.ssm.conv_kernel' is 1, it must be in [2, 1024]");
  EXPECT_EQ(refusal_with("ssm.group_count", std::uint64_t{4}),
            "tiny.gguf: key 'qwen35.ssm.time_step_rank' is 6, not a multiple of the 4 key heads");
  EXPECT_EQ(refusal_with("ssm.inner_size", std::uint64_t{71}),
            "tiny.gguf: key 'qwen35.ssm.inner_size' is 71, not a multiple of the 6 value heads");
  EXPECT_EQ(refusal_with("ssm.state_size", std::uint64_t{65537}),
            "tiny.gguf: key 'qwen35.ssm.state_size' is 65537, at most 65536 is possible");
  EXPECT_THAT(refusal_with("ssm.group_count", std::uint64_t{0}), HasSubstr("'qwen35.ssm.group_count' is 0"));
  EXPECT_EQ(refusal_with("attention.head_count_kv", per_layer({2, 0, 2})),
            "tiny.gguf: key 'qwen35.attention.head_count_kv' is 0 in layer 1, which attends");
}

TEST(ModelConfig, LayersWithoutKvHeadsHaveAnotherMixer) {
  const ModelConfig config = config_of(ModelFile::golden("lfm2"));
  const auto mixer = [&](int index) { return config.layer(index).mixer; };
  EXPECT_EQ(mixer(0), MixerKind::short_conv);
  EXPECT_EQ(mixer(1), MixerKind::attention);
  EXPECT_EQ(config.layer(0).short_conv_taps, 3);
  EXPECT_EQ(config.layer(1).attention.kv_heads, 2);
  EXPECT_EQ(config.output_norm, "token_embd_norm");
  ModelFile renamed = ModelFile::golden("lfm2");
  renamed.weight("token_embd_norm.weight").name = "output_norm.weight";
  EXPECT_EQ(config_of(renamed).output_norm, "output_norm");
  const auto refusal = [](const std::string& key, GgufValue value) {
    ModelFile model = ModelFile::golden("lfm2");
    model.set(key, std::move(value));
    return error_text([&] { config_of(model); });
  };
  EXPECT_EQ(refusal("lfm2.shortconv.l_cache", std::uint64_t{1}),
            "tiny.gguf: key 'lfm2.shortconv.l_cache' is 1, it must be in [2, 1024]");
  EXPECT_EQ(refusal("lfm2.attention.head_count_kv", per_layer({0, 3, 0, 0})),
            "tiny.gguf: key 'lfm2.attention.head_count_kv' is 3, which does not divide the 4 query heads");
  EXPECT_EQ(refusal_of_key("llama.attention.head_count_kv", per_layer({0, 0})),
            "tiny.gguf: key 'llama.attention.head_count_kv' is 0, it must be in [1, 2^31)");
}

TEST(ModelConfig, MambaLayersHaveTheNumbersOfTheirScan) {
  const ModelConfig config = config_of(ModelFile::golden("granitehybrid"));
  const LayerConfig& layer = config.layer(0);
  EXPECT_EQ(layer.mixer, MixerKind::ssm);
  EXPECT_EQ(layer.graph.parts, BlockParts::both);
  EXPECT_EQ(layer.ssm.heads, 4);
  EXPECT_EQ(layer.ssm.head_dim, 16);
  EXPECT_EQ(layer.ssm.state_size, 12);
  EXPECT_EQ(layer.ssm.groups, 1);
  EXPECT_EQ(layer.ssm.taps, 4);
  EXPECT_EQ(layer.ssm.channels(), 64 + 2 * 12);
  EXPECT_EQ(config.layer(1).mixer, MixerKind::attention);
  EXPECT_EQ(config.layer(1).attention.rope.kind, RopeKind::none);
  EXPECT_EQ(config_of(ModelFile::golden("granitehybrid-dense")).layer(1).attention.rope.kind, RopeKind::adjacent);
}

TEST(ModelConfig, BlocksMayBeOnePart) {
  const ModelConfig config = config_of(ModelFile::golden("nemotron_h"));
  EXPECT_EQ(config.layer(0).graph.parts, BlockParts::mixer);
  EXPECT_EQ(config.layer(0).mixer, MixerKind::ssm);
  EXPECT_FALSE(config.layer(0).has_feed_forward());
  EXPECT_EQ(config.layer(1).graph.parts, BlockParts::feed_forward);
  EXPECT_EQ(config.layer(1).graph.ffn_norm, "attn_norm");
  EXPECT_EQ(config.layer(1).feed_forward.activation, Activation::relu_squared);
  EXPECT_FALSE(config.layer(1).feed_forward.gated);
  EXPECT_EQ(config.layer(2).graph.parts, BlockParts::mixer);
  EXPECT_EQ(config.layer(2).mixer, MixerKind::attention);
  const ModelConfig experts = config_of(ModelFile::golden("nemotron_h_moe"));
  EXPECT_EQ(experts.layer(0).feed_forward.experts.count, 0);
  EXPECT_EQ(experts.layer(1).feed_forward.experts.count, 6);
  EXPECT_EQ(experts.layer(1).feed_forward.experts.score, RouteScore::sigmoid);
  const ModelConfig mamba = config_of(ModelFile::golden("mamba2"));
  EXPECT_EQ(mamba.layer(2).graph.parts, BlockParts::mixer);
  EXPECT_EQ(refusal_of_key("llama.feed_forward_length", std::uint64_t{0}),
            "tiny.gguf: key 'llama.feed_forward_length' is 0, it must be in [1, 2^31)");
}

TEST(ModelConfig, NumbersOfAScanThatCannotBeAreRefused) {
  const auto complaint = [](const std::string& name, const std::string& key, GgufValue value) {
    return refusal(name, [&](ModelFile& model) { model.set(name + "." + key, std::move(value)); });
  };
  EXPECT_EQ(complaint("mamba2", "ssm.conv_kernel", std::uint64_t{1}),
            "tiny.gguf: key 'mamba2.ssm.conv_kernel' is 1, it must be in [2, 1024]");
  EXPECT_EQ(complaint("mamba2", "ssm.state_size", std::uint64_t{65537}),
            "tiny.gguf: key 'mamba2.ssm.state_size' is 65537, it must be in [1, 65536]");
  EXPECT_EQ(complaint("mamba2", "ssm.inner_size", std::uint64_t{2147483647}),
            "tiny.gguf: key 'mamba2.ssm.inner_size' is 2147483647, it must be in [1, 16777216]");
  EXPECT_EQ(complaint("mamba2", "ssm.time_step_rank", std::uint64_t{0}),
            "tiny.gguf: key 'mamba2.ssm.time_step_rank' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(complaint("mamba2", "ssm.time_step_rank", std::uint64_t{5}),
            "tiny.gguf: key 'mamba2.ssm.time_step_rank' is 5, which does not divide ssm.inner_size 64");
  EXPECT_EQ(complaint("mamba2", "ssm.group_count", std::uint64_t{3}),
            "tiny.gguf: key 'mamba2.ssm.group_count' is 3, which does not divide the 4 heads");
  EXPECT_EQ(complaint("nemotron_h", "attention.head_count_kv", per_layer({0, 2, 2, 0, 0})),
            "tiny.gguf: key 'nemotron_h.attention.head_count_kv' is 2 in layer 1, which has a feed-forward part");
  EXPECT_EQ(complaint("nemotron_h", "attention.head_count", std::uint64_t{0}),
            "tiny.gguf: key 'nemotron_h.attention.head_count_kv' is 2, which does not divide the 0 query heads");
  EXPECT_EQ(complaint("nemotron_h_moe", "moe_latent_size", std::uint64_t{1} << 31),
            "tiny.gguf: key 'nemotron_h_moe.moe_latent_size' is 2147483648, it must be in [1, 2^31)");
  EXPECT_EQ(refusal("mamba2", [](ModelFile& model) { model.remove("mamba2.ssm.state_size"); }),
            "tiny.gguf: key 'mamba2.ssm.state_size' is missing");
}

TEST(ModelConfig, ALayerHasItsOwnValueOfAnArray) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.set("llama.attention.head_count_kv", per_layer({2, 1}));
  model.set("llama.attention.head_count", per_layer({8, 4}));
  model.set("llama.feed_forward_length", per_layer({64, 32}));
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.layer(0).attention.kv_heads, 2);
  EXPECT_EQ(config.layer(1).attention.kv_heads, 1);
  EXPECT_EQ(config.layer(0).attention.q_heads, 8);
  EXPECT_EQ(config.layer(1).attention.q_heads, 4);
  EXPECT_EQ(config.layer(0).feed_forward.width, 64);
  EXPECT_EQ(config.layer(1).feed_forward.width, 32);
  EXPECT_EQ(refusal_of_key("llama.feed_forward_length", per_layer({64, 32, 64})),
            "tiny.gguf: key 'llama.feed_forward_length' has 3 values for 2 layers");
  EXPECT_EQ(refusal_of_key("llama.feed_forward_length", per_layer({64, 0})),
            "tiny.gguf: key 'llama.feed_forward_length' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.attention.head_count_kv", per_layer({2, 0})),
            "tiny.gguf: key 'llama.attention.head_count_kv' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.attention.head_count", per_layer({8, 3})),
            "tiny.gguf: key 'llama.attention.head_count_kv' is 2, which does not divide the 3 query heads");
}

TEST(ModelConfig, AbsentKeysThatHaveNoDefaultAreNamed) {
  for (const char* key : {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    const std::string full = std::string("llama.") + key;
    EXPECT_EQ(refusal("llama-gqa4", [&](ModelFile& model) { model.remove(full); }),
              "tiny.gguf: key '" + full + "' is missing");
  }
}

TEST(ModelConfig, ImpossibleValuesAreRefusedByKey) {
  EXPECT_THAT(
      refusal_of_key("general.architecture", std::string("nosuch")),
      ::testing::StartsWith("tiny.gguf: architecture 'nosuch' is not supported, those supported are llama, qwen2, "));
  EXPECT_EQ(refusal_of_key("llama.expert_count", std::uint64_t{8}), "tiny.gguf: key 'llama.expert_used_count' is missing");
  EXPECT_EQ(refusal_of_key("llama.block_count", std::uint64_t{0}),
            "tiny.gguf: key 'llama.block_count' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.block_count", std::uint64_t{2000000000}),
            "tiny.gguf: key 'llama.block_count' is 2000000000, but the file has 21 tensors");
  EXPECT_EQ(refusal_of_key("llama.embedding_length", std::uint64_t{3000000000}),
            "tiny.gguf: key 'llama.embedding_length' is 3000000000, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.attention.head_count_kv", std::uint64_t{3}),
            "tiny.gguf: key 'llama.attention.head_count_kv' is 3, which does not divide the 8 query heads");
  EXPECT_EQ(refusal("llama-gqa4",
                    [](ModelFile& model) {
                      model.remove("llama.attention.key_length");
                      model.set("llama.attention.head_count", std::uint64_t{10});
                    }),
            "tiny.gguf: key 'llama.attention.head_count' is 10, which does not divide embedding_length 64");
  EXPECT_EQ(refusal_of_key("llama.attention.key_length", std::uint64_t{0}),
            "tiny.gguf: key 'llama.attention.key_length' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.attention.key_length", std::uint64_t{70000}),
            "tiny.gguf: key 'llama.attention.key_length' is 70000, at most 65536 is possible");
  EXPECT_EQ(refusal_of_key("llama.attention.value_length", std::uint64_t{16}),
            "tiny.gguf: key 'llama.attention.value_length' is 16, different from the key length 8, which is not supported");
  EXPECT_EQ(refusal_of_key("llama.attention.layer_norm_rms_epsilon", -1.0),
            "tiny.gguf: key 'llama.attention.layer_norm_rms_epsilon' is -1, it can't be negative");
  EXPECT_EQ(refusal_of_key("llama.attention.sliding_window", std::int64_t{-4}),
            "tiny.gguf: key 'llama.attention.sliding_window' is -4, it must be in [1, 2^31)");
  EXPECT_EQ(refusal_of_key("llama.rope.dimension_count", std::uint64_t{4}),
            "tiny.gguf: key 'llama.rope.dimension_count' is 4, the whole head (8) must turn in a llama model");
  EXPECT_EQ(refusal_of_key("llama.rope.dimension_count", std::uint64_t{7}),
            "tiny.gguf: key 'llama.rope.dimension_count' is 7, it must be even and at most the head length 8");
  EXPECT_EQ(refusal_of_key("llama.rope.freq_base", 0.0), "tiny.gguf: key 'llama.rope.freq_base' is 0, it must be above 1");
  EXPECT_EQ(refusal_of_key("llama.rope.freq_base", std::nan("")), "tiny.gguf: key 'llama.rope.freq_base' is nan");
  EXPECT_EQ(refusal_of_key("llama.rope.scaling.type", std::string("dynamic")),
            "tiny.gguf: key 'llama.rope.scaling.type' is 'dynamic', those supported are none, linear, yarn, longrope");
  EXPECT_EQ(refusal_of_key("llama.rope.scaling.factor", -2.0),
            "tiny.gguf: key 'llama.rope.scaling.factor' is -2, it can't be negative");
  EXPECT_EQ(refusal("llama-yarn", [](ModelFile& model) { model.set("llama.rope.scaling.yarn_beta_slow", 0.0); }),
            "tiny.gguf: key 'llama.rope.scaling.yarn_beta_slow' and yarn_beta_fast must be positive");
  EXPECT_EQ(refusal_of_key("llama.block_count", std::string("two")),
            "tiny.gguf: key 'llama.block_count' is a string, an integer was expected");
}

TEST(ModelConfig, ZeroMeansNoneForExpertsWindowAndFactor) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.set("llama.expert_count", std::uint64_t{0});
  model.set("llama.attention.sliding_window", std::uint64_t{0});
  model.set("llama.rope.scaling.factor", 0.0);
  const ModelConfig config = config_of(model);
  const AttentionConfig plain = config_of(ModelFile::golden("llama-gqa4")).layer(0).attention;
  EXPECT_EQ(config.layer(0).attention.window, 0);
  EXPECT_EQ(config.layer(0).attention.rope.frequencies->inverse_frequency, plain.rope.frequencies->inverse_frequency);
}

TEST(ModelConfig, FactorsThatWouldChangeTheResultAreRefused) {
  EXPECT_EQ(refusal_of_key("llama.rope.scaling.yarn_log_multiplier", 0.125),
            "tiny.gguf: key 'llama.rope.scaling.yarn_log_multiplier' is 0.125, it changes the computation and is not "
            "supported");
  EXPECT_EQ(refusal_of_key("llama.logit_scale", 2.0),
            "tiny.gguf: key 'llama.logit_scale' is 2, it changes the computation and is not supported");
  EXPECT_EQ(refusal_of_key("llama.attention.scale", -1.0),
            "tiny.gguf: key 'llama.attention.scale' is -1, it can't be negative");
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.set("llama.logit_scale", 1.0);
  EXPECT_NO_THROW(config_of(model));
}

TEST(ModelConfig, FactorsOfTheFileAreRead) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  EXPECT_EQ(config_of(model).embedding_scale, 1.0f);
  EXPECT_EQ(config_of(model).layer(0).graph.residual_scale, 1.0f);
  model.set("llama.attention.scale", 0.25);
  model.set("llama.attn_logit_softcapping", 50.0);
  model.set("llama.final_logit_softcapping", 30.0);
  model.set("llama.embedding_scale", 12.0);
  model.set("llama.residual_scale", 0.5);
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.layer(1).attention.scale, 0.25f);
  EXPECT_EQ(config.layer(1).attention.soft_cap, 50.0f);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_EQ(config.embedding_scale, 12.0f);
  EXPECT_EQ(config.layer(1).graph.residual_scale, 0.5f);
}

TEST(ModelConfig, WhatAnArchitectureCannotComputeIsRefusedByName) {
  EXPECT_EQ(refusal("granite", [](ModelFile& model) { model.set("granite.logit_scale", -1.0); }),
            "tiny.gguf: key 'granite.logit_scale' is -1, it must be positive");
  EXPECT_EQ(
      refusal("glm4moe",
              [](ModelFile& model) {
                model.set("glm4moe.rope.dimension_sections", per_layer({1, 2, 1}));
              }),
      "tiny.gguf: key 'glm4moe.rope.dimension_sections' asks for positions in several dimensions, which is not supported");
  EXPECT_EQ(refusal("gemma3", [](ModelFile& model) { model.set("gemma3.rope.freq_base_swa", 1.0); }),
            "tiny.gguf: key 'gemma3.rope.freq_base_swa' is 1, it must be above 1");
  EXPECT_EQ(refusal("starcoder2", [](ModelFile& model) { model.remove("starcoder2.attention.layer_norm_epsilon"); }),
            "tiny.gguf: key 'starcoder2.attention.layer_norm_epsilon' is missing");
}

TEST(ModelConfig, LongAndShortContextsTakeTheirOwnFactors) {
  const OpenModel open(ModelFile::golden("phi3-long"));
  const auto slowest = [&](std::int32_t context) {
    return ModelConfig::from_gguf(open.file, context).layer(0).attention.rope.frequencies->inverse_frequency.back();
  };
  EXPECT_EQ(slowest(0), slowest(128)) << "the context that the model was trained for";
  EXPECT_FLOAT_EQ(slowest(32), 9.0f / 1.3f * slowest(33)) << "the factors of the last pair are 1.3 and 9";
}

TEST(ModelConfig, LayersOfOneModelDiffer) {
  const ModelConfig gemma3 = config_of(ModelFile::golden("gemma3"));
  const ModelConfig cohere2 = config_of(ModelFile::golden("cohere2"));
  for (int index = 0; index < 5; ++index) {
    EXPECT_EQ(gemma3.layer(index).attention.window, 11) << index;
    EXPECT_EQ(cohere2.layer(index).attention.window, index == 3 ? 0 : 11) << index;
    EXPECT_EQ(cohere2.layer(index).attention.rope.kind, index == 3 ? RopeKind::none : RopeKind::adjacent) << index;
  }
  EXPECT_EQ(gemma3.layer(5).attention.window, 0);
  EXPECT_EQ(gemma3.layer(6).attention.window, 11);
  EXPECT_NE(gemma3.layer(5).attention.rope.frequencies, gemma3.layer(6).attention.rope.frequencies);
  EXPECT_EQ(gemma3.layer(0).attention.rope.frequencies, gemma3.layer(6).attention.rope.frequencies) << "one copy";
}

TEST(ModelConfig, APatternGivesEachLayerItsWindow) {
  ModelFile model = ModelFile::golden("mistral-window");
  const auto windows = [&](GgufValue pattern) {
    model.set("llama.attention.sliding_window_pattern", std::move(pattern));
    const ModelConfig config = config_of(model);
    return std::pair(config.layer(0).attention.window, config.layer(1).attention.window);
  };
  EXPECT_EQ(windows(std::uint64_t{2}), std::pair(12, 0)) << "the last of each group has none";
  EXPECT_EQ(windows(std::uint64_t{3}), std::pair(12, 12));
  EXPECT_EQ(windows(per_layer({0, 1})), std::pair(0, 12));
  EXPECT_EQ(windows(per_layer({1, 0})), std::pair(12, 0));
  model.set("llama.attention.sliding_window_pattern", per_layer({1, 0, 1}));
  EXPECT_EQ(error_text([&] { config_of(model); }),
            "tiny.gguf: key 'llama.attention.sliding_window_pattern' has 3 values for 2 layers");
}

TEST(ModelConfig, TheTokenizerGivesTheSizeOfTheVocabulary) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.set("tokenizer.ggml.tokens", GgufArray{GgufType::string, std::vector<std::string>{"a", "b", "c"}});
  EXPECT_EQ(config_of(model).vocab, 3);
  model.set("tokenizer.ggml.tokens", GgufArray{GgufType::string, std::vector<std::string>{}});
  EXPECT_EQ(error_text([&] { config_of(model); }),
            "tiny.gguf: the vocabulary has 0 tokens, it must have between 1 and 2^31");
}

TEST(ModelConfig, FrequencyFactorsAreChecked) {
  EXPECT_EQ(refusal("llama3", [](ModelFile& model) { model.weight("rope_freqs.weight").floats()[3] = 0.0f; }),
            "tiny.gguf: tensor 'rope_freqs.weight' has the factor 0 for pair 3, it must be positive");
  EXPECT_EQ(refusal("llama-gqa4",
                    [](ModelFile& model) {
                      model.add_vector("rope_freqs.weight", {1.0f, 1.0f, 1.0f});
                    }),
            "tiny.gguf: tensor 'rope_freqs.weight' is [3], expected [4]");
}

TEST(ModelConfig, KeysWithoutEffectAreSaidOnce) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  EXPECT_EQ(logged([&] { config_of(model); }), "");
  model.set("llama.use_parallel_residual", true);
  model.set("llama.attention.use_parallel", true);
  model.set("other.use_parallel", std::uint64_t{1});
  const std::string log = logged([&] { config_of(model); });
  EXPECT_THAT(log,
              HasSubstr("tiny.gguf: keys without effect: 'llama.use_parallel_residual', 'llama.attention.use_parallel'"));
  EXPECT_THAT(log, Not(HasSubstr("other.")));
}

/// As converters write them.
TEST(ModelConfig, KeysThatNothingDependsOnAreNoNews) {
  const auto log_with = [](const char* name, const std::string& key, GgufValue value) {
    ModelFile model = ModelFile::golden(name);
    model.set(key, std::move(value));
    return logged([&] { config_of(model); });
  };
  EXPECT_EQ(log_with("falcon", "falcon.tensor_data_layout", std::string("jploski")), "");
  EXPECT_EQ(log_with("nemotron", "nemotron.attention.layer_norm_rms_epsilon", 1e-5), "");
  EXPECT_EQ(log_with("nemotron_h", "nemotron_h.attention.layer_norm_epsilon", 1e-5), "");
  EXPECT_EQ(log_with("qwen35", "qwen35.expert_feed_forward_length", std::uint64_t{24}), "");
  EXPECT_EQ(log_with("granitehybrid-dense", "granitehybrid.expert_shared_feed_forward_length", std::uint64_t{40}), "");
}

TEST(ModelConfig, PoolingIsReadAndChecked) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  EXPECT_EQ(config_of(model).pooling, std::nullopt);
  for (const auto& [value, pooling] : {std::pair{0, PoolingType::none},
                                       {1, PoolingType::mean},
                                       {2, PoolingType::cls},
                                       {3, PoolingType::last},
                                       {4, PoolingType::rank}}) {
    model.set("llama.pooling_type", static_cast<std::uint64_t>(value));
    const PoolingType expected = pooling;  // Clang 14 captures no binding
    EXPECT_EQ(logged([&] { EXPECT_EQ(config_of(model).pooling, expected); }), "");
  }
  EXPECT_EQ(refusal("qwen3", [](ModelFile& file) { file.set("qwen3.pooling_type", std::uint64_t{5}); }),
            "tiny.gguf: key 'qwen3.pooling_type' is 5, it must be 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank)");
}

TEST(ModelConfig, AttentionMayBeInBothDirections) {
  for (const auto& [name, prefix] : {std::pair{"llama-gqa4", "llama"}, {"qwen2", "qwen2"}, {"gemma3", "gemma3"}}) {
    const std::string key = std::string(prefix) + ".attention.causal";
    ModelFile model = ModelFile::golden(name);
    model.set(key, false);
    EXPECT_TRUE(config_of(model).encoder.is_encoder);
    model.set(key, true);
    EXPECT_EQ(logged([&] { EXPECT_FALSE(config_of(model).encoder.is_encoder); }), "");
  }
}

/// Its scaling is in the factors of pairs and in attn_factor; files of Llama's converter have neither.
TEST(RopeFrequencies, LongropeAddsNothingOfItsOwn) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.set("llama.rope.scaling.type", std::string("longrope"));
  const RopeConfig rope = config_of(model).layer(0).attention.rope;
  EXPECT_EQ(rope.frequencies->inverse_frequency,
            config_of(ModelFile::golden("llama-gqa4")).layer(0).attention.rope.frequencies->inverse_frequency);
  EXPECT_EQ(rope.frequencies->magnitude, 1.0f);
}

TEST(RopeFrequencies, PlainLinearAndFactors) {
  EXPECT_THAT(rope_frequencies(4, 100.0, {}, {}).inverse_frequency, ElementsAre(1.0f, 0.1f));
  const RopeScaling linear{.kind = RopeScaling::Kind::linear, .factor = 4.0};
  EXPECT_THAT(rope_frequencies(4, 100.0, linear, {}).inverse_frequency, ElementsAre(0.25f, 0.025f));
  EXPECT_FLOAT_EQ(rope_frequencies(4, 100.0, linear, {}).magnitude, 1.0f);
  const float factors[] = {1.0f, 8.0f};  // they divide
  EXPECT_THAT(rope_frequencies(4, 100.0, {}, factors).inverse_frequency, ElementsAre(1.0f, 0.0125f));
}

TEST(RopeFrequencies, YarnStretchesSlowPairsOnly) {
  const RopeScaling yarn{.kind = RopeScaling::Kind::yarn, .factor = 8.0, .original_context = 4096.0};
  const RopeFrequencies scaled = rope_frequencies(128, 10000.0, yarn, {});
  const RopeFrequencies plain = rope_frequencies(128, 10000.0, {}, {});
  // Pair 0 makes 652 rotations in 4096 positions, pair 63 less than one. Between them the weight falls linearly from pair 20
  // = floor(64 ln(4096 / 64 pi) / ln 10000) to pair 46 = ceil(64 ln(4096 / 2 pi) / ln 10000).
  EXPECT_EQ(scaled.inverse_frequency[0], plain.inverse_frequency[0]);
  EXPECT_EQ(scaled.inverse_frequency[20], plain.inverse_frequency[20]);
  EXPECT_FLOAT_EQ(scaled.inverse_frequency[33], plain.inverse_frequency[33] * (0.5f + 0.5f / 8.0f));
  EXPECT_FLOAT_EQ(scaled.inverse_frequency[46], plain.inverse_frequency[46] / 8.0f);
  EXPECT_FLOAT_EQ(scaled.inverse_frequency[63], plain.inverse_frequency[63] / 8.0f);
  EXPECT_FLOAT_EQ(scaled.magnitude, 1.0f + 0.1f * std::log(8.0f));
}

TEST(RopeFrequencies, OfMistral3HaveTheMagnitudeThatItsMultiplierLeaves) {
  ModelFile model = ModelFile::golden("mistral3");
  EXPECT_FLOAT_EQ(config_of(model).layer(0).attention.rope.frequencies->magnitude, 1.0f);
  model.set("mistral3.rope.scaling.yarn_log_multiplier", 0.5);
  const double stretch = std::log(8.0);
  EXPECT_FLOAT_EQ(config_of(model).layer(1).attention.rope.frequencies->magnitude,
                  static_cast<float>((1.0 + 0.1 * stretch) / (1.0 + 0.05 * stretch)));
  model.set("mistral3.rope.scaling.factor", 0.0);
  EXPECT_FLOAT_EQ(config_of(model).layer(0).attention.rope.frequencies->magnitude, 1.0f);
  EXPECT_EQ(refusal("mistral3", [](ModelFile& file) { file.set("mistral3.rope.scaling.yarn_log_multiplier", -1.0); }),
            "tiny.gguf: key 'mistral3.rope.scaling.yarn_log_multiplier' is -1, it can't be negative");
  EXPECT_EQ(refusal_of_key("llama.attention.temperature_scale", 0.125),
            "tiny.gguf: key 'llama.attention.temperature_scale' is 0.125, it changes the computation and is not supported");
}

/// rope.scaling.yarn_attn_factor is the whole magnitude: no architecture changes it.
TEST(RopeFrequencies, TheMagnitudeOfTheFileIsTakenAsItIs) {
  for (const auto& [name, prefix] : {std::pair{"llama-yarn", "llama"},
                                     {"olmo3", "olmo2"},
                                     {"mistral3", "mistral3"},
                                     {"gpt-oss", "gpt-oss"},
                                     {"deepseek-v3", "deepseek2"},
                                     {"mistral4", "mistral4"}}) {
    ModelFile model = ModelFile::golden(name);
    for (const double magnitude : {0.75, 1.0, 1.5}) {
      model.set(std::string(prefix) + ".rope.scaling.yarn_attn_factor", magnitude);
      EXPECT_FLOAT_EQ(config_of(model).blocks.back().attention.rope.frequencies->magnitude, static_cast<float>(magnitude))
          << name;
    }
  }
  ModelFile model = ModelFile::golden("llama-yarn");
  model.set("llama.rope.scaling.factor", 0.5);  // a context that shrinks has no magnitude of its own
  EXPECT_FLOAT_EQ(config_of(model).layer(0).attention.rope.frequencies->magnitude, 1.0f);
}

/// The first files of OLMo 3 have the whole magnitude under the other key.
TEST(RopeFrequencies, OfOlmoHaveTheWholeMagnitudeUnderEitherKey) {
  ModelFile model = ModelFile::golden("olmo3");
  model.remove("olmo2.rope.scaling.yarn_attn_factor");
  EXPECT_FLOAT_EQ(config_of(model).blocks.back().attention.rope.frequencies->magnitude, 1.0f + 0.1f * std::log(4.0f));
  model.set("olmo2.rope.scaling.attn_factor", 1.2);
  EXPECT_FLOAT_EQ(config_of(model).blocks.back().attention.rope.frequencies->magnitude, 1.2f);
  EXPECT_FLOAT_EQ(config_of(model).layer(0).attention.rope.frequencies->magnitude, 1.0f);  // a window
  model = ModelFile::golden("llama-yarn");
  model.set("llama.rope.scaling.attn_factor", 1.2);
  EXPECT_FLOAT_EQ(config_of(model).layer(0).attention.rope.frequencies->magnitude, 1.2f * (1.0f + 0.1f * std::log(4.0f)));
}

/// gpt-oss: the ramp of the test above from pair 20.94 to 45.03.
TEST(RopeFrequencies, YarnsRampMayBeginBetweenPairs) {
  const RopeScaling yarn{.kind = RopeScaling::Kind::yarn, .factor = 8.0, .original_context = 4096.0, .whole_pairs = false};
  const RopeFrequencies scaled = rope_frequencies(128, 10000.0, yarn, {});
  const RopeFrequencies plain = rope_frequencies(128, 10000.0, {}, {});
  const double low = 64.0 * std::log(4096.0 / (64.0 * 3.14159265358979)) / std::log(10000.0);
  const double high = 64.0 * std::log(4096.0 / (2.0 * 3.14159265358979)) / std::log(10000.0);
  for (const std::size_t pair : {20, 21, 33, 45, 46}) {
    const double share = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(scaled.inverse_frequency[pair] / plain.inverse_frequency[pair], 1.0 - share + share / 8.0, 1e-6) << pair;
  }
}

}  // namespace
}  // namespace rocmforge::testing::model_config_test
