// MTP blocks of golden models draft: the tokens are those without drafts.
#include "engine/mtp_drafts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "engine/agreeing_drafts.h"
#include "engine/draft_answers.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"

namespace rocmforge::mtp_drafts_test {
namespace {

using namespace draft_answers;

class MtpModel : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override {
    for (const std::string& path : {agreeing_, golden_}) {
      std::remove(path.c_str());
    }
  }

  std::string golden_ = golden_model_file("mtp/" + GetParam());
  std::string agreeing_ = agreeing_mtp_model("mtp/" + GetParam());
};

TEST_P(MtpModel, DraftsChangeNoToken) {
  EngineOptions alone = on_cpu({.max_batch_tokens = 128, .max_sequences = 1, .prefix_cache = false});
  alone.drafts = no_drafts();
  const auto plain = load_model(agreeing_, alone);
  EXPECT_EQ(plain->model().mtp_blocks(), 0);
  const std::vector<Tokens> expected = answers(*plain);

  for (const std::int32_t most : {1, 3, 8}) {
    for (const bool tight : {false, true}) {
      EngineOptions options = on_cpu({.max_batch_tokens = tight ? 40 : 128,
                                      .max_sequences = 4,
                                      .kv_tokens = tight ? 160 : 1024,
                                      .prefix_cache = !tight});
      options.drafts = {.most = most, .adapts = false};
      const auto drafted = load_model(agreeing_, options);
      EXPECT_EQ(drafted->model().mtp_blocks(), 1) << "on without being asked for";
      EXPECT_EQ(answers(*drafted), expected) << most << " drafts";
      const EngineStatus status = drafted->status();
      EXPECT_GT(status.accepted_tokens, 40);
      EXPECT_GT(status.drafted_tokens, status.accepted_tokens);
      EXPECT_EQ(answers(*drafted), expected) << "after a prefix hit";
      EXPECT_TRUE(tight || drafted->status().prefix_hits > 0);
    }
  }
}

/// Of random weights, whose drafts are wrong: depths go to zero.
TEST_P(MtpModel, WrongDraftsChangeNoTokenAndEnd) {
  EngineOptions options = on_cpu({.max_batch_tokens = 128, .max_sequences = 4, .kv_tokens = 1024});
  const auto drafted = load_model(golden_, options);
  options.drafts = no_drafts();
  const auto plain = load_model(golden_, options);
  EXPECT_EQ(answers(*drafted), answers(*plain));
  const EngineStatus status = drafted->status();
  EXPECT_GT(status.drafted_tokens, 8);
  EXPECT_LT(status.drafted_tokens, plain->status().steps * 4 / 2);
}

/// An embedding is that of the request's own rows, though all rows of a step are wanted.
TEST_P(MtpModel, EmbeddingsAreThoseWithoutIt) {
  EngineOptions options = on_cpu({.max_batch_tokens = 16, .max_sequences = 4, .kv_tokens = 1024});
  const auto embed = [&](const DraftOptions& drafts) {
    options.drafts = drafts;
    const auto engine = load_model(golden_, options);
    std::map<RequestId, std::vector<float>> found;
    for (const Pooling pooling : {Pooling::mean, Pooling::last, Pooling::cls}) {
      Request request;
      request.prompt = draft_answers::numbered(2, engine->model().config().vocab).prompt;
      request.embedding = pooling;
      found[engine->submit(request)];
    }
    engine->submit(draft_answers::numbered(3, engine->model().config().vocab));
    while (engine->has_work()) {
      for (StepOutput& output : engine->step()) {
        if (found.contains(output.id)) {
          found[output.id] = std::move(output.embedding);
        }
      }
    }
    return found;
  };
  const auto with = embed({});
  EXPECT_EQ(with, embed(no_drafts()));
  EXPECT_EQ(with.begin()->second.size(), 32u);
}

INSTANTIATE_TEST_SUITE_P(Golden, MtpModel, ::testing::Values("deepseek-v3", "glm4moe", "qwen35moe"),
                         [](const auto& instance) {
                           std::string text = instance.param;
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST(MtpUse, IsDecidedByTheFileUnlessAskedFor) {
  const std::string with = golden_model_file("mtp/glm4moe");
  const std::string without = golden_model_file("glm4moe");
  const auto uses = [](const std::string& path, const DraftOptions& drafts) {
    EngineOptions options = on_cpu({.kv_tokens = 256});
    options.drafts = drafts;
    return plan_model(path, options).mtp;
  };
  EXPECT_TRUE(uses(with, {}));
  EXPECT_TRUE(uses(with, {.mtp = MtpUse::on}));
  EXPECT_FALSE(uses(with, {.mtp = MtpUse::off}));
  EXPECT_FALSE(uses(with, {.most = 0}));
  EXPECT_FALSE(uses(with, {.model = without})) << "a draft model drafts";
  EXPECT_FALSE(uses(without, {}));
  const auto refusal = [&](const std::string& path, const DraftOptions& drafts) {
    return test::error_of([&] { uses(path, drafts); });
  };
  EXPECT_NE(refusal(without, {.mtp = MtpUse::on}).find("has no MTP blocks: key 'glm4moe.nextn_predict_layers'"),
            std::string::npos);
  EXPECT_EQ(refusal(with, {.model = without, .mtp = MtpUse::on}),
            "a draft model and the file's MTP blocks can't draft both");
  std::remove(with.c_str());
  std::remove(without.c_str());
}

}  // namespace
}  // namespace rocmforge::mtp_drafts_test
