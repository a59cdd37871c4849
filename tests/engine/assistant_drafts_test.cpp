// Assistants of golden Gemma 4 models: the tokens are those without drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/draft_answers.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"
#include "paths.h"

namespace rocmforge::assistant_drafts_test {
namespace {

using namespace draft_answers;

std::string golden_draft(const std::string& name) {
  return test::test_data("golden/models/assistant/" + name + "-draft.gguf");
}

void fill(TensorEditor& editor, std::string_view part, float value) {
  for (const GgufTensor& tensor : editor.tensors()) {
    if (tensor.name.find(part) != std::string::npos) {
      std::fill_n(editor.floats(tensor.name), tensor.tensor.shape.elems(), value);
    }
  }
}

/// The head is the embedding: without signs each token would follow itself.
std::string nearly_plain_model() {
  const std::string path = golden_model_file("gemma4");
  TensorEditor editor(path);
  make_nearly_plain(editor, {"post_attention_norm", "post_ffw_norm"}, 0.3f);
  fill(editor, "layer_output_scale", 1.0f);
  float* const signs = editor.floats("output_norm.weight");
  for (int i = 0; i < GgufFile(path).integer("gemma4.embedding_length"); i += 3) {
    signs[i] = -signs[i];
  }
  editor.save_as(path);
  return path;
}

/// The golden assistant with the model's embedding as its first elements, and layers that change little. So it often says
/// what nearly_plain_model() does.
std::string agreeing_draft(const std::string& model) {
  TensorEditor editor(golden_draft("gemma4"));
  TensorEditor of_model(model);
  const GgufFile file(golden_draft("gemma4"));
  const std::int64_t width = file.integer("gemma4-assistant.embedding_length_out");
  const std::int64_t hidden = file.integer("gemma4-assistant.embedding_length");
  make_nearly_plain(editor, {"post_attention_norm", "post_ffw_norm"}, 0.3f);
  fill(editor, "layer_output_scale", 1.0f);
  fill(editor, "nextn.pre_projection", 0.0f);
  fill(editor, "token_embd", 0.0f);
  for (std::int64_t element = 0; element < width; ++element) {
    editor.floats("blk.0.nextn.pre_projection.weight")[element * 2 * width + element] = 1.0f;
  }
  for (std::int64_t token = 0; token < file.tensor("token_embd.weight").tensor.shape[0]; ++token) {
    std::copy_n(of_model.floats("token_embd.weight") + token * width, width,
                editor.floats("token_embd.weight") + token * hidden);
  }
  std::copy_n(of_model.floats("output_norm.weight"), width, editor.floats("output_norm.weight"));
  const std::string path = model + ".draft.gguf";
  editor.save_as(path);
  return path;
}

class AssistantModel : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : {model_, draft_}) {
      std::remove(path.c_str());
    }
  }

  std::string model_ = nearly_plain_model();
  std::string draft_ = agreeing_draft(model_);
};

TEST_F(AssistantModel, DraftsChangeNoToken) { expect_same_texts(model_, draft_); }

TEST_F(AssistantModel, DraftsChangeNoTokenOfAModelThatDevicesShare) { expect_same_texts_on_two(model_, draft_); }

TEST_F(AssistantModel, WrongDraftsChangeNoTokenAndEnd) { expect_wrong_drafts_to_end(model_, golden_draft("gemma4")); }

/// What is drafted for a sequence depends on no other: each reads its own state, keys and values.
TEST_F(AssistantModel, DraftsOfABatchAreThoseOfEachSequence) {
  for (const std::string& draft : {draft_, golden_draft("gemma4")}) {
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
  const PlannedModel with = plan({.model = golden_draft("gemma4")});
  const PlannedModel without = plan(no_drafts());
  EXPECT_NE(with.assistant, nullptr);
  EXPECT_EQ(without.assistant, nullptr);
  EXPECT_GT(with.memory.weight_bytes, without.memory.weight_bytes);
  EXPECT_EQ(with.memory.kv_bytes_per_token, without.memory.kv_bytes_per_token);
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_draft("gemma4-e")}); }),
            golden_draft("gemma4-e") +
                ": layer 1 reads 2 KV heads of 32 (window 0), the model's last layer without a window has 1 of 32 (0)");
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_draft("gemma4"), .mtp = MtpUse::on}); }),
            "a draft model and the file's MTP blocks can't draft both");
  std::remove(model.c_str());
}

}  // namespace
}  // namespace rocmforge::assistant_drafts_test
