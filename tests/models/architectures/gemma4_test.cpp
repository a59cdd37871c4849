// Gemma 4: layers that share K and V, the keys and tensors for differences between layers, and the errors for damaged files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::gemma4_test {
namespace {

using ::testing::HasSubstr;

constexpr double allowed = 1e-4;  // what the golden tests allow

template <class Change>
double error_after(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  const Golden golden = read_golden(name);
  return relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits);
}

double error_after_key(const std::string& name, const std::string& key, GgufValue value) {
  return error_after(name, [&](ModelFile& model) { model.set("gemma4." + key, std::move(value)); });
}

std::string refusal_of_key(const std::string& name, const std::string& key, GgufValue value) {
  return refusal(name, [&](ModelFile& model) { model.set("gemma4." + key, std::move(value)); });
}

std::unique_ptr<Model> planned(const GgufFile& file, const KernelRegistry& registry) {
  return Model::plan(file, registry, cpu_device_info(), 1, f32_options());
}

TEST(Gemma4, LayersThatShareKeysOwnNoPlane) {
  const OpenModel open(ModelFile::golden("gemma4-e"));
  KernelRegistry registry;
  register_all_kernels(registry);
  const auto model = planned(open.file, registry);
  std::vector<std::int32_t> keys_of;
  for (const LayerConfig& layer : model->config().blocks) {
    keys_of.push_back(layer.attention.keys_of);
  }
  EXPECT_THAT(keys_of, ::testing::ElementsAre(-1, -1, -1, 1, 2));
  const KvGroups& groups = model->kv_groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].planes.size(), 1u);  // of the full layers
  EXPECT_EQ(groups[1].planes.size(), 2u);
  EXPECT_EQ(groups[0].planes[0].head_dim, 32);
  EXPECT_EQ(groups[1].planes[0].head_dim, 16);
}

/// A step without wanted results does not compute what no later step reads. Later steps give the same logits.
TEST(Gemma4, AStepWithoutResultsEndsWithTheLastLayerThatKeepsKeys) {
  const Golden golden = read_golden("gemma4-e");
  const OpenModel open(ModelFile::golden("gemma4-e"));
  const std::vector<std::int32_t> first(golden.tokens.begin(), golden.tokens.begin() + 20);
  const Piece rest{{golden.tokens.begin() + 20, golden.tokens.end()}, 20, {0, 1, 2}};
  Runner whole(open.file, "reference");
  whole.step({{first, 0, {0, 1, 2}}});
  Runner parts(open.file, "reference");
  parts.rows(first, {});
  EXPECT_EQ(parts.step({rest}), whole.step({rest}));
}

TEST(Gemma4, KeysOfTheFileCount) {
  EXPECT_LE(error_after("gemma4", [](ModelFile&) {}), allowed);
  EXPECT_GT(error_after_key("gemma4", "attention.sliding_window", std::uint64_t{12}), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4", "rope.freq_base_swa", 300.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4", "rope.freq_base", 300.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4", "rope.dimension_count_swa", std::uint64_t{8}), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4", "final_logit_softcapping", 30.0), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4", "attention.scale", 0.25), 100 * allowed);
  EXPECT_GT(error_after_key("gemma4-moe", "expert_used_count", std::uint64_t{1}), 100 * allowed);
}

TEST(Gemma4, TensorsThatMayBeAbsent) {
  const auto without_scales = [](ModelFile& model) {
    for (const char* layer : {"blk.0.", "blk.1.", "blk.2.", "blk.3."}) {
      model.remove_weight(std::string(layer) + "layer_output_scale.weight");
    }
  };
  const auto with_ones = [](ModelFile& model) {
    for (const char* layer : {"blk.0.", "blk.1.", "blk.2.", "blk.3."}) {
      *model.weight(std::string(layer) + "layer_output_scale.weight").floats() = 1.0f;
    }
  };
  EXPECT_DOUBLE_EQ(error_after("gemma4", without_scales), error_after("gemma4", with_ones));
  // A V tensor for a layer without a window, equal to K's, which gives the same logits.
  const auto with_values = [](ModelFile& model) {
    ModelFile::Weight values = model.weight("blk.1.attn_k.weight");
    values.name = "blk.1.attn_v.weight";
    model.weights.push_back(values);
  };
  EXPECT_LE(error_after("gemma4", with_values), allowed);
  EXPECT_THAT(refusal("gemma4", [](ModelFile& model) { model.remove_weight("blk.0.attn_v.weight"); }),
              HasSubstr("blk.0.attn_v.weight"));
}

/// Files may have K and V tensors for layers that read K and V of other layers.
TEST(Gemma4, KeysOfASharingLayerAreNotRead) {
  const auto with_keys = [](ModelFile& model) {
    for (const char* part : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
      ModelFile::Weight own = model.weight(std::string("blk.2.") + part);
      own.name = std::string("blk.4.") + part;
      model.weights.push_back(own);
    }
  };
  EXPECT_LE(error_after("gemma4-e", with_keys), allowed);
}

TEST(Gemma4, DamagedKeysAreNamed) {
  const std::uint64_t huge = 1u << 31;
  const std::tuple<const char*, const char*, GgufValue, const char*> cases[] = {
      {"gemma4-e", "attention.shared_kv_layers", std::uint64_t{5}, "attention.shared_kv_layers' is 5 of 5 layers"},
      {"gemma4-e", "attention.shared_kv_layers", huge, "attention.shared_kv_layers' is 2147483648"},
      {"gemma4-e", "attention.shared_kv_layers", std::uint64_t{3}, "no layer before these has the window of layer 2"},
      {"gemma4", "attention.key_length_swa", std::uint64_t{0}, "attention.key_length_swa' is 0"},
      {"gemma4", "attention.key_length_swa", std::uint64_t{1u << 30}, "attention.key_length_swa' is 1073741824"},
      {"gemma4", "attention.key_length_swa", std::uint64_t{24}, "attention.value_length_swa' is 16, the key length is 24"},
      {"gemma4", "rope.dimension_count_swa", std::uint64_t{7}, "rope.dimension_count_swa' is 7, it must be even"},
      {"gemma4", "rope.dimension_count_swa", std::uint64_t{18}, "at most the head length 16"},
      {"gemma4", "rope.freq_base_swa", 0.5, "rope.freq_base_swa' is 0.5, it must be above 1"},
      {"gemma4", "attention.head_count_kv", std::uint64_t{3}, "attention.head_count_kv' is 3, which does not divide"},
      {"gemma4-e", "embedding_length_per_layer_input", huge, "embedding_length_per_layer_input' is 2147483648"},
      {"gemma4-e", "embedding_length_per_layer_input", std::uint64_t{13}, "per_layer_token_embd.weight"},
      {"gemma4-e", "embedding_length_per_layer_input", std::uint64_t{(1u << 31) - 1}, "per_layer_token_embd.weight"},
      {"gemma4-moe", "expert_used_count", std::uint64_t{7}, "expert_used_count' is 7, but there are 6 experts"},
      {"gemma4-moe", "expert_count", std::uint64_t{8}, "ffn_gate_inp.weight"},
      {"gemma4-moe", "expert_feed_forward_length", std::uint64_t{32}, "ffn_gate_up_exps.weight"},
      {"gemma4", "expert_count", std::uint64_t{4}, "expert_used_count"},
  };
  for (const auto& [name, key, value, words] : cases) {
    EXPECT_THAT(refusal_of_key(name, key, value), HasSubstr(words)) << name << " " << key;
  }
  for (const char* key : {"rope.freq_base_swa", "attention.sliding_window_pattern"}) {
    EXPECT_THAT(refusal("gemma4", [&](ModelFile& model) { model.remove(std::string("gemma4.") + key); }), HasSubstr(key));
  }
}

TEST(Gemma4, DamagedTensorsAreNamed) {
  const std::pair<const char*, const char*> tensors[] = {{"gemma4", "blk.0.layer_output_scale.weight"},
                                                         {"gemma4", "blk.1.attn_k.weight"},
                                                         {"gemma4", "blk.0.attn_v.weight"},
                                                         {"gemma4", "blk.1.attn_q_norm.weight"},
                                                         {"gemma4", "rope_freqs.weight"},
                                                         {"gemma4-moe", "blk.0.ffn_gate_inp.scale"},
                                                         {"gemma4-moe", "blk.0.ffn_down_exps.scale"},
                                                         {"gemma4-moe", "blk.0.pre_ffw_norm_2.weight"},
                                                         {"gemma4-moe", "blk.0.ffn_gate_up_exps.weight"},
                                                         {"gemma4-e", "per_layer_token_embd.weight"},
                                                         {"gemma4-e", "per_layer_model_proj.weight"},
                                                         {"gemma4-e", "per_layer_proj_norm.weight"},
                                                         {"gemma4-e", "blk.3.inp_gate.weight"},
                                                         {"gemma4-e", "blk.3.proj.weight"},
                                                         {"gemma4-e", "blk.3.post_norm.weight"},
                                                         {"gemma4-e", "blk.4.ffn_up.weight"}};
  for (const auto& [name, tensor] : tensors) {
    const std::string damaged = refusal(name, [&, tensor = tensor](ModelFile& model) {
      ModelFile::Weight& weight = model.weight(tensor);
      weight.shape = Shape{weight.shape.elems() + 1};
      weight.data.resize(weight.data.size() + sizeof(float));
    });
    EXPECT_THAT(damaged, HasSubstr(tensor));
  }
  for (const char* tensor : {"blk.0.layer_output_scale.weight", "blk.0.ffn_down_exps.scale"}) {
    const std::string not_finite = refusal(
        "gemma4-moe", [&](ModelFile& model) { *model.weight(tensor).floats() = std::numeric_limits<float>::quiet_NaN(); });
    EXPECT_THAT(not_finite, ::testing::AllOf(HasSubstr(tensor), HasSubstr("finite"))) << tensor;
  }
}

}  // namespace
}  // namespace rocmforge::testing::gemma4_test
