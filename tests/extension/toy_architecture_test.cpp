// An architecture that is added from outside: one source file, and no change of the loader, the cache or the kernels.
#include "extension/toy_architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/register_all.h"
#include "models/model.h"
#include "models/model_file.h"

namespace rocmforge {
namespace {

/// The golden model of SmolLM3, whose block is the toy's, as a file of the toy.
testing::ModelFile toy_file() {
  testing::ModelFile model = testing::ModelFile::golden("smollm3");
  const std::string from = "smollm3.";
  for (auto& [key, value] : model.metadata) {
    key = key.starts_with(from) ? "toy." + key.substr(from.size()) : key;
  }
  model.set("general.architecture", std::string("toy"));
  return model;
}

class ToyArchitecture : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { add_architecture(toy_architecture()); }

  /// Logits [tokens, vocab] of one step.
  static std::vector<float> logits(const testing::ModelFile& model, const std::vector<std::int32_t>& tokens) {
    const testing::OpenModel open(model);
    KernelRegistry registry;
    register_all_kernels(registry);
    Device cpu;
    ThreadPool pool(2);
    ModelOptions options;
    options.kv_dtype = DType::f32;
    const auto loaded = Model::load(open.file, registry, Devices(cpu), pool, options);
    SequenceMemory memory(cpu, loaded->kv_groups(), {.blocks = {8}});
    BatchPlan plan;
    plan.clear();
    std::vector<std::int32_t> blocks;
    while (std::ssize(blocks) * memory.block_tokens() < std::ssize(tokens)) {
      blocks.push_back(static_cast<std::int32_t>(blocks.size()));
    }
    plan.add_sequence(tokens, 0, blocks, false, true);
    plan.finish();
    loaded->forward(plan, memory);
    const auto rows = loaded->logits();
    return {rows.begin(), rows.end()};
  }

  static double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double largest = a.size() == b.size() ? 0.0 : INFINITY;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
    }
    return largest;
  }
};

TEST_F(ToyArchitecture, GivesTheLogitsOfItsBlock) {
  const testing::Golden golden = testing::read_golden("smollm3");
  EXPECT_LT(largest_difference(logits(toy_file(), golden.tokens), golden.logits), 1e-3);
}

TEST_F(ToyArchitecture, ReadsAKeyOfItsOwn) {
  const testing::Golden golden = testing::read_golden("smollm3");
  testing::ModelFile other = toy_file();
  other.set("toy.period", std::int64_t{2});
  EXPECT_GT(largest_difference(logits(other, golden.tokens), golden.logits), 1e-2);
}

TEST_F(ToyArchitecture, IsNamedAmongThoseThatLoad) {
  EXPECT_EQ(find_architecture("toy").name, "toy");
  EXPECT_THROW(add_architecture(toy_architecture()), LogicError) << "a second one of that name";
}

}  // namespace
}  // namespace rocmforge
