// The ranks of a model as processes: run by mpirun, see tests/server/processes_test.py.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "models/process_rank.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<RankProcesses>& processes() {
  static std::unique_ptr<RankProcesses> joined;
  return joined;
}

class ProcessRanks : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr && processes() == nullptr) {
      processes() = std::make_unique<RankProcesses>([](const std::string& line) { GTEST_FAIL() << line; });
    }
  }
  void SetUp() override {
    if (processes() == nullptr) {
      GTEST_SKIP() << "run by mpirun alone: server.processes";
    }
  }
};

/// A prompt of 20 tokens, and a greedy answer.
Tokens greedy(Runner& runner, const Tokens& text) {
  Tokens tokens(text.begin(), text.begin() + 20);
  tokens.push_back(runner.draw({{tokens, 0, {5, 11, 2}}})[0]);
  while (tokens.size() < 32) {
    tokens.push_back(runner.draw({{{tokens.back()}, static_cast<std::int32_t>(tokens.size()) - 1, {5, 11, 2}}})[0]);
  }
  return tokens;
}

TEST_P(ProcessRanks, GiveTheLogitsOfTheReferenceAndDrawWhatThreadsDraw) {
  const Golden golden = read_golden(GetParam());
  const GgufFile file(golden_path(GetParam()));
  ModelOptions options = f32_options();
  options.processes = processes().get();
  Runner runner(file, "reference", options, 1);
  auto& model = dynamic_cast<ProcessRank&>(runner.model());
  if (processes()->rank() > 0) {
    model.follow(runner.memory());
    return;
  }
  model.lead();
  EXPECT_LE(relative_error(runner.whole(golden.tokens), golden.logits), logit_tolerance("reference"));
  ModelOptions threads = f32_options();
  threads.ranks = processes()->count();
  Runner on_threads(file, "reference", threads, 2);
  EXPECT_EQ(runner.whole(golden.tokens), on_threads.whole(golden.tokens));
  EXPECT_EQ(greedy(runner, golden.tokens), greedy(on_threads, golden.tokens));
  // Copies of blocks reach the others with the next step.
  const Tokens start(golden.tokens.begin(), golden.tokens.begin() + 16);
  runner.step({{start, 0, {3}}});
  model.copy_block(runner.memory(), 0, 3, 7);
  on_threads.step({{start, 0, {3}}});
  if (model.state_bytes() == 0 && model.kv_groups().size() == 1) {
    EXPECT_EQ(runner.step({{{golden.tokens[16]}, 16, {7, 9}}}), on_threads.step({{{golden.tokens[16]}, 16, {3, 9}}}));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ProcessRanks,
                         ::testing::Values("llama-gqa4", "mamba2", "lfm2-conv", "qwen35moe", "gemma3", "deepseek-v2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rocmforge::testing
