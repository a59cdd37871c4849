// Files with experts: the forms of their tensors, the keys of their choice, and the errors for damaged files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/register_all.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "tensor/quant/dequantize.h"
#include "tensor/random_rows.h"

namespace rocmforge::testing::experts_test {
namespace {

using ::testing::HasSubstr;

constexpr double allowed = 1e-4;  // what the golden tests allow

std::vector<float> logits_of(const ModelFile& model, const std::string& golden, const std::string& set = "reference") {
  const OpenModel open(model);
  return Runner(open.file, set).whole(read_golden(golden).tokens);
}

template <class Change>
double error_after(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  return relative_error(logits_of(model, name), read_golden(name).logits);
}

double error_after_key(const std::string& name, const std::string& key, GgufValue value) {
  return error_after(name, [&](ModelFile& model) { model.set(key, std::move(value)); });
}

std::string refusal_of_key(const std::string& name, const std::string& key, GgufValue value) {
  return refusal(name, [&](ModelFile& model) { model.set(key, std::move(value)); });
}

/// Splits a stacked tensor into one tensor for each expert.
void part(ModelFile& model, const std::string& block, const std::string& name) {
  const ModelFile::Weight stacked = model.weight(block + name + "_exps.weight");
  model.remove_weight(stacked.name);
  const std::int64_t experts = stacked.shape[0];
  const std::int64_t bytes = std::ssize(stacked.data) / experts;
  for (std::int64_t e = 0; e < experts; ++e) {
    const auto first = stacked.data.begin() + e * bytes;
    model.weights.push_back({block + name + "." + std::to_string(e) + ".weight",
                             Shape{stacked.shape[1], stacked.shape[2]},
                             stacked.dtype,
                             {first, first + bytes}});
  }
}

/// Gate and up in one tensor: of each expert the rows of gate, then those of up.
void join(ModelFile& model, const std::string& block) {
  const ModelFile::Weight gate = model.weight(block + "ffn_gate_exps.weight");
  const ModelFile::Weight up = model.weight(block + "ffn_up_exps.weight");
  ModelFile::Weight joined{
      block + "ffn_gate_up_exps.weight", {gate.shape[0], 2 * gate.shape[1], gate.shape[2]}, gate.dtype, {}};
  const std::int64_t bytes = std::ssize(gate.data) / gate.shape[0];
  for (std::int64_t e = 0; e < gate.shape[0]; ++e) {
    for (const ModelFile::Weight* half : {&gate, &up}) {
      const auto first = half->data.begin() + e * bytes;
      joined.data.insert(joined.data.end(), first, first + bytes);
    }
  }
  model.remove_weight(gate.name);
  model.remove_weight(up.name);
  model.weights.push_back(std::move(joined));
}

TEST(Experts, StackedJoinedOrOneByOneTheyGiveTheSameLogits) {
  const ModelFile stacked = ModelFile::golden("mixtral");
  ModelFile joined = stacked;
  ModelFile parted = stacked;
  for (const char* block : {"blk.0.", "blk.1."}) {
    join(joined, block);
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      part(parted, block, name);
    }
  }
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    const std::vector<float> expected = logits_of(stacked, "mixtral", set);
    EXPECT_EQ(logits_of(joined, "mixtral", set), expected) << set << ", joined";
    EXPECT_EQ(logits_of(parted, "mixtral", set), expected) << set << ", one by one";
  }
}

TEST(Experts, TheGateOfWhatEveryTokenTakesMayBeAMatrixOfOneRow) {
  EXPECT_LE(error_after("qwen2moe",
                        [](ModelFile& model) {
                          model.weight("blk.0.ffn_gate_inp_shexp.weight").shape = {1, 32};
                        }),
            allowed);
}

TEST(Experts, TheirWidthIsThatOfTheTensorsWithoutAKey) {
  int without = 0;
  for (const std::string& name : golden_names()) {
    const ModelFile golden = ModelFile::golden(name);
    const auto has = [&](const std::string& key) {
      return std::ranges::any_of(golden.metadata, [&](const auto& pair) { return pair.first.ends_with(key); });
    };
    if (has(".expert_feed_forward_length") && has(".feed_forward_length")) {
      const std::string prefix = OpenModel(golden).file.string("general.architecture");
      EXPECT_LE(error_after(name, [&](ModelFile& model) { model.remove(prefix + ".expert_feed_forward_length"); }), allowed)
          << name;
      ++without;
    }
  }
  EXPECT_GE(without, 10);
}

/// DeepSeek V3's bias belongs to sigmoids, but files without the key are read as DeepSeek V2's, as elsewhere.
TEST(Experts, OfDeepseekAreChosenBySoftmaxWithoutAKey) {
  const auto logits = [](auto&& change) {
    ModelFile model = ModelFile::golden("deepseek-v3");
    change(model);
    return logits_of(model, "deepseek-v3", "reference");
  };
  EXPECT_EQ(logits([](ModelFile& model) { model.remove("deepseek2.expert_gating_func"); }),
            logits([](ModelFile& model) { model.set("deepseek2.expert_gating_func", std::uint64_t{1}); }));
}

TEST(Experts, KeysSayHowTheyAreChosen) {
  EXPECT_LE(error_after("dots1", [](ModelFile&) {}), allowed);
  EXPECT_GT(error_after_key("dots1", "dots1.expert_group_used_count", std::uint64_t{4}), 100 * allowed);
  EXPECT_GT(error_after_key("dots1", "dots1.expert_group_count", std::uint64_t{1}), 100 * allowed);
  EXPECT_GT(error_after_key("dots1", "dots1.expert_weights_scale", 1.0), 100 * allowed);
  EXPECT_GT(error_after_key("dots1", "dots1.expert_weights_norm", false), 100 * allowed);
  EXPECT_GT(error_after_key("dots1", "dots1.expert_gating_func", std::uint64_t{1}), 100 * allowed);
  EXPECT_GT(error_after_key("qwen3moe", "qwen3moe.expert_used_count", std::uint64_t{2}), 100 * allowed);
  EXPECT_GT(error_after("dots1", [](ModelFile& model) { model.remove_weight("blk.1.exp_probs_b.bias"); }), 100 * allowed);
}

TEST(Experts, ScoresNormalisedOrOfTheChosenAloneAreTheSame) {
  EXPECT_LE(error_after_key("granitemoe", "granitemoe.expert_gating_func", std::uint64_t{3}), allowed);
}

TEST(Experts, LatentsHaveTheSizeThatTheFileSays) {
  EXPECT_EQ(refusal_of_key("nemotron_h_moe-latent", "nemotron_h_moe.moe_latent_size", std::uint64_t{16}),
            "tiny.gguf: tensor 'blk.1.ffn_up_exps.weight' is [6, 24, 20], expected [6, 24, 16]");
  EXPECT_EQ(refusal("nemotron_h_moe-latent", [](ModelFile& model) { model.remove_weight("blk.1.ffn_latent_up.weight"); }),
            "tiny.gguf: tensor 'blk.1.ffn_latent_up.weight' is missing");
}

TEST(Experts, BlocksThatPredictFurtherTokensAreLeftOut) {
  EXPECT_LE(error_after("glm4moe",
                        [](ModelFile& model) {
                          model.set("glm4moe.block_count", std::uint64_t{3});
                          model.set("glm4moe.nextn_predict_layers", std::uint64_t{1});
                        }),
            allowed);
  EXPECT_EQ(refusal_of_key("glm4moe", "glm4moe.nextn_predict_layers", std::uint64_t{2}),
            "tiny.gguf: key 'glm4moe.nextn_predict_layers' is 2 of 2 blocks");
}

TEST(Experts, ImpossibleNumbersAreRefusedByKey) {
  EXPECT_EQ(refusal_of_key("qwen3moe", "qwen3moe.expert_count", std::uint64_t{0}),
            "tiny.gguf: key 'qwen3moe.expert_count' is 0, it must be in [1, 2^31)");
  EXPECT_EQ(refusal("qwen3moe", [](ModelFile& model) { model.remove("qwen3moe.expert_count"); }),
            "tiny.gguf: key 'qwen3moe.expert_count' is missing");
  EXPECT_EQ(refusal("mixtral", [](ModelFile& model) { model.remove("llama.expert_used_count"); }),
            "tiny.gguf: key 'llama.expert_used_count' is missing");
  EXPECT_EQ(refusal_of_key("qwen3moe", "qwen3moe.expert_used_count", std::uint64_t{9}),
            "tiny.gguf: key 'qwen3moe.expert_used_count' is 9, but there are 8 experts");
  EXPECT_EQ(refusal_of_key("qwen3moe", "qwen3moe.expert_count", std::uint64_t{2000000000}),
            "tiny.gguf: tensor 'blk.0.ffn_gate_inp.weight' is [8, 32], expected [2000000000, 32]");
  EXPECT_EQ(refusal_of_key("qwen3moe", "qwen3moe.expert_gating_func", std::uint64_t{4}),
            "tiny.gguf: key 'qwen3moe.expert_gating_func' is 4, of the functions only 1, 2 and 3 are supported");
  EXPECT_EQ(refusal_of_key("dots1", "dots1.expert_group_count", std::uint64_t{3}),
            "tiny.gguf: key 'dots1.expert_group_count' is 3, which does not divide the 8 experts");
  EXPECT_EQ(refusal_of_key("dots1", "dots1.expert_group_used_count", std::uint64_t{1}),
            "tiny.gguf: key 'dots1.expert_group_used_count' is 1: of 4 groups of 2 experts 3 are to be used");
  EXPECT_EQ(refusal_of_key("qwen3", "qwen3.expert_count", std::uint64_t{8}),
            "tiny.gguf: key 'qwen3.expert_count' is 8, experts are not supported in this architecture");
  EXPECT_EQ(refusal_of_key("ernie4_5-moe", "ernie4_5-moe.expert_shared_count", std::uint64_t{2000000000}),
            "tiny.gguf: key 'ernie4_5-moe.expert_shared_count' is 2000000000, with 24 of each");
}

/// Without a joined tensor, Q, K and V are looked for separately.
std::string looked_for(const std::string& tensor) {
  const std::size_t joined = tensor.find("attn_qkv.weight");
  return joined == std::string::npos ? tensor : tensor.substr(0, joined) + "attn_q.weight";
}

TEST(Experts, EveryMissingOrShortTensorIsNamed) {
  for (const char* name : {"qwen2moe", "dots1", "gpt-oss", "bailingmoe2"}) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      if (weight.name == "output.weight" || weight.name.ends_with("exp_probs_b.bias")) {
        continue;  // optional tensors
      }
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove_weight(weight.name); }),
                "tiny.gguf: tensor '" + looked_for(weight.name) + "' is missing");
    }
  }
  const std::string text = refusal("qwen3moe", [](ModelFile& model) {
    ModelFile::Weight& short_one = model.weight("blk.1.ffn_down_exps.weight");
    short_one.data.resize(short_one.data.size() / 8 * 7);
    short_one.shape = {7, short_one.shape[1], short_one.shape[2]};
  });
  EXPECT_EQ(text, "tiny.gguf: tensor 'blk.1.ffn_down_exps.weight' is [7, 32, 24], expected [8, 32, 24]");
  const std::string bias = refusal("dots1", [](ModelFile& model) {
    model.remove_weight("blk.1.exp_probs_b.bias");
    model.add_vector("blk.1.exp_probs_b.bias", std::vector<float>(7, 0.0f));
  });
  EXPECT_EQ(bias, "tiny.gguf: tensor 'blk.1.exp_probs_b.bias' is [7], expected [8]");
}

TEST(Experts, OneByOneTheyAreAllThereAndOfOneFormat) {
  const auto parted = [](const auto& change) {
    return refusal("mixtral", [&](ModelFile& model) {
      part(model, "blk.1.", "ffn_up");
      change(model);
    });
  };
  EXPECT_EQ(parted([](ModelFile& model) { model.remove_weight("blk.1.ffn_up.2.weight"); }),
            "tiny.gguf: tensor 'blk.1.ffn_up.2.weight' is missing");
  EXPECT_EQ(parted([](ModelFile& model) { model.convert("blk.1.ffn_up.3.weight", DType::q8_0); }),
            "tiny.gguf: tensor 'blk.1.ffn_up.3.weight' is Q8_0, that of expert 0 is F32");
}

/// Adds rows as the file stores those of all experts.
void add_rows(ModelFile& model, const std::string& name, std::int64_t experts, const std::vector<float>& values) {
  model.add_vector(name, values);
  model.weights.back().shape = {experts, std::ssize(values) / experts};
}

TEST(Experts, ABiasIsUsedWhereItIs) {
  const auto with_bias = [](const char* name, std::int64_t width) {
    return error_after("qwen3moe", [&](ModelFile& model) {
      add_rows(model, name, 8, std::vector<float>(static_cast<std::size_t>(8 * width), 0.3f));
    });
  };
  EXPECT_GT(with_bias("blk.0.ffn_gate_exps.bias", 24), 100 * allowed);
  EXPECT_GT(with_bias("blk.0.ffn_up_exps.bias", 24), 100 * allowed);
  EXPECT_GT(with_bias("blk.1.ffn_down_exps.bias", 32), 100 * allowed);
  EXPECT_EQ(refusal("qwen3moe",
                    [](ModelFile& model) { model.add_vector("blk.0.ffn_up_exps.bias", std::vector<float>(24, 1.0f)); }),
            "tiny.gguf: tensor 'blk.0.ffn_up_exps.bias' is [24], expected [8, 24]");
}

/// If gate and up are one tensor, so are their biases.
TEST(Experts, BiasesAndJoinedRowsGiveTheSameLogits) {
  const ModelFile stacked = ModelFile::golden("gpt-oss");
  ModelFile joined = stacked;
  for (const std::string block : {"blk.0.", "blk.1.", "blk.2."}) {
    join(joined, block);
    ModelFile::Weight gate = joined.weight(block + "ffn_gate_exps.bias");
    ModelFile::Weight up = joined.weight(block + "ffn_up_exps.bias");
    const std::int64_t experts = gate.shape[0];
    const std::int64_t width = gate.shape[1];
    std::vector<float> both;
    for (std::int64_t e = 0; e < experts; ++e) {
      both.insert(both.end(), gate.floats() + e * width, gate.floats() + (e + 1) * width);
      both.insert(both.end(), up.floats() + e * width, up.floats() + (e + 1) * width);
    }
    joined.remove_weight(gate.name);
    joined.remove_weight(up.name);
    add_rows(joined, block + "ffn_gate_up_exps.bias", experts, both);
  }
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    EXPECT_EQ(logits_of(joined, "gpt-oss", set), logits_of(stacked, "gpt-oss", set)) << set;
  }
}

TEST(Experts, WhatWouldChangeTheirProductsIsRefused) {
  EXPECT_EQ(refusal("qwen3moe",
                    [](ModelFile& model) { model.add_vector("blk.1.ffn_down_exps.scale", std::vector<float>(8, 1.0f)); }),
            "tiny.gguf: tensor 'blk.1.ffn_down_exps.scale' scales 'blk.1.ffn_down_exps.weight', which only matrix products "
            "with NVFP4 weights do");
  EXPECT_EQ(refusal("mixtral",
                    [](ModelFile& model) {
                      part(model, "blk.1.", "ffn_up");
                      model.add_vector("blk.1.ffn_up.2.bias", std::vector<float>(24, 1.0f));
                    }),
            "tiny.gguf: tensor 'blk.1.ffn_up.2.bias' changes the computation and is not supported");
  EXPECT_EQ(refusal("mixtral",
                    [](ModelFile& model) {
                      join(model, "blk.0.");
                      add_rows(model, "blk.0.ffn_up_exps.bias", 4, std::vector<float>(96, 1.0f));
                    }),
            "tiny.gguf: tensor 'blk.0.ffn_up_exps.bias' changes the computation and is not supported");
}

/// Random NVFP4 blocks whose experts each have a scale, against the same numbers in F32.
TEST(Experts, NvFp4HasAScaleForEachExpert) {
  constexpr std::int64_t experts = 4;
  constexpr std::int64_t width = 64;
  constexpr std::int64_t hidden = 32;
  ModelFile quantised = ModelFile::golden("mixtral");
  quantised.set("llama.expert_feed_forward_length", std::uint64_t{width});
  quantised.set("llama.feed_forward_length", std::uint64_t{width});
  Random random(7);
  for (const std::string block : {"blk.0.", "blk.1."}) {
    for (const char* place : {"ffn_gate_exps", "ffn_up_exps"}) {
      ModelFile::Weight& weight = quantised.weight(block + place + ".weight");
      const std::vector<float> values = random.normals(experts * width * hidden, 0.3f);
      weight.shape = {experts, width, hidden};
      weight.data.resize(values.size() * sizeof(float));
      std::copy(values.begin(), values.end(), weight.floats());
    }
    ModelFile::Weight& down = quantised.weight(block + "ffn_down_exps.weight");
    down.shape = {experts, hidden, width};
    down.dtype = DType::nvfp4;
    down.data = random_rows(DType::nvfp4, experts * hidden, width, random);
  }
  ModelFile plain = quantised;
  for (const std::string block : {"blk.0.", "blk.1."}) {
    const std::string name = block + "ffn_down_exps";
    const std::vector<float> scales = random.uniforms(experts, 0.2f, 2.0f);
    ModelFile::Weight& down = plain.weight(name + ".weight");
    std::vector<float> values(static_cast<std::size_t>(experts * hidden * width));
    dequantize_row(down.dtype, down.data.data(), values.data(), std::ssize(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= scales[i / static_cast<std::size_t>(hidden * width)];
    }
    down.dtype = DType::f32;
    down.data.resize(values.size() * sizeof(float));
    std::copy(values.begin(), values.end(), down.floats());
    quantised.add_vector(name + ".scale", scales);
  }
  const std::vector<float> expected = logits_of(plain, "mixtral");
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    EXPECT_LE(relative_error(logits_of(quantised, "mixtral", set), expected), set == "reference" ? 1e-5 : 3e-2) << set;
  }
  quantised.weight("blk.1.ffn_down_exps.scale").floats()[2] = std::numeric_limits<float>::infinity();
  const OpenModel open(quantised);
  EXPECT_EQ(error_text([&] { Runner(open.file, "reference"); }),
            "tiny.gguf: tensor 'blk.1.ffn_down_exps.scale' is inf, the scale of a weight must be a finite number");
}

/// Formats of gate, up and down may differ; each product is that of the dequantised weight.
TEST(Experts, OfOtherFormatsGiveTheDequantisedModel) {
  ModelFile mixed = ModelFile::golden("mixtral");
  for (const char* block : {"blk.0.", "blk.1."}) {
    const std::string prefix = block;
    mixed.convert(prefix + "ffn_gate_exps.weight", DType::q8_0);
    mixed.convert(prefix + "ffn_up_exps.weight", is_gpu(kernel_sets()[0]) ? DType::q8_0 : DType::f16);
    mixed.convert(prefix + "ffn_down_exps.weight", DType::bf16);
    mixed.convert(prefix + "ffn_gate_inp.weight", DType::f16);
  }
  const std::vector<float> expected = logits_of(mixed.in_f32(), "mixtral");
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    EXPECT_LE(relative_error(logits_of(mixed, "mixtral", set), expected), set == "reference" ? 1e-5 : 3e-2) << set;
  }
}

TEST(Experts, AStepReadsThoseThatATokenUses) {
  const ModelFile model = ModelFile::golden("qwen3moe");
  std::size_t read = 0;
  for (const ModelFile::Weight& weight : model.weights) {
    if (weight.name != "token_embd.weight") {
      read += weight.name.ends_with("_exps.weight") ? weight.data.size() / 8 * 3 : weight.data.size();
    }
  }
  const OpenModel open(model);
  Runner runner(open.file, "reference");
  EXPECT_EQ(runner.model().bytes_per_token(), read);
  std::vector<std::string> operations;
  for (const PlannedOperation& line : runner.model().plan()) {
    operations.push_back(line.operation + " " + line.spec);
  }
  EXPECT_THAT(operations, ::testing::IsSupersetOf({"route_tokens softmax 3 of 8 normalised",
                                                   "blk.1.ffn_up_exps F32 [8, 24, 32] 3 used + F32 [8, 24, 32] 3 used",
                                                   "blk.1.ffn_down_exps F32 [8, 32, 24] 3 used"}));
}

/// Needs no GPU: a plan touches no device.
TEST(Experts, OnAGpuGateAndUpHaveOneFormat) {
  KernelRegistry registry;
  register_all_kernels(registry);
  DeviceInfo gpu;
  gpu.kind = DeviceKind::hip;
  gpu.architecture = "gfx1100";
  gpu.wave_size = 32;
  gpu.shared_memory_bytes = 65536;
  gpu.compute_units = 48;
  const auto plan = [&](const ModelFile& model) {
    const OpenModel open(model);
    return Model::plan(open.file, registry, gpu, 1, f32_options())->plan();
  };
  ModelFile model = ModelFile::golden("qwen2moe");
  model.convert("blk.0.ffn_gate_exps.weight", DType::q8_0);
  EXPECT_EQ(error_text([&] { plan(model); }),
            "tiny.gguf: tensor 'blk.0.ffn_up_exps.weight' is F32, which does not run together with the format of "
            "'blk.0.ffn_gate_exps.weight' here");
  model.convert("blk.0.ffn_up_exps.weight", DType::q8_0);
  int on_gpu = 0;
  for (const PlannedOperation& line : plan(model)) {
    const bool served = line.kernel == "gpu" || line.kernel == "amd";
    on_gpu += served && (line.operation == "route_tokens" || line.operation.ends_with("exps")) ? 1 : 0;
  }
  EXPECT_EQ(on_gpu, 6) << "gate and up, and down, of two layers; the choice, and the gate of what every token takes";
}

}  // namespace
}  // namespace rocmforge::testing::experts_test
