#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "models/config/model_config.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::ValuesIn;

/// A placement of a model's layers, made for each.
struct Split {
  std::string name;
  void (*place)(Placement& placement, const ModelConfig& config);
};

void first_half(Placement& placement, const ModelConfig&) {
  placement.embedding = Side::host;
  std::fill_n(placement.layers.begin(), placement.layers.size() / 2, Placement::Layer{Side::host, Side::host});
}

const std::vector<Split>& splits() {
  static const std::vector<Split> all{
      {"first half on the host", first_half},
      {"every second layer on the host",
       [](Placement& placement, const ModelConfig&) {
         for (std::size_t i = 0; i < placement.layers.size(); i += 2) {
           placement.layers[i] = {Side::host, Side::host};
         }
       }},
      {"experts on the host",
       [](Placement& placement, const ModelConfig&) {
         for (Placement::Layer& layer : placement.layers) {
           layer.experts = Side::host;
         }
       }},
      {"last layer and output on the host",
       [](Placement& placement, const ModelConfig&) {
         placement.layers.back() = {Side::host, Side::host};
         placement.output = Side::host;
       }},
      {"output on the host", [](Placement& placement, const ModelConfig&) { placement.output = Side::host; }},
      {"embedding on the host", [](Placement& placement, const ModelConfig&) { placement.embedding = Side::host; }},
  };
  return all;
}

/// The placement of `split`; layers that read another layer's K and V follow it.
Placement placed(const Split& split, const ModelConfig& config) {
  Placement placement;
  placement.layers.resize(static_cast<std::size_t>(config.layers));
  split.place(placement, config);
  for (int index = 0; index < config.layers; ++index) {
    const LayerConfig& layer = config.layer(index);
    if (layer.has_mixer() && layer.mixer == MixerKind::attention && !layer.attention.has_keys()) {
      placement.layers[static_cast<std::size_t>(index)] = placement.layer(layer.attention.keys_of);
    }
  }
  return placement;
}

class SplitModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::unique_ptr<Runner> split(const Split& how) const {
    ModelOptions options = f32_options();
    options.placement = placed(how, ModelConfig::from_gguf(file_));
    return std::make_unique<Runner>(file_, set_, options);
  }

  const std::string& set_ = kernel_sets().back();
  Golden golden_ = read_golden(GetParam());
  GgufFile file_{golden_path(GetParam())};
};

TEST_P(SplitModelTest, LogitsAreThoseOfTheReferenceImplementation) {
  for (const Split& how : splits()) {
    const std::unique_ptr<Runner> runner = split(how);
    EXPECT_LE(relative_error(runner->whole(golden_.tokens), golden_.logits), logit_tolerance(set_)) << how.name;
  }
}

/// Decode steps, wanted rows and a sequence that is computed again in other blocks.
TEST_P(SplitModelTest, StepsOfAnyFormGiveTheLogitsOfOne) {
  for (const Split& how : splits()) {
    const std::unique_ptr<Runner> runner = split(how);
    const std::vector<float> whole = runner->whole(golden_.tokens);
    std::vector<float> logits;
    for (std::int32_t first = 0; first < std::ssize(golden_.tokens);) {
      const std::int32_t count = first < 30 ? 15 : 1;
      const auto begin = golden_.tokens.begin() + first;
      const auto end = begin + std::min<std::ptrdiff_t>(count, golden_.tokens.end() - begin);
      const std::vector<float> rows = runner->step({{{begin, end}, first, {17, 3, 9}}});
      logits.insert(logits.end(), rows.begin(), rows.end());
      first += count;
    }
    expect_same_logits(logits, whole, set_, how.name);
    const auto last = static_cast<std::int32_t>(golden_.tokens.size()) - 1;
    expect_same_logits(runner->rows(golden_.tokens, {last}), {whole.end() - golden_.vocab, whole.end()}, set_, how.name);
  }
}

TEST_P(SplitModelTest, AStepTakesTheTokensThatTheOneBeforeDrew) {
  const std::vector<std::int32_t> prompt(golden_.tokens.begin(), golden_.tokens.begin() + 20);
  for (const Split& how : splits()) {
    const std::unique_ptr<Runner> runner = split(how);
    std::vector<std::int32_t> expected = runner->draw({{prompt, 0, {5, 11}}});
    std::vector<std::int32_t> drawn = runner->draw({{prompt, 0, {3, 7}}});
    for (std::int32_t position = 20; position < 24; ++position) {
      expected.push_back(runner->draw({{{expected.back()}, position, {5, 11}}})[0]);
    }
    runner->start_draw({{prompt, 0, {3, 7}}});
    for (std::int32_t position = 20; position < 24; ++position) {
      runner->start_draw({{{EmbeddingRows::drawn_token(0)}, position, {3, 7}}});
      drawn.push_back(runner->model().sampled()[0]);
    }
    EXPECT_EQ(drawn, expected) << how.name;
  }
}

/// Its block lies beside the output, with a table of embeddings of its own there.
TEST(SplitMtp, PredictsAsTheWholeModelDoes) {
  const GgufFile file(golden_path("mtp/glm4moe"));
  const ModelConfig config = ModelConfig::from_gguf(file);
  const std::string& set = kernel_sets().back();
  if (const std::string problem = missing(set, file); !problem.empty()) {
    GTEST_SKIP() << problem;
  }
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < 21; ++i) {
    tokens.push_back((i * i + 3) % config.vocab);
  }
  const Runner::Predicted part{{{tokens.begin(), tokens.end() - 1}, 0, {5, 11}}, {tokens.begin() + 1, tokens.end()}};
  ModelOptions options = f32_options();
  options.load_mtp = true;
  const std::vector<float> expected = Runner(file, set, options).predict({part});
  for (const Split& how : splits()) {
    options.placement = placed(how, config);
    EXPECT_LE(relative_error(Runner(file, set, options).predict({part}), expected), logit_tolerance(set)) << how.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, SplitModelTest, ValuesIn(golden_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace rocmforge::testing
