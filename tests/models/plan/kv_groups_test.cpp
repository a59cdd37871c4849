// The groups of pages that models request.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

std::unique_ptr<Model> planned(const GgufFile& file, const KernelRegistry& registry, std::int32_t context) {
  ModelOptions options;
  options.context_length = context;
  return Model::plan(file, registry, cpu_device_info(), 1, options);
}

class KvGroupsOf : public ::testing::TestWithParam<const char*> {};

TEST_P(KvGroupsOf, LayersWithAWindowHaveAGroupOfTheirOwn) {
  const OpenModel open(ModelFile::golden(GetParam()));
  KernelRegistry registry;
  register_all_kernels(registry);
  const auto model = planned(open.file, registry, 0);
  std::map<std::int32_t, std::size_t> layers;  // by window
  for (const LayerConfig& layer : model->config().blocks) {
    layers[layer.attention.window] += layer.attention.has_keys() ? 1 : 0;
  }
  ASSERT_GT(layers.rbegin()->first, 0) << "no layer has a window";
  const KvGroups& groups = model->kv_groups();
  EXPECT_EQ(groups.front().window, 0);
  EXPECT_EQ(groups.size(), 1 + layers.size() - layers.count(0));
  for (const KvGroup& group : groups) {
    EXPECT_EQ(group.planes.size(), layers[group.window]);
  }
}

TEST_P(KvGroupsOf, AWindowThatNoSequenceOutgrowsIsNone) {
  const OpenModel open(ModelFile::golden(GetParam()));
  KernelRegistry registry;
  register_all_kernels(registry);
  const auto model = planned(open.file, registry, 0);
  std::int32_t widest = 0;
  std::size_t planes = 0;
  for (const KvGroup& group : model->kv_groups()) {
    widest = std::max(widest, group.window);
    planes += group.planes.size();
  }
  const auto shorter = planned(open.file, registry, widest);
  EXPECT_LT(shorter->kv_groups().size(), model->kv_groups().size());
  std::size_t all = 0;
  for (const KvGroup& group : shorter->kv_groups()) {
    all += group.planes.size();
  }
  EXPECT_EQ(all, planes);
}

INSTANTIATE_TEST_SUITE_P(, KvGroupsOf,
                         ::testing::Values("gemma2", "gemma3", "gpt-oss", "cohere2", "exaone4", "olmo3", "mistral-window",
                                           "gemma4", "gemma4-e", "llama4", "laguna", "muse-glimmer", "step35"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rocmforge::testing
