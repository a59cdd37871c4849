// Files with latent attention: the two forms of a head's K and V tensors, the keys for head lengths and the scale of scores,
// and the errors for damaged files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/config/model_config.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::latent_test {
namespace {

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

template <class Change>
std::string refusal(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  return error_text([&] { Runner(open.file, "reference"); });
}

std::string refusal_of_key(const std::string& name, const std::string& key, GgufValue value) {
  return refusal(name, [&](ModelFile& model) { model.set(key, std::move(value)); });
}

/// K's matrices [heads, rank, plain] and V's [heads, value, rank] as the rows of one tensor: for each head those of K,
/// transposed back, then those of V.
void join_heads(ModelFile& model, const std::string& block) {
  ModelFile::Weight k = model.weight(block + "attn_k_b.weight");
  ModelFile::Weight v = model.weight(block + "attn_v_b.weight");
  const std::int64_t heads = k.shape[0];
  const std::int64_t rank = k.shape[1];
  const std::int64_t plain = k.shape[2];
  const std::int64_t values = v.shape[1];
  ModelFile::Weight joined{block + "attn_kv_b.weight", {heads * (plain + values), rank}, DType::f32, {}};
  joined.data.resize(static_cast<std::size_t>(heads * (plain + values) * rank) * sizeof(float));
  for (std::int64_t h = 0; h < heads; ++h) {
    float* rows = joined.floats() + h * (plain + values) * rank;
    for (std::int64_t i = 0; i < plain * rank; ++i) {
      rows[i] = k.floats()[(h * rank + i % rank) * plain + i / rank];
    }
    std::copy_n(v.floats() + h * values * rank, values * rank, rows + plain * rank);
  }
  model.remove_weight(k.name);
  model.remove_weight(v.name);
  model.weights.push_back(std::move(joined));
}

/// The keys of older files, in which heads have no tensors of their own.
void describe_by_heads(ModelFile& model) {
  model.remove("deepseek2.attention.key_length_mla");
  model.remove("deepseek2.attention.value_length_mla");
  model.set("deepseek2.attention.key_length", std::uint64_t{40});
  model.set("deepseek2.attention.value_length", std::uint64_t{20});
  model.set("deepseek2.attention.head_count_kv", std::uint64_t{4});
}

TEST(Latent, HeadsJoinedOrByThemselvesGiveTheSameLogits) {
  const ModelFile parted = ModelFile::golden("deepseek-v3");
  ModelFile joined = parted;
  for (const char* block : {"blk.0.", "blk.1."}) {
    join_heads(joined, block);
  }
  ModelFile old = joined;
  describe_by_heads(old);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    const std::vector<float> expected = logits_of(parted, "deepseek-v3", set);
    EXPECT_EQ(logits_of(joined, "deepseek-v3", set), expected) << set << ", joined";
    EXPECT_EQ(logits_of(old, "deepseek-v3", set), expected) << set << ", joined, with the older keys";
  }
}

TEST(Latent, HeadsMayBeInAnyFormat) {
  for (const char* name : {"blk.0.attn_k_b.weight", "blk.1.attn_v_b.weight"}) {
    const double error = error_after("deepseek-v3", [&](ModelFile& model) { model.convert(name, DType::f16); });
    EXPECT_GT(error, 0.0) << name;
    EXPECT_LE(error, 1e-2) << name;
  }
  const double joined =
      error_after("deepseek-v2", [](ModelFile& model) { model.convert("blk.0.attn_kv_b.weight", DType::f16); });
  EXPECT_GT(joined, 0.0);
  EXPECT_LE(joined, 1e-2);
}

TEST(Latent, ReadsEveryNumber) {
  const ModelConfig config = ModelConfig::from_gguf(OpenModel(ModelFile::golden("deepseek-v3")).file);
  ASSERT_EQ(config.blocks.size(), 2u);
  const AttentionConfig& attention = config.layer(1).attention;
  EXPECT_EQ(attention.q_heads, 4);
  EXPECT_EQ(attention.kv_heads, 1);
  EXPECT_EQ(attention.head_dim, 64);
  EXPECT_EQ(attention.rope.n_rot, 16);
  EXPECT_EQ(attention.rope.kind, RopeKind::adjacent);
  EXPECT_EQ(attention.latent.rank, 48);
  EXPECT_EQ(attention.latent.q_rank, 40);
  EXPECT_EQ(attention.latent.plain_dim, 24);
  EXPECT_EQ(attention.latent.value_dim, 20);
  const double mscale = 1.0 + 0.1 * std::log(8.0);
  EXPECT_FLOAT_EQ(attention.scale, static_cast<float>(mscale * mscale / std::sqrt(40.0)));
  EXPECT_FLOAT_EQ(attention.rope.frequencies->magnitude, 1.0f);
  EXPECT_EQ(config.layer(0).feed_forward.experts.count, 0) << "the first layer is dense";
  EXPECT_EQ(config.layer(1).feed_forward.experts.group_best, 2);
  const ModelConfig v2 = ModelConfig::from_gguf(OpenModel(ModelFile::golden("deepseek-v2")).file);
  EXPECT_EQ(v2.layer(1).attention.latent.q_rank, 0);
  EXPECT_EQ(v2.layer(1).attention.latent.plain_dim, 24);
  EXPECT_EQ(v2.layer(1).feed_forward.experts.score, RouteScore::softmax);
  EXPECT_EQ(v2.layer(1).feed_forward.experts.group_best, 1);
}

TEST(Latent, KeysSayHowItIsComputed) {
  const std::string v3 = "deepseek-v3";
  EXPECT_LE(error_after(v3, [](ModelFile&) {}), allowed);
  EXPECT_GT(error_after_key(v3, "deepseek2.rope.scaling.yarn_log_multiplier", 0.05), 10 * allowed);
  EXPECT_GT(error_after(v3, [](ModelFile& model) { model.remove("deepseek2.rope.scaling.yarn_log_multiplier"); }),
            10 * allowed);
  EXPECT_GT(error_after_key(v3, "deepseek2.expert_group_used_count", std::uint64_t{4}), 100 * allowed);
  EXPECT_GT(error_after_key(v3, "deepseek2.expert_gating_func", std::uint64_t{1}), 100 * allowed);
  EXPECT_GT(error_after_key("deepseek-v2", "deepseek2.expert_group_used_count", std::uint64_t{4}), 100 * allowed);
}

TEST(Latent, BlocksThatPredictFurtherTokensAreLeftOut) {
  EXPECT_LE(error_after("deepseek-v3",
                        [](ModelFile& model) {
                          model.set("deepseek2.block_count", std::uint64_t{3});
                          model.set("deepseek2.nextn_predict_layers", std::uint64_t{1});
                        }),
            allowed);
}

TEST(Latent, ImpossibleNumbersAreRefusedByKey) {
  const std::string v3 = "deepseek-v3";
  EXPECT_EQ(refusal(v3, [](ModelFile& model) { model.remove("deepseek2.attention.kv_lora_rank"); }),
            "tiny.gguf: key 'deepseek2.attention.kv_lora_rank' is missing");
  EXPECT_EQ(refusal(v3, [](ModelFile& model) { model.remove("deepseek2.rope.dimension_count"); }),
            "tiny.gguf: key 'deepseek2.rope.dimension_count' is missing");
  EXPECT_EQ(refusal(v3, [](ModelFile& model) { model.remove("deepseek2.attention.value_length_mla"); }),
            "tiny.gguf: key 'deepseek2.attention.value_length_mla' is missing");
  EXPECT_EQ(refusal_of_key(v3, "deepseek2.attention.kv_lora_rank", std::uint64_t{2000000000}),
            "tiny.gguf: key 'deepseek2.attention.kv_lora_rank' is 2000000000, at most 65536 is possible");
  EXPECT_EQ(refusal_of_key(v3, "deepseek2.attention.key_length", std::uint64_t{63}),
            "tiny.gguf: key 'deepseek2.attention.key_length' is 63, expected 64, the latent's length and what turns");
  EXPECT_EQ(refusal_of_key(v3, "deepseek2.attention.value_length", std::uint64_t{20}),
            "tiny.gguf: key 'deepseek2.attention.value_length' is 20, expected 48, the latent's length");
  EXPECT_EQ(refusal_of_key(v3, "deepseek2.attention.head_count_kv", std::uint64_t{4}),
            "tiny.gguf: key 'deepseek2.attention.head_count_kv' is 4, expected 1, all heads share the latent");
  EXPECT_EQ(refusal_of_key("deepseek-v2", "deepseek2.attention.head_count_kv", std::uint64_t{1}),
            "tiny.gguf: key 'deepseek2.attention.head_count_kv' is 1, expected 4, the number of query heads");
  EXPECT_EQ(refusal_of_key(v3, "deepseek2.attention.key_length_mla", std::uint64_t{16}),
            "tiny.gguf: key 'deepseek2.rope.dimension_count' is 16, not less than the key length 16");
  EXPECT_EQ(refusal_of_key("deepseek-v2-lite", "deepseek2.rope.scaling.yarn_log_multiplier", 0.125),
            "tiny.gguf: key 'deepseek2.rope.scaling.yarn_log_multiplier' is 0.125, it must be positive and belong to "
            "rope.scaling.type yarn");
}

TEST(Latent, EveryMissingTensorIsNamed) {
  for (const char* name : {"deepseek-v3", "deepseek-v2-lite"}) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      if (weight.name == "output.weight" || weight.name.ends_with(".bias")) {
        continue;  // optional tensors
      }
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove_weight(weight.name); }),
                "tiny.gguf: tensor '" + weight.name + "' is missing");
    }
  }
  EXPECT_EQ(refusal("deepseek-v2", [](ModelFile& model) { model.remove_weight("blk.1.attn_kv_b.weight"); }),
            "tiny.gguf: tensor 'blk.1.attn_k_b.weight' is missing");
}

TEST(Latent, TensorsOfAnotherShapeAreRefused) {
  const auto reshaped = [](const std::string& model, const std::string& name, const Shape& shape) {
    return refusal(model, [&](ModelFile& file) { file.weight(name).shape = shape; });
  };
  EXPECT_EQ(reshaped("deepseek-v3", "blk.0.attn_k_b.weight", {4, 24, 48}),
            "tiny.gguf: tensor 'blk.0.attn_k_b.weight' is [4, 24, 48], expected [4, 48, 24]");
  EXPECT_EQ(reshaped("deepseek-v3", "blk.1.attn_v_b.weight", {2, 40, 48}),
            "tiny.gguf: tensor 'blk.1.attn_v_b.weight' is [2, 40, 48], expected [4, 20, 48]");
  EXPECT_EQ(reshaped("deepseek-v2", "blk.1.attn_kv_b.weight", {88, 96}),
            "tiny.gguf: tensor 'blk.1.attn_kv_b.weight' is [88, 96], expected [176, 48]");
  EXPECT_EQ(refusal("deepseek-v3",
                    [](ModelFile& model) { model.add_vector("blk.0.attn_k_b.scale", std::vector<float>(4, 1.0f)); }),
            "tiny.gguf: tensor 'blk.0.attn_k_b.scale' changes the computation and is not supported");
}

}  // namespace
}  // namespace rocmforge::testing::latent_test
