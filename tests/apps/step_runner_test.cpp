#include "bench/step_runner.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "engine/fake_model.h"
#include "engine/golden_model_file.h"

namespace rocmforge::app {
namespace {

/// Logits after `count` tokens that were given in pieces, then one by one.
std::vector<float> logits_after(Engine& engine, std::int32_t count, std::int32_t piece) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 3);
  StepRunner steps(engine, 2, 64, piece);
  const auto in_pieces = static_cast<std::size_t>(count - 6);
  for (const std::int32_t sequence : {0, 1}) {
    steps.prefill(sequence, std::span(tokens).first(in_pieces), 0);
  }
  for (std::size_t position = in_pieces; position + 1 < tokens.size(); ++position) {
    const std::vector<std::int32_t> both{tokens[position], tokens[position]};
    steps.decode(both, static_cast<std::int32_t>(position));
  }
  const std::span<const float> logits = steps.all_logits(1, std::span(tokens).last(1), count - 1);
  return {logits.begin(), logits.end()};
}

/// Each step of a sequence continues from the state of the last one, recurrent state included.
TEST(StepRunner, StepsOfAnyLengthGiveTheSameLogits) {
  for (const char* name : {"qwen3", "lfm2", "lfm2-conv", "nemotron_h"}) {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 1;
    options.kv_tokens = StepRunner::cache_tokens(2, 64);
    const std::string path = golden_model_file(name);
    const auto engine = load_model(path, options);
    const std::vector<float> whole = logits_after(*engine, 40, 40);
    EXPECT_EQ(logits_after(*engine, 40, 7), whole) << name;
    EXPECT_EQ(logits_after(*engine, 40, 1), whole) << name;
    std::remove(path.c_str());
  }
}

/// The tokens of a sequence after three steps ahead in which token 7 was given and the model always drew token 9.
FakeModel::Tokens given_or_drawn(std::vector<std::int32_t> stage_ends) {
  EngineOptions options;
  options.kv_tokens = StepRunner::cache_tokens(1, 16);
  const FakeEngine fake = make_fake_engine(options, false);
  FakeModel::Tokens seen;
  fake.model->divide_layers(std::move(stage_ends));
  fake.model->follow([&seen](const FakeModel::Tokens& visible) {
    seen = visible;
    return 9;
  });
  StepRunner steps(*fake.engine, 1, 16, 8);
  steps.prefill(0, std::vector<std::int32_t>{3, 4}, 0);
  for (std::int32_t position = 2; position < 5; ++position) {
    steps.decode_ahead(std::vector<std::int32_t>{7}, position);
  }
  steps.finish();
  return seen;
}

/// With all tokens known a device could begin the next step while another still computes this one, as no answer does.
TEST(StepRunner, LayersOnSeveralDevicesTakeTheTokenThatWasDrawn) {
  EXPECT_EQ(given_or_drawn({}), (FakeModel::Tokens{3, 4, 7, 7, 7}));
  EXPECT_EQ(given_or_drawn({1, 2}), (FakeModel::Tokens{3, 4, 7, 9, 9}));
}

}  // namespace
}  // namespace rocmforge::app
