// Assistants of Gemma 4 models: golden logits are those of transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config/assistant_file.h"
#include "models/config/model_config.h"
#include "models/config/model_tensors.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::assistant_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr double allowed = 1e-4;  // as in the golden tests
// Layers with K and V of their own, and such as read those of earlier ones.
const std::vector<std::string> names{"gemma4", "gemma4-e"};

std::string draft_of(const std::string& name) { return "assistant/" + name + "-draft"; }

std::shared_ptr<const AssistantFile> assistant_file(GgufFile draft, const GgufFile& model) {
  const ModelConfig config = ModelConfig::from_gguf(model);
  return std::make_shared<const AssistantFile>(std::move(draft), model, config, config.context_length);
}

ModelOptions with(std::shared_ptr<const AssistantFile> assistant) {
  ModelOptions options = f32_options();
  options.assistant = std::move(assistant);
  return options;
}

ModelOptions with_golden(const std::string& name, const GgufFile& model) {
  return with(assistant_file(GgufFile(golden_path(draft_of(name))), model));
}

/// Positions [first, first + count) of the sequence and the tokens after them. The token after the last position is the
/// first token.
Runner::Predicted part(const Tokens& tokens, std::int32_t first, std::int32_t count, Tokens blocks) {
  Tokens behind = tokens;
  std::rotate(behind.begin(), behind.begin() + 1, behind.end());
  return {{{tokens.begin() + first, tokens.begin() + first + count}, first, std::move(blocks)},
          {behind.begin() + first, behind.begin() + first + count}};
}

std::vector<float> predict(Runner& runner, const std::vector<Runner::Predicted>& parts) { return runner.predict(parts, 1); }

std::vector<float> whole(Runner& runner, const Tokens& tokens) {
  return predict(runner, {part(tokens, 0, static_cast<std::int32_t>(tokens.size()), {0, 1, 2})});
}

class AssistantTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string problem = missing(set_, file_); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
  }

  const std::string& name_ = std::get<0>(GetParam());
  const std::string& set_ = std::get<1>(GetParam());
  Golden golden_ = read_golden(draft_of(name_));
  GgufFile file_{golden_path(name_)};
  ModelOptions options_ = with_golden(name_, file_);
};

TEST_P(AssistantTest, LogitsAreThoseOfTheReferenceImplementation) {
  Runner runner(file_, set_, options_);
  EXPECT_LE(relative_error(whole(runner, golden_.tokens), golden_.logits), logit_tolerance(set_));
}

TEST_P(AssistantTest, ChunksAndOtherSequencesLeaveTheSameBits) {
  Runner runner(file_, set_, options_);
  const Tokens& tokens = golden_.tokens;
  const auto length = static_cast<std::int32_t>(tokens.size());
  const std::vector<float> all = whole(runner, tokens);
  for (const std::int32_t chunk : {1, 17}) {
    std::vector<float> logits;
    for (std::int32_t first = 0; first < length; first += chunk) {
      const std::vector<float> rows = predict(runner, {part(tokens, first, std::min(chunk, length - first), {17, 3, 9})});
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    expect_same_logits(logits, all, set_, "chunks of " + std::to_string(chunk));
  }
  predict(runner, {part(tokens, 0, 40, {22, 8, 13})});
  const std::vector<float> beside = predict(runner, {part(tokens, 40, 1, {22, 8, 13}), part(tokens, 0, 18, {0, 23})});
  const auto at = [&](std::int32_t row) { return all.begin() + std::ptrdiff_t{row} * golden_.vocab; };
  std::vector<float> expected(at(40), at(41));
  expected.insert(expected.end(), at(0), at(18));
  expect_same_logits(beside, expected, set_, "beside another sequence");
}

/// All tokens of a draft have the cell of the row that it continues, and the position behind.
TEST_P(AssistantTest, GoesOnFromItsOwnStatesAtOnePosition) {
  const Golden next = read_golden("assistant/" + name_ + "-next");
  Runner runner(file_, set_, options_);
  Model& model = runner.model();
  const Tokens blocks{0, 1, 2};
  const auto plan_of = [&](const Tokens& tokens, std::int32_t first) {
    BatchPlan plan;
    plan.clear();
    plan.add_sequence(tokens, first, blocks, false);
    for (std::int32_t group = 1; group < runner.memory().num_groups(); ++group) {
      plan.add_blocks(group, blocks);
    }
    plan.finish();
    return plan;
  };
  const auto predict_last = [&](BatchPlan& plan) {
    std::ranges::for_each(plan.positions, [](std::int32_t& position) { ++position; });
    plan.logit_rows = {plan.num_tokens() - 1};
    plan.hidden_rows = plan.logit_rows;
    plan.sample_rows.assign(1, SampleTokens::Row{});
    model.forward_mtp(0, plan, runner.memory());
  };
  const auto length = static_cast<std::int32_t>(golden_.tokens.size());
  BatchPlan plan = plan_of(golden_.tokens, 0);
  plan.hidden_rows.resize(golden_.tokens.size());
  std::iota(plan.hidden_rows.begin(), plan.hidden_rows.end(), 0);
  model.forward(plan, runner.memory());
  std::rotate(plan.tokens.begin(), plan.tokens.begin() + 1, plan.tokens.end());
  predict_last(plan);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(next.tokens.size()); ++i) {
    const std::int32_t token = next.tokens[static_cast<std::size_t>(i)];
    ASSERT_EQ(model.sampled()[0], token);
    BatchPlan step = plan_of({token}, length - 1);
    predict_last(step);
    const std::span<const float> logits = model.logits();
    const auto at = [&](std::int32_t row) { return next.logits.begin() + std::ptrdiff_t{row} * next.vocab; };
    EXPECT_LE(relative_error({logits.begin(), logits.end()}, {at(i), at(i + 1)}), logit_tolerance(set_)) << i;
  }
}

TEST_P(AssistantTest, TheModelIsTheSameWithIt) {
  Runner with_it(file_, set_, options_);
  Runner without(file_, set_, f32_options());
  EXPECT_EQ(with_it.model().mtp_blocks(), 1);
  whole(with_it, golden_.tokens);
  expect_same_logits(with_it.whole(golden_.tokens), without.whole(golden_.tokens), set_, "behind a draft");
  EXPECT_EQ(with_it.model().bytes_per_token(), without.model().bytes_per_token());
  EXPECT_TRUE(same_planes(with_it.model().kv_groups(), without.model().kv_groups())) << "no keys and values of its own";
  EXPECT_GE(with_it.model().packed_bytes(), without.model().packed_bytes());
}

INSTANTIATE_TEST_SUITE_P(Golden, AssistantTest,
                         ::testing::Combine(::testing::ValuesIn(names), ::testing::ValuesIn(forced_kernel_sets())),
                         [](const auto& instance) {
                           std::string text = std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST(Assistant, EveryTensorMatters) {
  for (const std::string& name : names) {
    const Golden golden = read_golden(draft_of(name));
    const GgufFile file{golden_path(name)};
    const ModelFile plain = ModelFile::golden(draft_of(name));
    const auto layers =
        static_cast<std::int32_t>(GgufFile(golden_path(draft_of(name))).integer("gemma4-assistant.block_count"));
    const std::string last_scale = block_tensor(layers - 1, "layer_output_scale.weight");
    for (const ModelFile::Weight& weight : plain.weights) {
      if (weight.name == "nextn.post_projection.weight" || weight.name == last_scale) {
        continue;  // of the states behind (GoesOnFromItsOwnStatesAtOnePosition), and of what a norm scales again
      }
      ModelFile draft = plain;
      const bool is_factor = weight.shape.rank() == 1;
      std::fill_n(draft.weight(weight.name).floats(), weight.shape.elems(), is_factor ? 1.0f : 0.0f);
      const std::vector<std::byte> bytes = draft.bytes();
      Runner runner(file, "reference", with(assistant_file(GgufFile::from_memory(bytes, "draft.gguf"), file)));
      EXPECT_GT(relative_error(whole(runner, golden.tokens), golden.logits), 10 * allowed) << name << " " << weight.name;
    }
  }
}

TEST(Assistant, ADraftMayBeQuantised) {
  const GgufFile file{golden_path("gemma4")};
  ModelFile draft = ModelFile::golden(draft_of("gemma4"));
  for (const char* tensor :
       {"blk.0.nextn.pre_projection.weight", "nextn.post_projection.weight", "blk.0.attn_q.weight", "token_embd.weight"}) {
    draft.convert(tensor, DType::q8_0);
  }
  const std::vector<std::byte> quantised = draft.bytes();
  const std::vector<std::byte> plain = draft.in_f32().bytes();
  const Tokens tokens = read_golden(draft_of("gemma4")).tokens;
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner own(file, set, with(assistant_file(GgufFile::from_memory(quantised, "draft.gguf"), file)));
    Runner reference(file, "reference", with(assistant_file(GgufFile::from_memory(plain, "draft.gguf"), file)));
    EXPECT_LE(relative_error(whole(own, tokens), whole(reference, tokens)), set == "reference" ? 1e-5 : 3e-2) << set;
  }
}

TEST(Assistant, DevicesThatShareTheModelPredictAsOneDoes) {
  if (is_gpu(kernel_sets().back())) {
    GTEST_SKIP() << "on the CPU";
  }
  const GgufFile file{golden_path("gemma4")};
  const Golden golden = read_golden(draft_of("gemma4"));
  Device devices[2];
  Runner one(file, devices[0], with_golden("gemma4", file));
  ModelOptions options = with_golden("gemma4", file);
  options.stage_ends = {2, 4};
  Runner stages(file, std::vector{&devices[0], &devices[1]}, options);
  EXPECT_EQ(whole(stages, golden.tokens), whole(one, golden.tokens));
  options = with_golden("gemma4", file);
  options.ranks = 2;
  Runner ranks(file, "reference", options);
  EXPECT_LE(relative_error(whole(ranks, golden.tokens), golden.logits), logit_tolerance("reference"));
}

/// Why a changed assistant of a golden model is refused.
template <class Change>
std::string refusal_of(const std::string& name, Change&& change) {
  const GgufFile file{golden_path(name)};
  ModelFile draft = ModelFile::golden(draft_of(name));
  change(draft);
  const std::vector<std::byte> bytes = draft.bytes();
  return error_text([&] { assistant_file(GgufFile::from_memory(bytes, "draft.gguf"), file); });
}

TEST(Assistant, ADraftOfAnotherModelIsRefused) {
  const auto with_key = [](const char* key, GgufValue value) {
    return refusal_of("gemma4",
                      [&](ModelFile& draft) { draft.set(std::string("gemma4-assistant.") + key, std::move(value)); });
  };
  EXPECT_EQ(refusal_of("gemma4", [](ModelFile&) {}), "no error");
  EXPECT_EQ(with_key("embedding_length_out", std::uint64_t{48}),
            "draft.gguf: key 'gemma4-assistant.embedding_length_out' is 48, the model's width is 32: it drafts for another "
            "model");
  EXPECT_EQ(with_key("embedding_length_per_layer_input", std::uint64_t{8}),
            "draft.gguf: key 'gemma4-assistant.embedding_length_per_layer_input' is 8: an assistant has no embeddings of "
            "layers");
  EXPECT_EQ(with_key("attention.sliding_window", std::uint64_t{12}),
            "draft.gguf: layer 0 reads 2 KV heads of 16 (window 12), the model's last layer with a window has 2 of 16 (11)");
  EXPECT_EQ(with_key("vocab_size", std::uint64_t{100}), "draft.gguf: it has 100 tokens, the model has 112");
  EXPECT_NE(with_key("expert_count", std::uint64_t{4}).find("experts are not supported"), std::string::npos);
  EXPECT_NE(refusal_of("gemma4", [](ModelFile& draft) { draft.remove_weight("nextn.post_projection.weight"); })
                .find("tensor 'nextn.post_projection.weight' is missing"),
            std::string::npos);
  const GgufFile llama{golden_path("llama-gqa4")};
  EXPECT_EQ(error_text([&] { assistant_file(GgufFile(golden_path(draft_of("gemma4"))), llama); }),
            golden_path(draft_of("gemma4")) + ": it drafts for models of architecture gemma4, the model is 'llama'");
  const GgufFile other{golden_path("gemma4-e")};
  EXPECT_EQ(error_text([&] { assistant_file(GgufFile(golden_path(draft_of("gemma4"))), other); }),
            golden_path(draft_of("gemma4")) +
                ": layer 2 reads 1 KV heads of 32 (window 0), the model's last layer without a window has 2 of 32 (0)");
}

TEST(Assistant, WhatCannotHaveADraftIsOneLine) {
  const GgufFile file{golden_path("gemma4")};
  const auto refused = [&](const auto& change) {
    ModelOptions options = with_golden("gemma4", file);
    change(options);
    return error_text([&] { Runner(file, "reference", options); });
  };
  const std::string draft = golden_path(draft_of("gemma4"));
  EXPECT_EQ(refused([](ModelOptions& options) {
              options.stage_ends = {3, 4};
            }),
            draft + ": an assistant reads the keys of layer 2, which must be on the last device");
  EXPECT_EQ(refused([](ModelOptions& options) {
              options.placement.layers.resize(4);
              options.placement.layers[0].side = Side::host;
            }),
            draft + ": an assistant needs a model of which no part is on the CPU beside a GPU");
}

}  // namespace
}  // namespace rocmforge::testing::assistant_test
