// Prompts through the decompressed form of latent attention, which GPUs use with a cache of 16 or 8 bits: K and V of the
// heads are computed from the latents, alone or beside sequences of single rows, at once or in passes.

#include <gtest/gtest.h>

#include <algorithm>

#include "models/runner.h"

namespace rocmforge::testing::latent_prompt_test {
namespace {

ModelOptions options_of(DType kv_dtype) {
  ModelOptions options = f32_options();
  options.kv_dtype = kv_dtype;
  return options;
}

/// Rounding of the cache, of the heads' matrices and of K and V.
double allowed(DType kv_dtype) { return kv_dtype == DType::bf16 ? 4e-2 : kv_dtype == DType::q8_0 ? 1e-2 : 5e-3; }

bool plans_expansion(Runner& runner) {
  return std::ranges::any_of(runner.model().plan(), [](const PlannedOperation& operation) {
    return operation.operation == "latent_expand" && operation.kernel == "gpu";
  });
}

std::vector<std::int32_t> blocks_from(std::int32_t first, std::size_t positions) {
  std::vector<std::int32_t> blocks;
  for (std::size_t i = 0; i * Runner::block_tokens < positions; ++i) {
    blocks.push_back(first + static_cast<std::int32_t>(i));
  }
  return blocks;
}

/// The rows [first, first + count) of logits.
std::vector<float> rows(const std::vector<float>& logits, std::size_t vocab, std::size_t first, std::size_t count) {
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(first * vocab);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * vocab)};
}

class LatentPrompt : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string problem = gpu_under_test().wanted == "cpu" ? "for GPUs" : missing("gpu"); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
  }
  OpenModel model_{ModelFile::golden(GetParam())};
  Golden golden_ = read_golden(GetParam());
};

TEST_P(LatentPrompt, IsCloseToTheGoldenLogits) {
  Runner runner(model_.file, "gpu", options_of(DType::f16));
  ASSERT_TRUE(plans_expansion(runner));
  EXPECT_LE(relative_error(runner.whole(golden_.tokens), golden_.logits), allowed(DType::f16));
}

/// The share of rows that are within `most`.
double close_rows(const std::vector<float>& out, const std::vector<float>& expected, std::size_t vocab, double most) {
  std::size_t close = 0;
  const std::size_t count = out.size() / vocab;
  for (std::size_t row = 0; row < count; ++row) {
    close += relative_error(rows(out, vocab, row, 1), rows(expected, vocab, row, 1)) <= most ? 1 : 0;
  }
  return static_cast<double>(close) / static_cast<double>(count);
}

/// If the scores of experts are nearly equal, rounding may change a token's choice. Then its row and a few rows after it
/// differ.
TEST_P(LatentPrompt, IsCloseToTheAbsorbedFormOnACoarseCache) {
  for (const DType type : {DType::bf16, DType::q8_0}) {
    Runner runner(model_.file, "gpu", options_of(type));
    ASSERT_TRUE(plans_expansion(runner));
    Runner absorbed(model_.file, "reference", options_of(type));
    EXPECT_GE(close_rows(runner.whole(golden_.tokens), absorbed.whole(golden_.tokens),
                         static_cast<std::size_t>(golden_.vocab), allowed(type)),
              0.7)
        << name(type);
  }
}

TEST_P(LatentPrompt, WithSinglesBesideItAndInChunks) {
  const std::vector<std::int32_t>& tokens = golden_.tokens;
  const auto vocab = static_cast<std::size_t>(golden_.vocab);
  const std::size_t count = tokens.size();
  const std::vector<std::int32_t> front(tokens.begin(), tokens.end() - 4);
  Runner runner(model_.file, "gpu", options_of(DType::f16));
  const auto first = blocks_from(3, count);
  const auto second = blocks_from(12, count);
  const auto piece = [&](std::size_t begin, std::size_t length, const std::vector<std::int32_t>& blocks) {
    const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    return Piece{{at, at + static_cast<std::ptrdiff_t>(length)}, static_cast<std::int32_t>(begin), blocks};
  };
  static_cast<void>(runner.step({piece(0, 9, first)}));
  static_cast<void>(runner.step({piece(9, count - 13, first)}));
  // One sequence decodes a token while the other computes a chunk; then both decode a token.
  const std::vector<float> mixed = runner.step({piece(0, 7, second), piece(count - 4, 1, first)});
  EXPECT_LE(relative_error(rows(mixed, vocab, 0, 7), rows(golden_.logits, vocab, 0, 7)), allowed(DType::f16));
  EXPECT_LE(relative_error(rows(mixed, vocab, 7, 1), rows(golden_.logits, vocab, count - 4, 1)), allowed(DType::f16));
  const std::vector<float> both = runner.step({piece(count - 3, 3, first), piece(7, 1, second)});
  EXPECT_LE(relative_error(rows(both, vocab, 0, 3), rows(golden_.logits, vocab, count - 3, 3)), allowed(DType::f16));
  EXPECT_LE(relative_error(rows(both, vocab, 3, 1), rows(golden_.logits, vocab, 7, 1)), allowed(DType::f16));
}

TEST_P(LatentPrompt, HasTheSameBitsInOneOrManyPasses) {
  const std::vector<std::int32_t>& tokens = golden_.tokens;
  const std::vector<std::int32_t> few(tokens.begin(), tokens.begin() + 11);
  const std::vector<Piece> pieces = {{tokens, 0, blocks_from(3, tokens.size())},
                                     {few, 0, blocks_from(12, few.size())},
                                     {{tokens[0]}, 0, {20}},
                                     {few, 0, blocks_from(21, few.size())}};
  ModelOptions options = options_of(DType::f16);
  Runner at_once(model_.file, "gpu", options);
  options.expanded_bytes = 1;
  Runner in_passes(model_.file, "gpu", options);
  EXPECT_EQ(in_passes.step(pieces), at_once.step(pieces));
}

INSTANTIATE_TEST_SUITE_P(Models, LatentPrompt, ::testing::Values("deepseek-v3", "deepseek-v2", "glm4-moe-lite", "mistral4"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rocmforge::testing::latent_prompt_test
