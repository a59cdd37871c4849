#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/config/model_config.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

// Golden logits are useful only if every error in the model changes them. These tests make such errors one by one.
namespace rocmforge::testing::sensitivity_test {
namespace {

constexpr double allowed = 1e-4;  // what the golden tests allow

/// How far the logits of the golden model `name` are from the reference after `change`.
template <class Change>
double error_after(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  const Golden golden = read_golden(name);
  return relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits);
}

double error_after_key(const std::string& name, const std::string& key, GgufValue value) {
  return error_after(name, [&](ModelFile& model) { model.set(key, std::move(value)); });
}

/// "blk.3.layer_output_scale.weight"
std::string scale_of_last_layer(const ModelFile& model) {
  const OpenModel open(model);
  return "blk." + std::to_string(ModelConfig::from_gguf(open.file).layers - 1) + ".layer_output_scale.weight";
}

class SensitivityTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SensitivityTest, EveryTensorMatters) {
  EXPECT_LE(error_after(GetParam(), [](ModelFile&) {}), allowed);
  const ModelFile golden = ModelFile::golden(GetParam());
  const std::string normed_away = scale_of_last_layer(golden);
  for (const ModelFile::Weight& weight : golden.weights) {
    const double error = error_after(GetParam(), [&](ModelFile& model) {
      if (weight.name == "rope_freqs.weight") {
        model.remove_weight(weight.name);
        return;
      }
      ModelFile::Weight& changed = model.weight(weight.name);
      std::fill_n(changed.floats(), changed.shape.elems(), weight.shape.rank() == 1 ? 1.0f : 0.0f);
    });
    if (weight.name == "rope_factors_short.weight") {
      EXPECT_LE(error, allowed) << "the context is longer than the original one";
      continue;
    }
    if (weight.name == normed_away) {
      EXPECT_LE(error, allowed) << "the final norm takes a factor of all of its input away";
      continue;
    }
    EXPECT_GT(error, 100 * allowed) << weight.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, SensitivityTest, ::testing::ValuesIn(golden_names()), [](const auto& instance) {
  std::string text = instance.param;
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
});

TEST(Sensitivity, RopeBaseAndScalingComeFromTheFile) {
  EXPECT_GT(error_after_key("llama-mqa", "llama.rope.freq_base", 10000.0), 100 * allowed);
  EXPECT_GT(error_after_key("qwen2", "qwen2.rope.freq_base", 10000.0), 100 * allowed);
  EXPECT_GT(error_after_key("llama-linear", "llama.rope.scaling.factor", 1.0), 100 * allowed);
  EXPECT_GT(error_after_key("llama-linear", "llama.rope.scaling.type", std::string("none")), 100 * allowed);
  EXPECT_GT(error_after_key("llama-yarn", "llama.rope.scaling.type", std::string("linear")), 100 * allowed);
  EXPECT_GT(error_after_key("llama-yarn", "llama.rope.scaling.original_context_length", std::uint64_t{128}), 10 * allowed);
  EXPECT_GT(error_after_key("llama-yarn", "llama.rope.scaling.yarn_attn_factor", 0.9), 100 * allowed);
}

TEST(Sensitivity, TheOldNameOfTheScalingFactorIsRead) {
  const double error = error_after("llama-linear", [](ModelFile& model) {
    model.remove("llama.rope.scaling.type");
    model.remove("llama.rope.scaling.factor");
    model.set("llama.rope.scale_linear", 4.0);
  });
  EXPECT_LE(error, allowed);
}

TEST(Sensitivity, NormEpsilonAndWindowComeFromTheFile) {
  EXPECT_GT(error_after_key("llama-gqa4", "llama.attention.layer_norm_rms_epsilon", 1e-5), 10 * allowed);
  EXPECT_GT(error_after_key("mistral-window", "llama.attention.sliding_window", std::uint64_t{0}), 100 * allowed);
  EXPECT_GT(error_after_key("mistral-window", "llama.attention.sliding_window", std::uint64_t{13}), 100 * allowed);
  EXPECT_GT(error_after_key("mistral-window", "llama.attention.sliding_window", std::uint64_t{11}), 100 * allowed);
}

TEST(Sensitivity, FactorsAndSoftCapsComeFromTheFile) {
  for (const char* key : {"embedding_scale", "attention.scale", "residual_scale", "logit_scale"}) {
    EXPECT_GT(error_after_key("granite", std::string("granite.") + key, 1.0), 100 * allowed) << key;
  }
  EXPECT_GT(error_after_key("command-r", "command-r.logit_scale", 0.5), 100 * allowed);
  EXPECT_GT(error_after_key("muse-glimmer", "muse-glimmer.logit_scale", 0.5), 100 * allowed);
  EXPECT_GT(error_after_key("muse-glimmer", "muse-glimmer.final_logit_softcapping", 30.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma2", "gemma2.attn_logit_softcapping", 50.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma2", "gemma2.final_logit_softcapping", 30.0), 100 * allowed);
  EXPECT_GT(error_after_key("starcoder2", "starcoder2.attention.layer_norm_epsilon", 1e-1), 100 * allowed);
  EXPECT_GT(error_after_key("phi3-long", "phi3.rope.scaling.attn_factor", 1.0), 100 * allowed);
}

TEST(Sensitivity, LimitsOfEachLayersSwigluComeFromTheFile) {
  const auto error_with = [](const std::string& key, std::vector<double> limits) {
    return error_after_key("step35", "step35.swiglu_clamp_" + key, GgufArray{GgufType::f32, std::move(limits)});
  };
  EXPECT_LE(error_with("exp", {5.0, 0.0, 0.9, 0.0, 0.6}), allowed) << "a layer without experts";
  EXPECT_GT(error_with("exp", {0.0, 0.0, 0.0, 0.0, 0.6}), 100 * allowed);
  EXPECT_GT(error_with("exp", {0.0, 0.0, 0.9, 0.0, 0.8}), 100 * allowed);
  EXPECT_GT(error_with("shexp", {0.0, 0.0, 0.0, 1.1, 0.7}), 100 * allowed) << "the dense part";
  EXPECT_GT(error_with("shexp", {0.8, 0.0, 0.0, 0.0, 0.7}), 100 * allowed);
  EXPECT_GT(error_with("shexp", {0.8, 0.0, 0.0, 1.1, 0.9}), 100 * allowed);
}

TEST(Sensitivity, WindowsAndRotationsOfSingleLayersComeFromTheFile) {
  for (const auto& [name, prefix] :
       {std::pair{"gemma2", "gemma2"}, {"gemma3", "gemma3"}, {"olmo3", "olmo2"}, {"cohere2", "cohere2"}}) {
    const std::string key = std::string(prefix) + ".attention.sliding_window";
    EXPECT_GT(error_after_key(name, key, std::uint64_t{12}), 100 * allowed) << name;
    EXPECT_GT(error_after_key(name, key + "_pattern", std::uint64_t{1}), 100 * allowed) << name;
  }
  for (const std::uint64_t window : {0, 10, 12}) {
    EXPECT_GT(error_after_key("gpt-oss", "gpt-oss.attention.sliding_window", window), 100 * allowed) << window;
  }
  EXPECT_GT(error_after_key("gpt-oss", "gpt-oss.attention.sliding_window_pattern", std::uint64_t{1}), 100 * allowed);
  EXPECT_GT(error_after_key("gpt-oss", "gpt-oss.rope.scaling.type", std::string("linear")), 100 * allowed);
  EXPECT_GT(error_after_key("gpt-oss", "gpt-oss.rope.scaling.factor", 8.0), 100 * allowed);
  for (const char* key : {"attention.temperature_scale", "rope.scaling.yarn_log_multiplier"}) {
    EXPECT_GT(error_after_key("mistral3", std::string("mistral3.") + key, 0.2), 100 * allowed) << key;
    EXPECT_GT(error_after("mistral3", [&](ModelFile& model) { model.remove(std::string("mistral3.") + key); }),
              100 * allowed);
  }
  EXPECT_GT(error_after_key("mistral3", "mistral3.rope.scaling.original_context_length", std::uint64_t{32}), 100 * allowed);
  EXPECT_GT(error_after_key("mistral4", "mistral4.attention.temperature_scale", 0.2), 100 * allowed);
  EXPECT_GT(error_after_key("mistral4", "mistral4.attention.temperature_length", std::uint64_t{8}), 100 * allowed);
  EXPECT_LE(error_after_key("mistral4", "mistral4.attention.temperature_length", std::uint64_t{16}), allowed);
  for (const std::uint64_t chunk : {8, 32}) {
    EXPECT_GT(error_after_key("llama4", "llama4.attention.sliding_window", chunk), 100 * allowed) << chunk;
  }
  EXPECT_GT(error_after_key("llama4", "llama4.attention.temperature_scale", 0.1), 100 * allowed);
  EXPECT_GT(error_after_key("llama4", "llama4.attention.temperature_length", std::uint64_t{9}), 100 * allowed);
  for (const char* name : {"laguna", "muse-glimmer", "step35"}) {
    EXPECT_GT(error_after_key(name, std::string(name) + ".attention.sliding_window", std::uint64_t{12}), 100 * allowed);
  }
  EXPECT_GT(error_after_key("laguna", "laguna.rope.freq_base_swa", 1000.0), 100 * allowed);
  EXPECT_GT(error_after_key("laguna", "laguna.rope.dimension_count_swa", std::uint64_t{8}), 100 * allowed);
  EXPECT_GT(error_after_key("laguna", "laguna.rope.scaling.type", std::string("none")), 100 * allowed);
  EXPECT_GT(error_after_key("step35", "step35.rope.freq_base_swa", 1000.0), 100 * allowed);
  EXPECT_GT(error_after_key("step35", "step35.rope.freq_base", 300.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma3", "gemma3.rope.freq_base_swa", 100.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma3", "gemma3.rope.freq_base", 10000.0), 100 * allowed);
  EXPECT_GT(error_after_key("olmo3", "olmo2.rope.scaling.type", std::string("none")), 100 * allowed);
}

/// Rows [begin, end) of a matrix as a tensor of its own.
ModelFile::Weight rows_of(const ModelFile::Weight& whole, const std::string& name, std::int64_t begin, std::int64_t end) {
  const std::int64_t row = whole.shape.cols() * std::int64_t{sizeof(float)};
  const auto first = whole.data.begin();
  return {name, Shape{end - begin, whole.shape.cols()}, whole.dtype, {first + begin * row, first + end * row}};
}

TEST(Sensitivity, OneTensorOrSeveralGiveTheSameLogits) {
  const Golden golden = read_golden("phi3");
  const ModelFile joined = ModelFile::golden("phi3");
  ModelFile parted = joined;
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string prefix = layer;
    const ModelFile::Weight qkv = parted.weight(prefix + "attn_qkv.weight");
    const ModelFile::Weight up = parted.weight(prefix + "ffn_up.weight");
    parted.remove_weight(qkv.name);
    parted.remove_weight(up.name);
    const std::int64_t kv = qkv.shape.rows() / 4;  // half as many heads of K and of V as of Q
    parted.weights.push_back(rows_of(qkv, prefix + "attn_q.weight", 0, 2 * kv));
    parted.weights.push_back(rows_of(qkv, prefix + "attn_k.weight", 2 * kv, 3 * kv));
    parted.weights.push_back(rows_of(qkv, prefix + "attn_v.weight", 3 * kv, 4 * kv));
    parted.weights.push_back(rows_of(up, prefix + "ffn_gate.weight", 0, up.shape.rows() / 2));
    parted.weights.push_back(rows_of(up, prefix + "ffn_up.weight", up.shape.rows() / 2, up.shape.rows()));
  }
  const OpenModel open_joined(joined);
  const OpenModel open_parted(parted);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    // With two tensors the activation may be fused into the product, which then rounds once less.
    EXPECT_LE(relative_error(Runner(open_joined.file, set).whole(golden.tokens),
                             Runner(open_parted.file, set).whole(golden.tokens)),
              is_gpu(set) ? logit_tolerance(set) : 1e-6)
        << set;
  }
}

TEST(Sensitivity, PairsOfHalvesAndNeighboursAreToldApart) {
  const auto rename = [](ModelFile& model, const std::string& from, const std::string& to) {
    for (auto& [key, value] : model.metadata) {
      if (key.starts_with(from + ".")) {
        key = to + key.substr(from.size());
      }
    }
    model.set("general.architecture", to);
  };
  EXPECT_GT(error_after("qwen2", [&](ModelFile& model) { rename(model, "qwen2", "llama"); }), 100 * allowed);
  EXPECT_GT(error_after("llama-linear",
                        [&](ModelFile& model) {
                          rename(model, "llama", "qwen2");
                          for (const char* part : {"q", "k", "v"}) {
                            for (const char* layer : {"blk.0.attn_", "blk.1.attn_"}) {
                              model.add_vector(std::string(layer) + part + ".bias", std::vector<float>(64, 0.0f));
                            }
                          }
                        }),
            100 * allowed);
}

TEST(Sensitivity, GateAndUpAreNotInterchangeable) {
  EXPECT_GT(error_after("llama-gqa4",
                        [](ModelFile& model) {
                          for (const char* layer : {"blk.0.", "blk.1."}) {
                            std::swap(model.weight(std::string(layer) + "ffn_gate.weight").data,
                                      model.weight(std::string(layer) + "ffn_up.weight").data);
                          }
                        }),
            100 * allowed);
}

TEST(Sensitivity, AHeadThatIsAbsentIsTheEmbedding) {
  const Golden golden = read_golden("llama-tied");
  ModelFile model = ModelFile::golden("llama-tied");
  ModelFile::Weight head = model.weight("token_embd.weight");
  head.name = "output.weight";
  model.weights.push_back(head);
  const OpenModel spelled_out(model);
  const GgufFile tied{golden_path("llama-tied")};
  EXPECT_EQ(Runner(tied, "reference").whole(golden.tokens), Runner(spelled_out.file, "reference").whole(golden.tokens));
}

TEST(Sensitivity, BiasesInTheFileAreUsedByEveryArchitecture) {
  EXPECT_GT(error_after("llama-gqa4",
                        [](ModelFile& model) { model.add_vector("blk.1.attn_output.bias", std::vector<float>(64, 0.5f)); }),
            100 * allowed);
}

/// A model with its weights in other formats, against the same numbers in F32.
TEST(WeightFormats, MayDifferWithinAGroupAndGiveTheDequantisedModel) {
  const Golden golden = read_golden("llama-mqa");
  ModelFile mixed = ModelFile::golden("llama-mqa");
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string prefix = layer;
    mixed.convert(prefix + "attn_norm.weight", DType::bf16);
    mixed.convert(prefix + "attn_q.weight", DType::f16);
    mixed.convert(prefix + "attn_v.weight", DType::q8_0);
    mixed.convert(prefix + "attn_output.weight", DType::q8_0);
    mixed.convert(prefix + "ffn_up.weight", DType::bf16);
    mixed.convert(prefix + "ffn_down.weight", DType::q8_0);
  }
  mixed.convert("output_norm.weight", DType::f16);
  mixed.convert("token_embd.weight", DType::q8_0);
  mixed.remove_weight("output.weight");  // tied: one tensor read by two kernels

  const OpenModel open_mixed(mixed);
  const OpenModel open_plain(mixed.in_f32());
  const std::vector<float> expected = Runner(open_plain.file, "reference").whole(golden.tokens);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    // The scalar reference multiplies by the dequantised weight; kernels may round activations to 8 bits.
    EXPECT_LE(relative_error(Runner(open_mixed.file, set).whole(golden.tokens), expected), set == "reference" ? 1e-5 : 3e-2)
        << set;
  }
}

}  // namespace
}  // namespace rocmforge::testing::sensitivity_test
