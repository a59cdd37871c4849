// EAGLE3 drafts of golden models: the tokens are those without drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "engine/draft_answers.h"
#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "engine/plan_model.h"
#include "error_of.h"
#include "paths.h"

namespace rocmforge::eagle_drafts_test {
namespace {

using namespace draft_answers;

std::string golden_draft(const std::string& name) { return test::test_data("golden/models/eagle3/" + name + "-draft.gguf"); }

std::size_t count_of(const GgufTensor& tensor) { return static_cast<std::size_t>(tensor.tensor.shape.elems()); }

void fill(TensorEditor& editor, std::string_view name, float value) {
  for (const GgufTensor& tensor : editor.tensors()) {
    if (tensor.name == name) {
      std::fill_n(editor.floats(name), count_of(tensor), value);
    }
  }
}

std::string nearly_plain_model(const std::string& name) {
  const std::string path = golden_model_file("eagle3/" + name);
  TensorEditor editor(path);
  make_nearly_plain(editor, {"attn_output", "ffn_down"}, 0.05f);
  // Rows of the embedding as large as normalised ones.
  const GgufFile file(path);
  const std::size_t count = count_of(file.tensor("token_embd.weight"));
  float* values = editor.floats("token_embd.weight");
  const double squares = std::inner_product(values, values + count, values, 0.0);
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(count) / squares));
  std::for_each_n(values, count, [scale](float& value) { value *= scale; });
  editor.save_as(path);
  return path;
}

/// The golden draft, whose state is the embedding of the token: its attention sees the positions with that token alone, by
/// heads that compare parts of the embeddings. So it often says what nearly_plain_model() does.
std::string agreeing_draft(const std::string& name, const std::string& model) {
  TensorEditor editor(golden_draft(name));
  TensorEditor of_model(model);
  const GgufFile file(golden_draft(name));
  const std::int64_t hidden = file.integer("eagle3.embedding_length");
  const std::int64_t dim = file.integer("eagle3.attention.key_length");
  const std::int64_t heads = file.integer("eagle3.attention.head_count");
  const std::int64_t shared = heads / file.integer("eagle3.attention.head_count_kv");
  for (const char* zero : {"fc", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output", "blk.0.ffn_down"}) {
    fill(editor, std::string(zero) + ".weight", 0.0f);
  }
  fill(editor, "blk.0.attn_norm.weight", 1.0f);
  fill(editor, "blk.0.attn_norm_2.weight", 0.0f);
  constexpr float sharpness = 6.0f;
  for (std::int64_t row = 0; row < heads * dim; ++row) {
    const std::int64_t element = row / dim / shared * dim + row % dim;  // of the embedding, the first in a joined row
    editor.floats("blk.0.attn_q.weight")[row * 2 * hidden + element] = sharpness;
    if (row / dim % shared == 0) {
      editor.floats("blk.0.attn_output.weight")[element * heads * dim + row] = 1.0f;
    }
  }
  for (std::int64_t element = 0; element < hidden; ++element) {
    editor.floats("blk.0.attn_k.weight")[element * 2 * hidden + element] = 1.0f;
    editor.floats("blk.0.attn_v.weight")[element * 2 * hidden + element] = 1.0f;
  }
  std::copy_n(of_model.floats("output_norm.weight"), hidden, editor.floats("output_norm.weight"));
  if (float* own = editor.floats("token_embd.weight")) {
    std::copy_n(of_model.floats("token_embd.weight"), count_of(file.tensor("token_embd.weight")), own);
  }
  const GgufTensor* const ids = file.find_tensor("d2t");
  for (std::int64_t row = 0; row < file.tensor("output.weight").tensor.shape[0]; ++row) {
    std::int64_t token = row;
    if (ids != nullptr) {
      std::memcpy(&token, static_cast<const std::byte*>(ids->tensor.data) + row * std::int64_t{sizeof token}, sizeof token);
    }
    std::copy_n(of_model.floats("output.weight") + token * hidden, hidden, editor.floats("output.weight") + row * hidden);
  }
  const std::string path = model + ".draft.gguf";
  editor.save_as(path);
  return path;
}

class EagleModel : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override {
    for (const std::string& path : {model_, draft_}) {
      std::remove(path.c_str());
    }
  }

  std::string model_ = nearly_plain_model(GetParam());
  std::string draft_ = agreeing_draft(GetParam(), model_);
};

TEST_P(EagleModel, DraftsChangeNoToken) { expect_same_texts(model_, draft_); }

TEST_P(EagleModel, DraftsChangeNoTokenOfAModelThatDevicesShare) { expect_same_texts_on_two(model_, draft_); }

TEST_P(EagleModel, WrongDraftsChangeNoTokenAndEnd) { expect_wrong_drafts_to_end(model_, golden_draft(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Golden, EagleModel, ::testing::Values("llama", "qwen3"),
                         [](const auto& instance) { return instance.param; });

TEST(EagleUse, TheDraftIsPlannedWithItsModel) {
  const std::string model = golden_model_file("eagle3/llama");
  EngineOptions options = on_cpu({.kv_tokens = 256});
  const auto plan = [&](const DraftOptions& drafts) {
    options.drafts = drafts;
    return plan_model(model, options);
  };
  const PlannedModel with = plan({.model = golden_draft("llama")});
  const PlannedModel without = plan(no_drafts());
  EXPECT_NE(with.eagle, nullptr);
  EXPECT_EQ(without.eagle, nullptr);
  EXPECT_EQ(plan({.model = model}).eagle, nullptr) << "a draft model";
  EXPECT_GT(with.memory.weight_bytes, without.memory.weight_bytes);
  EXPECT_GT(with.memory.kv_bytes_per_token, without.memory.kv_bytes_per_token);
  EXPECT_GT(with.model->workspace_bytes(), without.model->workspace_bytes());
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_draft("qwen2")}); }),
            golden_draft("qwen2") +
                ": key 'eagle3.target_hidden_size' is 48, the model's width is 32: it drafts for another "
                "model");
  EXPECT_EQ(test::error_of([&] { plan({.model = golden_draft("llama"), .mtp = MtpUse::on}); }),
            "a draft model and the file's MTP blocks can't draft both");
  std::remove(model.c_str());
}

}  // namespace
}  // namespace rocmforge::eagle_drafts_test
