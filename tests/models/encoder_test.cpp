#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "error_of.h"
#include "kernels/register_all.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"

// Encoders: golden rows are hidden states of all tokens, or the scores of texts (tools/goldens/encoder_golden.py).
namespace rocmforge::testing::encoder_test {
namespace {

using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

constexpr double allowed = 1e-4;  // as in the golden tests

struct GoldenTexts {
  std::vector<Tokens> texts;
  bool scores = false;  ///< a row of each text, not of each token
  std::vector<float> rows;
};

GoldenTexts read_states(const std::string& name) {
  std::ifstream in(test::test_data("golden/models/") + name + ".states", std::ios::binary);
  std::uint32_t sizes[3] = {};
  in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  GoldenTexts golden;
  golden.scores = sizes[2] != 0;
  std::vector<std::uint32_t> lengths(sizes[0]);
  in.read(reinterpret_cast<char*>(lengths.data()), static_cast<std::streamsize>(lengths.size() * 4));
  for (const std::uint32_t length : lengths) {
    Tokens& text = golden.texts.emplace_back(length);
    in.read(reinterpret_cast<char*>(text.data()), static_cast<std::streamsize>(text.size() * 4));
  }
  const std::size_t count = golden.scores ? lengths.size() : std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  golden.rows.resize(count * sizes[1]);
  in.read(reinterpret_cast<char*>(golden.rows.data()), static_cast<std::streamsize>(golden.rows.size() * 4));
  check(static_cast<bool>(in), "golden states of " + name);
  return golden;
}

/// The wanted rows of texts in one step: all, or the first of each text.
std::vector<float> states(Runner& runner, std::span<const Tokens> texts, bool first_rows) {
  BatchPlan plan;
  plan.clear();
  std::int32_t block = 0;
  for (const Tokens& text : texts) {
    const std::int32_t first = plan.num_tokens();
    std::vector<std::int32_t> blocks(text.size() / Runner::block_tokens + 1);
    std::iota(blocks.begin(), blocks.end(), block);
    block += static_cast<std::int32_t>(blocks.size());
    plan.add_sequence(text, 0, blocks, false);
    for (std::int32_t row = first; row < (first_rows ? first + 1 : plan.num_tokens()); ++row) {
      plan.hidden_rows.push_back(row);
    }
  }
  plan.finish();
  runner.model().forward(plan, runner.memory());
  const std::span<const float> rows = runner.model().hidden();
  return {rows.begin(), rows.end()};
}

class EncoderTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string problem = missing(set_, file_); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    RecordProperty("architecture", file_.string("general.architecture"));
    runner_ = std::make_unique<Runner>(file_, set_);
  }

  const std::string& set_ = std::get<1>(GetParam());
  GoldenTexts golden_ = read_states(std::get<0>(GetParam()));
  GgufFile file_{golden_path(std::get<0>(GetParam()))};
  std::unique_ptr<Runner> runner_;
};

TEST_P(EncoderTest, RowsOfPackedTextsAreThoseOfTheReferenceImplementation) {
  const double error = relative_error(states(*runner_, golden_.texts, golden_.scores), golden_.rows);
  RecordProperty("relative_error", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, logit_tolerance(set_));
}

TEST_P(EncoderTest, TwoRanksGiveTheRowsOfTheReferenceImplementation) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "ranks are threads of the CPU";
  }
  ModelOptions options = f32_options();
  options.ranks = 2;
  Runner runner(file_, set_, options);
  EXPECT_LE(relative_error(states(runner, golden_.texts, golden_.scores), golden_.rows), logit_tolerance(set_));
}

TEST_P(EncoderTest, ATextHasTheSameRowsAloneAndBesideOthers) {
  std::vector<float> alone;
  for (const Tokens& text : golden_.texts) {
    const std::vector<float> rows = states(*runner_, {&text, 1}, golden_.scores);
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  expect_same_logits(states(*runner_, golden_.texts, golden_.scores), alone, set_);
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<std::string, std::string>>& info) {
  std::string text = std::get<0>(info.param).substr(std::string("encoders/").size()) + "_" + std::get<1>(info.param);
  std::ranges::replace(text, '-', '_');
  return text;
}

INSTANTIATE_TEST_SUITE_P(Golden, EncoderTest,
                         ::testing::Combine(::testing::ValuesIn(encoder_names()), ::testing::ValuesIn(kernel_sets())),
                         test_name);

/// How far the rows of a changed model are from the reference.
template <class Change>
double error_after(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  const GoldenTexts golden = read_states(name);
  Runner runner(open.file, "reference");
  return relative_error(states(runner, golden.texts, golden.scores), golden.rows);
}

TEST(EncoderSensitivity, EveryTensorMatters) {
  for (const std::string& name : encoder_names()) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      if (name.starts_with("encoders/bert") && weight.name.ends_with("attn_k.bias")) {
        continue;  // without a rotation it adds the same number to all scores of a query
      }
      const double error = error_after(name, [&](ModelFile& model) {
        ModelFile::Weight& changed = model.weight(weight.name);
        std::fill_n(changed.floats(), changed.shape.elems(), weight.shape.rank() == 1 ? 1.0f : 0.0f);
      });
      EXPECT_GT(error, 10 * allowed) << name << " " << weight.name;
    }
  }
}

TEST(EncoderSensitivity, KeysMatter) {
  const auto error = [](const std::string& name, const std::string& key, GgufValue value) {
    return error_after("encoders/" + name, [&](ModelFile& model) { model.set(name + "." + key, value); });
  };
  EXPECT_GT(error("modern-bert", "attention.sliding_window", std::uint64_t{10}), 100 * allowed);
  EXPECT_GT(error("modern-bert", "attention.sliding_window_pattern", std::uint64_t{2}), 100 * allowed);
  EXPECT_GT(error("modern-bert", "rope.freq_base_swa", 200.0), 100 * allowed);
  EXPECT_GT(error("modern-bert", "hidden_activation", std::string("silu")), 100 * allowed);
  EXPECT_GT(error("gemma-embedding", "attention.sliding_window", std::uint64_t{6}), 100 * allowed);
  EXPECT_LE(error("gemma-embedding", "attention.sliding_window", std::uint64_t{9}), allowed) << "4 to each side";
  EXPECT_GT(error("bert", "attention.layer_norm_epsilon", 1e-12), allowed);
}

TEST(Encoder, ADecoderMaySeeTheWholeText) {
  ModelFile model = ModelFile::golden("encoders/eurobert");
  const GoldenTexts golden = read_states("encoders/eurobert");
  const OpenModel open(model);
  ModelFile llama = model;
  for (auto& [key, value] : llama.metadata) {
    if (key.starts_with("eurobert.")) {
      key = "qwen2" + key.substr(std::string("eurobert").size());
    }
  }
  llama.set("general.architecture", std::string("qwen2"));
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto& [part, size] : {std::pair("attn_q", 32), {"attn_k", 16}, {"attn_v", 16}}) {
      llama.add_vector("blk." + std::to_string(layer) + "." + part + ".bias", std::vector<float>(size, 0.0f));
    }
  }
  const OpenModel other(llama);
  Runner runner(other.file, "reference");
  EXPECT_LE(relative_error(states(runner, golden.texts, false), golden.rows), allowed);
}

TEST(Encoder, FilesThatContradictThemselvesAreRefused) {
  const std::string rank = "encoders/bert-rank";
  EXPECT_EQ(
      refusal(rank,
              [](ModelFile& model) {
                model.remove_weight("cls.weight");
                model.remove_weight("cls.output.weight");
              }),
      "tiny.gguf: key 'bert.pooling_type' is 4 (rank), but the file has no tensor 'cls.weight' or 'cls.output.weight'");
  EXPECT_EQ(refusal(rank, [](ModelFile& model) { model.set("bert.classifier.pooling_type", std::string("mean")); }),
            "tiny.gguf: key 'bert.classifier.pooling_type' is 'mean', only 'cls' is supported");
  EXPECT_EQ(refusal("encoders/modern-bert-rank", [](ModelFile& model) { model.remove_weight("cls.output.weight"); }),
            "tiny.gguf: has tensor 'cls.norm.weight' but no 'cls.output.weight'");
  EXPECT_EQ(refusal("encoders/gemma-embedding", [](ModelFile& model) { model.remove_weight("dense_3.weight"); }),
            "tiny.gguf: has only one of the tensors 'dense_2.weight' and 'dense_3.weight'");
  EXPECT_EQ(refusal("encoders/bert", [](ModelFile& model) { model.set("bert.attention.causal", true); }),
            "tiny.gguf: key 'bert.attention.causal' is true, but models of this architecture see the whole text");
  EXPECT_EQ(refusal("mamba2", [](ModelFile& model) { model.set("mamba2.attention.causal", false); }),
            "tiny.gguf: key 'mamba2.attention.causal' is false, which is supported for layers of plain attention alone");
  EXPECT_EQ(refusal("encoders/modern-bert", [](ModelFile& m) { m.set("modern-bert.hidden_activation", std::string("x")); }),
            "tiny.gguf: key 'modern-bert.hidden_activation' is 'x', only gelu and silu are supported");
  EXPECT_THAT(refusal("encoders/bert", [](ModelFile& model) { model.remove_weight("token_embd_norm.bias"); }),
              HasSubstr("token_embd_norm.bias"));
}

/// Needs no GPU: a plan touches no device.
TEST(Encoder, EveryKindOfGpuHasKernels) {
  KernelRegistry registry;
  register_all_kernels(registry);
  std::vector<DeviceInfo> gpus;
  for (const auto& [kind, architecture, wave] : {std::tuple{DeviceKind::hip, "gfx1100", 32},
                                                 {DeviceKind::hip, "gfx1201", 32},
                                                 {DeviceKind::hip, "gfx942", 64},
                                                 {DeviceKind::cuda, "sm_90", 32}}) {
    DeviceInfo& gpu = gpus.emplace_back();
    gpu.kind = kind;
    gpu.architecture = architecture;
    gpu.wave_size = wave;
    gpu.shared_memory_bytes = 65536;
    gpu.compute_units = 48;
  }
  for (const std::string& name : encoder_names()) {
    const GgufFile file{golden_path(name)};
    for (const DeviceInfo& gpu : gpus) {
      const auto model = Model::plan(file, registry, gpu, 1, f32_options());
      for (const PlannedOperation& line : model->plan()) {
        EXPECT_THAT(line.kernel, ::testing::Not(::testing::AnyOf("reference", "cpu", "")))
            << name << " on " << gpu.architecture << ": " << line.operation << " " << line.spec;
      }
    }
  }
}

TEST(Encoder, AStepHasWholeTextsAndNoLogits) {
  const GgufFile file{golden_path("encoders/bert")};
  Runner runner(file, "reference");
  EXPECT_THAT(test::error_of([&] { runner.whole({5, 6, 7}); }), HasSubstr("an encoder has no logits"));
  BatchPlan plan;
  plan.clear();
  const Tokens token{5};
  const std::vector<std::int32_t> blocks{0};
  plan.add_sequence(token, 1, blocks, false);
  plan.hidden_rows = {0};
  plan.finish();
  EXPECT_THAT(test::error_of([&] { runner.model().forward(plan, runner.memory()); }),
              HasSubstr("an encoder computes a text in one step"));
}

}  // namespace
}  // namespace rocmforge::testing::encoder_test
