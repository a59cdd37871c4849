// EAGLE3 drafts: golden logits are those of the draft, computed from the paper's equations on the inputs of its model's
// layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config/eagle_file.h"
#include "models/config/model_config.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::eagle_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr double allowed = 1e-4;  // as in the golden tests
const std::vector<std::string> names{"llama", "qwen3", "qwen2"};

std::string model_of(const std::string& name) { return "eagle3/" + name; }
std::string draft_of(const std::string& name) { return "eagle3/" + name + "-draft"; }

std::shared_ptr<const EagleFile> eagle_file(GgufFile draft, const GgufFile& model) {
  const ModelConfig config = ModelConfig::from_gguf(model);
  return std::make_shared<const EagleFile>(std::move(draft), model, config, config.context_length);
}

ModelOptions with(std::shared_ptr<const EagleFile> eagle) {
  ModelOptions options = f32_options();
  options.eagle = std::move(eagle);
  return options;
}

ModelOptions with_golden(const std::string& name, const GgufFile& model) {
  return with(eagle_file(GgufFile(golden_path(draft_of(name))), model));
}

/// Positions [first, first + count) of the sequence and the tokens after them. The token after the last position is the
/// first token.
Runner::Predicted part(const Tokens& tokens, std::int32_t first, std::int32_t count, Tokens blocks) {
  Tokens behind = tokens;
  std::rotate(behind.begin(), behind.begin() + 1, behind.end());
  return {{{tokens.begin() + first, tokens.begin() + first + count}, first, std::move(blocks)},
          {behind.begin() + first, behind.begin() + first + count}};
}

std::vector<float> whole(Runner& runner, const Tokens& tokens) {
  return runner.predict({part(tokens, 0, static_cast<std::int32_t>(tokens.size()), {0, 1, 2})});
}

class EagleTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string problem = missing(set_, file_); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
  }

  const std::string& name_ = std::get<0>(GetParam());
  const std::string& set_ = std::get<1>(GetParam());
  Golden golden_ = read_golden(draft_of(name_));
  GgufFile file_{golden_path(model_of(name_))};
  ModelOptions options_ = with_golden(name_, file_);
};

TEST_P(EagleTest, LogitsAreThoseOfTheEquations) {
  Runner runner(file_, set_, options_);
  EXPECT_LE(relative_error(whole(runner, golden_.tokens), golden_.logits), logit_tolerance(set_));
}

TEST_P(EagleTest, ChunksAndOtherSequencesLeaveTheSameBits) {
  Runner runner(file_, set_, options_);
  const Tokens& tokens = golden_.tokens;
  const auto length = static_cast<std::int32_t>(tokens.size());
  const std::vector<float> all = whole(runner, tokens);
  for (const std::int32_t chunk : {1, 17}) {
    std::vector<float> logits;
    for (std::int32_t first = 0; first < length; first += chunk) {
      const std::vector<float> rows = runner.predict({part(tokens, first, std::min(chunk, length - first), {17, 3, 9})});
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    expect_same_logits(logits, all, set_, "chunks of " + std::to_string(chunk));
  }
  runner.predict({part(tokens, 0, 40, {22, 8, 13})});
  const std::vector<float> beside = runner.predict({part(tokens, 40, 1, {22, 8, 13}), part(tokens, 0, 18, {0, 23})});
  const auto at = [&](std::int32_t row) { return all.begin() + std::ptrdiff_t{row} * golden_.vocab; };
  std::vector<float> expected(at(40), at(41));
  expected.insert(expected.end(), at(0), at(18));
  expect_same_logits(beside, expected, set_, "beside another sequence");
}

/// A step of `tokens` from `first` on.
BatchPlan step_of(const Tokens& tokens, std::int32_t first) {
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(tokens, first, Tokens{0, 1, 2}, false);
  plan.finish();
  return plan;
}

/// The last row draws, and its state is wanted.
void continue_from_last(BatchPlan& plan) {
  plan.logit_rows = {plan.num_tokens() - 1};
  plan.hidden_rows = plan.logit_rows;
  plan.sample_rows.assign(1, SampleTokens::Row{});
}

TEST_P(EagleTest, GoesOnFromItsOwnStates) {
  const Golden next = read_golden(model_of(name_) + "-next");
  Runner runner(file_, set_, options_);
  Model& model = runner.model();
  const auto length = static_cast<std::int32_t>(golden_.tokens.size());
  BatchPlan plan = step_of(golden_.tokens, 0);
  plan.hidden_rows.resize(golden_.tokens.size());
  std::iota(plan.hidden_rows.begin(), plan.hidden_rows.end(), 0);
  model.forward(plan, runner.memory());
  std::rotate(plan.tokens.begin(), plan.tokens.begin() + 1, plan.tokens.end());
  continue_from_last(plan);
  model.forward_mtp(0, plan, runner.memory());
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(next.tokens.size()); ++i) {
    ASSERT_EQ(model.sampled()[0], next.tokens[static_cast<std::size_t>(i)]) << "a token of the model's vocabulary";
    BatchPlan step = step_of({next.tokens[static_cast<std::size_t>(i)]}, length + i);
    continue_from_last(step);
    model.forward_mtp(0, step, runner.memory());
    const std::span<const float> logits = model.logits();
    const auto at = [&](std::int32_t row) { return next.logits.begin() + std::ptrdiff_t{row} * next.vocab; };
    EXPECT_LE(relative_error({logits.begin(), logits.end()}, {at(i), at(i + 1)}), logit_tolerance(set_)) << i;
  }
}

TEST_P(EagleTest, TheModelIsTheSameWithIt) {
  Runner with_it(file_, set_, options_);
  Runner without(file_, set_, f32_options());
  EXPECT_EQ(with_it.model().mtp_blocks(), 1);
  expect_same_logits(with_it.whole(golden_.tokens), without.whole(golden_.tokens), set_);
  whole(with_it, golden_.tokens);
  expect_same_logits(with_it.whole(golden_.tokens), without.whole(golden_.tokens), set_, "behind a draft");
  EXPECT_EQ(with_it.model().bytes_per_token(), without.model().bytes_per_token());
  EXPECT_EQ(with_it.model().kv_groups()[0].planes.size(), without.model().kv_groups()[0].planes.size() + 1);
  EXPECT_GE(with_it.model().packed_bytes(), without.model().packed_bytes());
}

INSTANTIATE_TEST_SUITE_P(Golden, EagleTest,
                         ::testing::Combine(::testing::ValuesIn(names), ::testing::ValuesIn(forced_kernel_sets())),
                         [](const auto& instance) {
                           std::string text = std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                           std::ranges::replace(text, '-', '_');
                           return text;
                         });

TEST(Eagle, EveryTensorMatters) {
  for (const std::string& name : names) {
    const Golden golden = read_golden(draft_of(name));
    const GgufFile file{golden_path(model_of(name))};
    const ModelFile plain = ModelFile::golden(draft_of(name));
    for (const ModelFile::Weight& weight : plain.weights) {
      if (weight.name == "d2t") {
        continue;  // it names tokens alone
      }
      ModelFile draft = plain;
      const bool is_norm = weight.shape.rank() == 1;
      std::fill_n(draft.weight(weight.name).floats(), weight.shape.elems(), is_norm ? 1.0f : 0.0f);
      const std::vector<std::byte> bytes = draft.bytes();
      Runner runner(file, "reference", with(eagle_file(GgufFile::from_memory(bytes, "draft.gguf"), file)));
      EXPECT_GT(relative_error(whole(runner, golden.tokens), golden.logits), 100 * allowed) << name << " " << weight.name;
    }
  }
}

TEST(Eagle, ADraftMayBeQuantised) {
  const std::string name = "llama";
  const GgufFile file{golden_path(model_of(name))};
  ModelFile draft = ModelFile::golden(draft_of(name));
  for (const char* tensor : {"fc.weight", "blk.0.attn_q.weight", "output.weight"}) {
    draft.convert(tensor, DType::q8_0);
  }
  const std::vector<std::byte> quantised = draft.bytes();
  const std::vector<std::byte> plain = draft.in_f32().bytes();
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner own(file, set, with(eagle_file(GgufFile::from_memory(quantised, "draft.gguf"), file)));
    Runner reference(file, "reference", with(eagle_file(GgufFile::from_memory(plain, "draft.gguf"), file)));
    const Tokens tokens = read_golden(draft_of(name)).tokens;
    EXPECT_LE(relative_error(whole(own, tokens), whole(reference, tokens)), set == "reference" ? 1e-5 : 3e-2) << set;
  }
}

/// Why a changed draft of golden model `name` is refused.
template <class Change>
std::string refusal_of(const std::string& name, Change&& change) {
  const GgufFile file{golden_path(model_of(name))};
  ModelFile draft = ModelFile::golden(draft_of(name));
  change(draft);
  const std::vector<std::byte> bytes = draft.bytes();
  return error_text([&] { eagle_file(GgufFile::from_memory(bytes, "draft.gguf"), file); });
}

GgufValue counts(std::vector<std::uint64_t> values) { return GgufArray{GgufType::u32, std::move(values)}; }

TEST(Eagle, ADraftOfAnotherModelIsRefused) {
  const auto with_key = [](const char* key, GgufValue value) {
    return refusal_of("llama", [&](ModelFile& draft) { draft.set(std::string("eagle3.") + key, std::move(value)); });
  };
  EXPECT_EQ(with_key("target_hidden_size", std::uint64_t{48}),
            "draft.gguf: key 'eagle3.target_hidden_size' is 48, the model's width is 32: it drafts for another model");
  EXPECT_EQ(with_key("target_layers", counts({1, 2, 5})),
            "draft.gguf: key 'eagle3.target_layers' is [1, 2, 5]: they must rise, up to the model's 4 layers");
  EXPECT_EQ(with_key("target_layers", counts({1, 3, 2})),
            "draft.gguf: key 'eagle3.target_layers' is [1, 3, 2]: they must rise, up to the model's 4 layers");
  EXPECT_EQ(with_key("block_count", std::uint64_t{2}),
            "draft.gguf: key 'eagle3.block_count' is 2, an EAGLE3 draft has one block");
  EXPECT_NE(with_key("target_layers", counts({1, 2})).find("tensor 'fc.weight' is"), std::string::npos);
  EXPECT_NE(with_key("attention.key_length", std::uint64_t{2000000000}).find("value_length"), std::string::npos);
  EXPECT_EQ(refusal_of("qwen2", [](ModelFile& draft) { draft.remove_weight("token_embd.weight"); }),
            "draft.gguf: tensor 'token_embd.weight' is missing, and the model's embedding is 48 wide, not 32");
  EXPECT_NE(refusal_of("qwen3", [](ModelFile& draft) { draft.remove_weight("d2t"); }).find("tensor 'output.weight' is"),
            std::string::npos);
  EXPECT_EQ(refusal_of("llama", [](ModelFile&) {}), "no error");
}

TEST(Eagle, LayersWithSeveralInputsHaveNoDraft) {
  const GgufFile model{golden_path("gemma3n")};
  const ModelConfig config = ModelConfig::from_gguf(model);
  ModelFile draft = ModelFile::golden(draft_of("llama"));
  draft.set("eagle3.target_hidden_size", static_cast<std::uint64_t>(config.hidden));
  const std::vector<std::byte> bytes = draft.bytes();
  EXPECT_EQ(error_text([&] { eagle_file(GgufFile::from_memory(bytes, "draft.gguf"), model); }),
            "draft.gguf: key 'eagle3.target_layers' has no meaning: the model's layers have 4 inputs");
}

TEST(Eagle, IdsAreTokensOfTheModelAndDiffer) {
  const auto with_id = [](std::int64_t id) {
    return refusal_of("qwen3",
                      [id](ModelFile& draft) { std::memcpy(draft.weight("d2t").data.data() + sizeof id, &id, sizeof id); });
  };
  EXPECT_EQ(with_id(112), "draft.gguf: tensor 'd2t' has id 112 at place 1, which is outside the model's vocabulary of 112");
  EXPECT_EQ(with_id(-1), "draft.gguf: tensor 'd2t' has id -1 at place 1, which is outside the model's vocabulary of 112");
  std::int64_t first = 0;
  ModelFile draft = ModelFile::golden(draft_of("qwen3"));
  std::memcpy(&first, draft.weight("d2t").data.data(), sizeof first);
  EXPECT_EQ(with_id(first), "draft.gguf: tensor 'd2t' has id " + std::to_string(first) + " at place 1, which stands before");
}

TEST(Eagle, TokensThatBothFilesNameAgree) {
  ModelFile model = ModelFile::golden(model_of("llama"));
  ModelFile draft = ModelFile::golden(draft_of("llama"));
  std::vector<std::string> tokens;
  for (int i = 0; i < 112; ++i) {
    tokens.push_back("t" + std::to_string(i));
  }
  model.set("tokenizer.ggml.tokens", GgufArray{GgufType::string, tokens});
  const OpenModel open(model);
  const auto refused = [&] {
    draft.set("tokenizer.ggml.tokens", GgufArray{GgufType::string, tokens});
    const std::vector<std::byte> bytes = draft.bytes();
    return error_text([&] { eagle_file(GgufFile::from_memory(bytes, "draft.gguf"), open.file); });
  };
  EXPECT_EQ(refused(), "no error");
  tokens[7] = "another";
  EXPECT_EQ(refused(), "draft.gguf: it can't draft for this model: its token 7 is 'another', the model's is 't7'");
}

TEST(Eagle, DevicesThatShareTheModelPredictAsOneDoes) {
  if (is_gpu(kernel_sets().back())) {
    GTEST_SKIP() << "on the CPU";
  }
  for (const std::string& name : names) {
    const Golden golden = read_golden(draft_of(name));
    const GgufFile file{golden_path(model_of(name))};
    Device devices[3];
    Runner one(file, devices[0], with_golden(name, file));
    const std::vector<float> expected = whole(one, golden.tokens);
    for (const std::vector<std::int32_t>& ends : std::vector<std::vector<std::int32_t>>{{1, 4}, {2, 4}, {3, 4}, {1, 3, 4}}) {
      ModelOptions options = with_golden(name, file);
      options.stage_ends = ends;
      std::vector<Device*> of_stages;
      for (std::size_t stage = 0; stage < ends.size(); ++stage) {
        of_stages.push_back(&devices[stage]);
      }
      Runner stages(file, of_stages, options);
      EXPECT_EQ(stages.model().mtp_blocks(), 1);
      EXPECT_EQ(whole(stages, golden.tokens), expected) << name << ", " << ends.size() << " from " << ends[0];
    }
    ModelOptions options = with_golden(name, file);
    options.ranks = 2;
    Runner ranks(file, "reference", options);
    EXPECT_LE(relative_error(whole(ranks, golden.tokens), golden.logits), logit_tolerance("reference")) << name;
  }
}

TEST(Eagle, WhatCannotHaveADraftIsOneLine) {
  const GgufFile file{golden_path(model_of("llama"))};
  const auto refused = [&](const auto& change) {
    ModelOptions options = with_golden("llama", file);
    change(options);
    return error_text([&] { Runner(file, "reference", options); });
  };
  EXPECT_EQ(refused([](ModelOptions& options) {
              options.placement.layers.resize(4);
              options.placement.layers[0].side = Side::host;
            }),
            golden_path(draft_of("llama")) + ": an EAGLE3 draft needs a model of which no part is on the CPU beside a GPU");
  ModelFile draft = ModelFile::golden(draft_of("llama"));
  draft.convert("blk.0.attn_output.weight", DType::q8_0);
  const std::vector<std::byte> bytes = draft.bytes();
  ModelOptions shared = with(eagle_file(GgufFile::from_memory(bytes, "draft.gguf"), file));
  shared.ranks = 2;
  EXPECT_EQ(error_text([&] { Runner(file, "reference", shared); }).find("draft.gguf: tensor 'blk.0.attn_output.weight'"), 0u)
      << "columns of 32 in blocks of 32";
}

}  // namespace
}  // namespace rocmforge::testing::eagle_test
