// Assistants of golden Gemma 4 models: the tokens are those without drafts.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "engine/agreeing_drafts.h"
#include "engine/draft_answers.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"

namespace rocmforge::assistant_drafts_test {
namespace {

using namespace draft_answers;

class AssistantModel : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : {model_, draft_}) {
      std::remove(path.c_str());
    }
  }

  std::string model_ = nearly_plain_gemma4();
  std::string draft_ = agreeing_assistant(model_);
};

TEST_F(AssistantModel, DraftsChangeNoToken) { expect_same_texts(model_, draft_); }

TEST_F(AssistantModel, DraftsChangeNoTokenOfAModelThatDevicesShare) { expect_same_texts_on_two(model_, draft_); }

TEST_F(AssistantModel, WrongDraftsChangeNoTokenAndEnd) { expect_wrong_drafts_to_end(model_, golden_assistant("gemma4")); }

/// What is drafted for a sequence depends on no other: each reads its own state, keys and values.
TEST_F(AssistantModel, DraftsOfABatchAreThoseOfEachSequence) {
  for (const std::string& draft : {draft_, golden_assistant("gemma4")}) {
    const auto drafted_and_accepted = [&](std::int32_t sequences, bool prefix_cache) {
      EngineOptions options =
          on_cpu({.max_batch_tokens = 128, .max_sequences = sequences, .kv_tokens = 1024, .prefix_cache = prefix_cache});
      options.drafts = {.most = 4, .model = draft, .adapts = false};
      const auto engine = load_model(model_, options);
      answers(*engine);
      answers(*engine);  // behind known prefixes, where they are kept
      return std::pair(engine->status().drafted_tokens, engine->status().accepted_tokens);
    };
    const auto alone = drafted_and_accepted(1, false);
    EXPECT_EQ(drafted_and_accepted(4, false), alone);
    EXPECT_EQ(drafted_and_accepted(4, true), alone) << "also behind a known prefix";
    EXPECT_GT(alone.first, 200);
    EXPECT_TRUE(draft != draft_ || alone.second > 200);
  }
}

TEST(AssistantUse, TheDraftIsPlannedWithItsModel) {
  const std::string model = golden_model_file("gemma4");
  EngineOptions options = on_cpu({.kv_tokens = 256});
  const auto plan = [&](const DraftOptions& drafts) {
    options.drafts = drafts;
    return plan_model(model, options);
  };
  const PlannedModel with = plan({.model = golden_assistant("gemma4")});
  const PlannedModel without = plan(no_drafts());
  EXPECT_NE(with.assistant, nullptr);
  EXPECT_EQ(without.assistant, nullptr);
  EXPECT_GT(with.memory.weight_bytes, without.memory.weight_bytes);
  EXPECT_EQ(with.memory.kv_bytes_per_token, without.memory.kv_bytes_per_token);
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_assistant("gemma4-e")}); }),
            golden_assistant("gemma4-e") +
                ": layer 1 reads 2 KV heads of 32 (window 0), the model's last layer without a window has 1 of 32 (0)");
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_assistant("gemma4"), .mtp = MtpUse::on}); }),
            "a draft model and the file's MTP blocks can't draft both");
  std::remove(model.c_str());
}

}  // namespace
}  // namespace rocmforge::assistant_drafts_test
