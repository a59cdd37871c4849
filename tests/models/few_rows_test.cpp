#include <gtest/gtest.h>

#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

ModelOptions options_for(std::int32_t most_rows) {
  ModelOptions options = f32_options();
  options.most_rows = most_rows;
  return options;
}

/// Steps of few rows a sequence, as drafts that are verified, beside single rows: full attention, windows, a latent plane.
class FewRows : public ::testing::TestWithParam<std::string> {};

TEST_P(FewRows, GiveTheLogitsOfOtherSteps) {
  const Golden golden = read_golden(GetParam());
  const GgufFile file{golden_path(GetParam())};
  const auto piece = [&](std::int32_t first, std::int32_t count, std::vector<std::int32_t> blocks) {
    const auto begin = golden.tokens.begin() + first;
    return Piece{.tokens = {begin, begin + count}, .first_position = first, .blocks = std::move(blocks)};
  };
  const auto rows = [&](const std::vector<float>& all, std::int32_t first, std::int32_t count) {
    const auto begin = all.begin() + std::ptrdiff_t{first} * golden.vocab;
    return std::vector<float>(begin, begin + std::ptrdiff_t{count} * golden.vocab);
  };
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set, file); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set, options_for(4));
    const std::vector<float> whole = runner.whole(golden.tokens);
    runner.step({piece(0, 20, {17, 3, 9}), piece(0, 9, {5, 11, 2})});
    for (int again = 0; again < 3; ++again) {  // on a GPU the third is a replayed graph
      const std::vector<float> few = runner.step({piece(20, 4, {17, 3, 9}), piece(9, 1, {5, 11, 2})}, 4);
      expect_same_logits(rows(few, 0, 4), rows(whole, 20, 4), set);
      expect_same_logits(rows(few, 4, 1), rows(whole, 9, 1), set);
    }
    const std::vector<float> two = runner.step({piece(24, 2, {17, 3, 9})}, 2);
    expect_same_logits(two, rows(whole, 24, 2), set);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FewRows, ::testing::Values("qwen3", "gemma3", "deepseek-v2-lite"));

TEST(FewRowsOptions, AModelThatWasNotLoadedForThemRefusesThem) {
  const Golden golden = read_golden("qwen3");
  const GgufFile file{golden_path("qwen3")};
  Runner runner(file, kernel_sets().front());
  EXPECT_THROW(runner.step({{.tokens = {1, 2}, .blocks = {0}}}, 2), LogicError);
  Runner of_two(file, kernel_sets().front(), options_for(2));
  EXPECT_THROW(of_two.step({{.tokens = {1, 2, 3}, .blocks = {0}}}, 4), LogicError);
  EXPECT_THROW(of_two.step({{.tokens = {1, 2, 3}, .blocks = {0}}}, 2), LogicError) << "there are more";
}

}  // namespace
}  // namespace rocmforge::testing
