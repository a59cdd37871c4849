// The indexer of GLM-5 and DeepSeek V3.2 is not computed: where it would leave keys out, the model is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;

TEST(GlmDsa, AContextInWhichTheIndexerWouldChooseIsRefused) {
  for (const char* name : {"glm-dsa", "deepseek32"}) {
    const GgufFile file(golden_path(name));
    EXPECT_EQ(ModelConfig::from_gguf(file).context_length, 64);  // what the indexer chooses; the model has 128
    ModelOptions options = f32_options();
    options.context_length = 64;
    EXPECT_EQ(error_text([&] { Runner(file, "reference", options); }), "no error");
    options.context_length = 65;
    EXPECT_THAT(error_text([&] { Runner(file, "reference", options); }),
                HasSubstr(std::string("a context of 65 positions, of which ") + name +
                          " would choose those that a token sees: at most 64"));
  }
}

TEST(GlmDsa, TensorsOfTheIndexerAreNotRead) {
  ModelFile model = ModelFile::golden("glm-dsa");
  model.add_vector("blk.0.indexer.k_norm.weight", std::vector<float>(32, 1.0f));
  model.add_vector("blk.0.indexer.k_norm.bias", std::vector<float>(32, 1.0f));
  const OpenModel open(model);
  const Golden golden = read_golden("glm-dsa");
  EXPECT_LE(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-4);
}

TEST(GlmDsa, BlocksOfTokenPredictionOfAnotherGraphAreRefused) {
  for (const char* name : {"glm-dsa", "hy_v3"}) {
    ModelFile model = ModelFile::golden(name);
    model.set(std::string(name) + ".block_count", std::uint64_t{name == std::string("hy_v3") ? 4u : 3u});
    model.set(std::string(name) + ".nextn_predict_layers", std::uint64_t{1});
    const OpenModel open(model);
    const Golden golden = read_golden(name);
    EXPECT_LE(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-4) << name;
    ModelOptions options = f32_options();
    options.load_mtp = true;
    EXPECT_THAT(error_text([&] { Runner(open.file, "reference", options); }),
                HasSubstr(std::string("MTP blocks of architecture ") + name + " are not supported"));
  }
}

}  // namespace
}  // namespace rocmforge::testing
