// Mamba, Jamba and Falcon-H1: keys that contradict each other, and what of a layer is planned.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal_of_key(const std::string& name, const std::string& key, std::uint64_t value) {
  return refusal(name, [&](ModelFile& model) { model.set(key, value); });
}

TEST(Mamba, NumbersThatAreNoNumbersOfTheTensorsAreRefusedByName) {
  EXPECT_THAT(refusal_of_key("mamba", "mamba.ssm.state_size", 0), HasSubstr("mamba.ssm.state_size"));
  EXPECT_THAT(refusal_of_key("mamba", "mamba.ssm.conv_kernel", 1), HasSubstr("'mamba.ssm.conv_kernel' is 1"));
  EXPECT_THAT(refusal_of_key("mamba", "mamba.ssm.inner_size", std::uint64_t{1} << 30), HasSubstr("mamba.ssm.inner_size"));
  EXPECT_THAT(refusal_of_key("mamba", "mamba.ssm.time_step_rank", 7), HasSubstr("blk.0.ssm_x.weight"));
  EXPECT_THAT(refusal("mamba", [](ModelFile& model) { model.remove_weight("blk.1.ssm_dt.bias"); }),
              HasSubstr("blk.1.ssm_dt.bias"));
  EXPECT_THAT(refusal("jamba", [](ModelFile& model) { model.remove_weight("blk.0.ssm_b_norm.weight"); }),
              HasSubstr("blk.0.ssm_b_norm.weight"));
}

TEST(Mamba, FilesNeedNotCountHeads) {
  ModelFile model = ModelFile::golden("mamba");
  model.remove("mamba.attention.head_count_kv");
  const OpenModel open(model);
  const Golden golden = read_golden("mamba");
  EXPECT_LE(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-4);
}

TEST(Jamba, LayersWithARouterHaveExperts) {
  const OpenModel open(ModelFile::golden("jamba"));
  const ModelConfig config = ModelConfig::from_gguf(open.file);
  std::vector<std::int32_t> experts;
  std::vector<MixerKind> mixers;
  for (const LayerConfig& layer : config.blocks) {
    experts.push_back(layer.feed_forward.experts.count);
    mixers.push_back(layer.mixer);
  }
  EXPECT_THAT(experts, ::testing::ElementsAre(0, 4, 0, 4));
  EXPECT_THAT(mixers, ::testing::ElementsAre(MixerKind::mamba, MixerKind::attention, MixerKind::mamba, MixerKind::mamba));
}

/// A layer has pages and a state.
TEST(FalconH1, LayersHavePagesAndAState) {
  const OpenModel open(ModelFile::golden("falcon-h1"));
  KernelRegistry registry;
  register_all_kernels(registry);
  const auto model = Model::plan(open.file, registry, cpu_device_info(), 1, f32_options());
  ASSERT_EQ(model->kv_groups().size(), 1u);
  EXPECT_EQ(model->kv_groups()[0].planes.size(), 2u);
  const std::size_t floats = 2 * (4 * 12 * 12 + 2 * (48 + 2 * 2 * 12));  // the scan's, and the rows of the convolution
  EXPECT_GE(model->state_bytes(), floats * sizeof(float));
}

/// Other converters may name the norm as usual.
TEST(FalconH1, TheNormBeforeTheFeedForwardPartHasEitherName) {
  ModelFile model = ModelFile::golden("falcon-h1");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".ffn_norm";
    model.weight(name).name = name + ".weight";
  }
  const OpenModel open(model);
  const Golden golden = read_golden("falcon-h1");
  EXPECT_LE(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-4);
}

}  // namespace
}  // namespace rocmforge::testing
