// EAGLE3 drafts of golden models: the tokens are those without drafts.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "engine/agreeing_drafts.h"
#include "engine/draft_answers.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"

namespace rocmforge::eagle_drafts_test {
namespace {

using namespace draft_answers;

class EagleModel : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override {
    for (const std::string& path : {model_, draft_}) {
      std::remove(path.c_str());
    }
  }

  std::string model_ = nearly_plain_eagle_model(GetParam());
  std::string draft_ = agreeing_eagle_draft(GetParam(), model_);
};

TEST_P(EagleModel, DraftsChangeNoToken) { expect_same_texts(model_, draft_); }

TEST_P(EagleModel, DraftsChangeNoTokenOfAModelThatDevicesShare) { expect_same_texts_on_two(model_, draft_); }

TEST_P(EagleModel, WrongDraftsChangeNoTokenAndEnd) { expect_wrong_drafts_to_end(model_, golden_eagle_draft(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Golden, EagleModel, ::testing::Values("llama", "qwen3"),
                         [](const auto& instance) { return instance.param; });

TEST(EagleUse, TheDraftIsPlannedWithItsModel) {
  const std::string model = golden_model_file("eagle3/llama");
  EngineOptions options = on_cpu({.kv_tokens = 256});
  const auto plan = [&](const DraftOptions& drafts) {
    options.drafts = drafts;
    return plan_model(model, options);
  };
  const PlannedModel with = plan({.model = golden_eagle_draft("llama")});
  const PlannedModel without = plan(no_drafts());
  EXPECT_NE(with.eagle, nullptr);
  EXPECT_EQ(without.eagle, nullptr);
  EXPECT_EQ(plan({.model = model}).eagle, nullptr) << "a draft model";
  EXPECT_GT(with.memory.weight_bytes, without.memory.weight_bytes);
  EXPECT_GT(with.memory.kv_bytes_per_token, without.memory.kv_bytes_per_token);
  EXPECT_GT(with.model->workspace_bytes(), without.model->workspace_bytes());
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_eagle_draft("qwen2")}); }),
            golden_eagle_draft("qwen2") +
                ": key 'eagle3.target_hidden_size' is 48, the model's width is 32: it drafts for another "
                "model");
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_eagle_draft("llama"), .mtp = MtpUse::on}); }),
            "a draft model and the file's MTP blocks can't draft both");
  std::remove(model.c_str());
}

}  // namespace
}  // namespace rocmforge::eagle_drafts_test
