#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config/model_config.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

// Blocks of multi-token prediction: golden logits are those of the block, not of the model.
namespace rocmforge::testing::mtp_test {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr double allowed = 1e-4;  // as in the golden tests
const std::vector<std::string> names{"mtp/deepseek-v3", "mtp/glm4moe", "mtp/qwen35moe"};

ModelOptions with_mtp() {
  ModelOptions options = f32_options();
  options.load_mtp = true;
  return options;
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

/// The logits of a changed golden model's block.
template <class Change>
std::vector<float> logits_after(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  Runner runner(open.file, "reference", with_mtp());
  return whole(runner, read_golden(name).tokens);
}

template <class Change>
std::string refusal_with_mtp(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  return error_text([&] { Runner(open.file, "reference", with_mtp()); });
}

class MtpTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string problem = missing(set_, file_); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
  }

  const std::string& name_ = std::get<0>(GetParam());
  const std::string& set_ = std::get<1>(GetParam());
  Golden golden_ = read_golden(name_);
  GgufFile file_{golden_path(name_)};
};

TEST_P(MtpTest, LogitsAreThoseOfTheReference) {
  Runner runner(file_, set_, with_mtp());
  EXPECT_LE(relative_error(whole(runner, golden_.tokens), golden_.logits), logit_tolerance(set_));
}

TEST_P(MtpTest, ChunksAndOtherSequencesLeaveTheSameBits) {
  Runner runner(file_, set_, with_mtp());
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

TEST_P(MtpTest, TheModelIsTheSameWithItsBlocks) {
  Runner with(file_, set_, with_mtp());
  Runner without(file_, set_, f32_options());
  EXPECT_EQ(with.model().mtp_blocks(), 1);
  EXPECT_EQ(without.model().mtp_blocks(), 0);
  expect_same_logits(with.whole(golden_.tokens), without.whole(golden_.tokens), set_);
  EXPECT_EQ(with.model().bytes_per_token(), without.model().bytes_per_token());
  EXPECT_EQ(with.model().kv_groups()[0].planes.size(), without.model().kv_groups()[0].planes.size() + 1);
  EXPECT_GE(with.model().packed_bytes(), without.model().packed_bytes());
}

INSTANTIATE_TEST_SUITE_P(Golden, MtpTest,
                         ::testing::Combine(::testing::ValuesIn(names), ::testing::ValuesIn(forced_kernel_sets())),
                         [](const auto& instance) {
                           std::string text = std::get<0>(instance.param) + "_" + std::get<1>(instance.param);
                           std::ranges::replace_if(
                               text, [](char c) { return c == '-' || c == '/'; }, '_');
                           return text;
                         });

TEST(Mtp, EveryTensorOfTheBlockMatters) {
  for (const std::string& name : names) {
    const Golden golden = read_golden(name);
    const ModelFile file = ModelFile::golden(name);
    int changed = 0;
    for (const ModelFile::Weight& weight : file.weights) {
      if (!weight.name.starts_with("blk.2.")) {
        continue;
      }
      ++changed;
      const std::vector<float> logits = logits_after(name, [&](ModelFile& model) {
        std::fill_n(model.weight(weight.name).floats(), weight.shape.elems(), weight.shape.rank() == 1 ? 1.0f : 0.0f);
      });
      EXPECT_GT(relative_error(logits, golden.logits), 100 * allowed) << name << " " << weight.name;
    }
    EXPECT_GE(changed, 16) << name;
  }
}

/// Embedding, norm and head of its own that are those of the model change nothing.
TEST(Mtp, WhatTheFileLeavesOutIsTheModels) {
  const std::vector<std::pair<std::string, std::string>> parts{
      {"embed_tokens", "token_embd"}, {"shared_head_norm", "output_norm"}, {"shared_head_head", "output"}};
  for (const auto& [own, of_model] : parts) {
    const std::string tensor = "blk.2.nextn." + own + ".weight";
    const std::string shared = of_model + ".weight";
    const std::vector<float> same =
        logits_after("mtp/glm4moe", [&](ModelFile& model) { model.weight(tensor).data = model.weight(shared).data; });
    const std::vector<float> none = logits_after("mtp/glm4moe", [&](ModelFile& model) { model.remove_weight(tensor); });
    EXPECT_EQ(same, none) << own;
  }
}

TEST(Mtp, TheProjectionMayBeQuantised) {
  const std::string name = "mtp/qwen35moe";
  ModelFile model = ModelFile::golden(name);
  model.convert("blk.2.nextn.eh_proj.weight", DType::q8_0);
  const OpenModel quantised(model);
  const OpenModel plain(model.in_f32());
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner own(quantised.file, set, with_mtp());
    Runner reference(plain.file, "reference", with_mtp());
    const Tokens tokens = read_golden(name).tokens;
    EXPECT_LE(relative_error(whole(own, tokens), whole(reference, tokens)), set == "reference" ? 1e-5 : 3e-2) << set;
  }
}

/// A step of `tokens` from `first` on whose hidden states are all wanted.
BatchPlan step_of(const Tokens& tokens, std::int32_t first, bool logits) {
  BatchPlan plan;
  plan.clear();
  plan.add_sequence(tokens, first, Tokens{0, 1, 2}, logits, logits);
  plan.hidden_rows.resize(tokens.size());
  std::iota(plan.hidden_rows.begin(), plan.hidden_rows.end(), 0);
  plan.finish();
  return plan;
}

std::vector<float> logits_of(Runner& runner) {
  const std::span<const float> logits = runner.model().logits();
  return {logits.begin(), logits.end()};
}

TEST(Mtp, AStepMayLeaveKeysAloneAndGivesStatesToGoOnFrom) {
  const Golden golden = read_golden("mtp/glm4moe");
  const GgufFile file{golden_path("mtp/glm4moe")};
  ModelFile parts = ModelFile::golden("mtp/glm4moe");
  const float* head = parts.weight("blk.2.nextn.shared_head_head.weight").floats();
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set, with_mtp());
    const std::int32_t count = 40;
    const auto at = [&](std::int32_t row) { return golden.logits.begin() + std::ptrdiff_t{row} * golden.vocab; };
    BatchPlan plan = step_of({golden.tokens.begin(), golden.tokens.begin() + count}, 0, false);
    runner.model().forward(plan, runner.memory());
    plan.tokens.assign(golden.tokens.begin() + 1, golden.tokens.begin() + count + 1);
    plan.hidden_rows.clear();
    runner.model().forward_mtp(0, plan, runner.memory());

    BatchPlan next = step_of({golden.tokens[count]}, count, true);
    runner.model().forward(next, runner.memory());
    next.tokens = {golden.tokens[count + 1]};
    runner.model().forward_mtp(0, next, runner.memory());
    const std::vector<float> logits = logits_of(runner);
    EXPECT_LE(relative_error(logits, {at(count), at(count + 1)}), logit_tolerance(set)) << set;
    const std::span<const float> hidden = runner.model().hidden();
    std::vector<float> again;
    for (std::int32_t v = 0; v < golden.vocab; ++v) {
      again.push_back(std::inner_product(hidden.begin(), hidden.end(), head + v * std::ssize(hidden), 0.0f));
    }
    EXPECT_LE(relative_error(again, logits), logit_tolerance(set)) << set;
  }
}

TEST(Mtp, TakesTheTokensThatTheStepDrew) {
  const Golden golden = read_golden("mtp/deepseek-v3");
  const GgufFile file{golden_path("mtp/deepseek-v3")};
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set, with_mtp());
    BatchPlan plan = step_of(golden.tokens, 0, true);
    plan.sample_rows.resize(golden.tokens.size());
    BatchPlan block = plan;
    block.sample_rows.clear();
    block.hidden_rows.clear();
    runner.model().forward(plan, runner.memory());
    const std::span<const std::int32_t> drawn = runner.model().sampled();
    block.tokens.assign(drawn.begin(), drawn.end());
    runner.model().forward_mtp(0, block, runner.memory());
    const std::vector<float> expected = logits_of(runner);
    runner.model().forward(plan, runner.memory());
    for (std::size_t row = 0; row < block.tokens.size(); ++row) {
      block.tokens[row] = EmbeddingRows::drawn_token(static_cast<std::int32_t>(row));
    }
    runner.model().forward_mtp(0, block, runner.memory());
    EXPECT_EQ(logits_of(runner), expected) << set;
  }
}

TEST(Mtp, ATokenForEachHiddenRowIsDemanded) {
  const GgufFile file{golden_path("mtp/glm4moe")};
  Runner runner(file, "reference", with_mtp());
  BatchPlan plan = step_of({3, 4, 5}, 0, true);
  EXPECT_THROW(runner.model().forward_mtp(0, plan, runner.memory()), LogicError) << "no step has left hidden states";
  runner.model().forward(plan, runner.memory());
  const BatchPlan shorter = step_of({4, 5}, 0, true);
  EXPECT_THROW(runner.model().forward_mtp(0, shorter, runner.memory()), LogicError);
  EXPECT_THROW(runner.model().forward_mtp(1, plan, runner.memory()), LogicError) << "there is one block";
  runner.model().forward_mtp(0, plan, runner.memory());
}

TEST(Mtp, ABlockAttendsWhateverTheIntervalSays) {
  const ModelConfig config = ModelConfig::from_gguf(GgufFile{golden_path("mtp/qwen35moe")});
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.mtp_blocks, 1);
  ASSERT_EQ(config.blocks.size(), 3u);
  EXPECT_EQ(config.layer(0).mixer, MixerKind::delta_net);
  EXPECT_EQ(config.layer(2).mixer, MixerKind::attention);
}

TEST(Mtp, WhatDoesNotFitIsRefusedByName) {
  const std::string projection = "blk.2.nextn.eh_proj.weight";
  EXPECT_EQ(refusal_with_mtp("glm4moe", [](ModelFile&) {}),
            "tiny.gguf: has no MTP blocks: key 'glm4moe.nextn_predict_layers' is missing or 0");
  for (const char* part : {"nextn.eh_proj", "nextn.enorm", "nextn.hnorm", "attn_k", "ffn_gate_inp"}) {
    const std::string tensor = std::string("blk.2.") + part + ".weight";
    EXPECT_EQ(refusal_with_mtp("mtp/glm4moe", [&](ModelFile& model) { model.remove_weight(tensor); }),
              "tiny.gguf: tensor '" + tensor + "' is missing");
  }
  EXPECT_EQ(refusal_with_mtp("mtp/glm4moe",
                             [&](ModelFile& model) {
                               model.weight(projection).shape = {64, 32};
                             }),
            "tiny.gguf: tensor '" + projection + "' is [64, 32], expected [32, 64]");
  EXPECT_EQ(refusal_with_mtp("mtp/glm4moe",
                             [&](ModelFile& model) {
                               ModelFile::Weight& weight = model.weight(projection);
                               weight.dtype = DType::nvfp4;
                               weight.data.assign(row_bytes(DType::nvfp4, weight.shape.elems()), std::byte{});
                             }),
            "tiny.gguf: tensor '" + projection + "' is NVFP4, whose blocks of 64 columns can't be parted behind column 32");
  EXPECT_EQ(
      refusal_with_mtp("mtp/glm4moe",
                       [](ModelFile& model) { model.add_vector("blk.2.nextn.eh_proj.bias", std::vector<float>(32, 0.5f)); }),
      "tiny.gguf: tensor 'blk.2.nextn.eh_proj.bias' changes the computation and is not supported");
  // Without load_mtp the block's tensors are not checked.
  EXPECT_EQ(refusal("mtp/glm4moe", [&](ModelFile& model) { model.remove_weight(projection); }), "no error");
}

}  // namespace
}  // namespace rocmforge::testing::mtp_test
