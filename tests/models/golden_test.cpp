#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>

#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"

namespace rocmforge::testing {
namespace {

using ::testing::Combine;
using ::testing::ValuesIn;

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string, std::string>>& info) {
  std::string text = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

/// The most likely token of every row is the expected one, unless their logits differ by less than 1e-3.
void expect_same_best_tokens(const std::vector<float>& logits, const std::vector<float>& expected, std::int32_t vocab) {
  for (std::ptrdiff_t first = 0; first < std::ssize(expected); first += vocab) {
    const auto row = expected.begin() + first;
    const auto best = std::max_element(logits.begin() + first, logits.begin() + first + vocab) - (logits.begin() + first);
    EXPECT_GE(row[best], *std::max_element(row, row + vocab) - 1e-3f) << "row " << first / vocab;
  }
}

/// Every golden model with every kernel set.
class ModelTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (const std::string problem = missing(set_, file_); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    RecordProperty("architecture", file_.string("general.architecture"));
    runner_ = std::make_unique<Runner>(file_, set_);
  }

  /// Positions [first, first + count) of the golden sequence.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::int32_t first, std::int32_t count) const {
    return {golden_.tokens.begin() + first, golden_.tokens.begin() + first + count};
  }
  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(golden_.tokens.size()); }

  /// The sequence in steps of `chunk` tokens on scattered blocks.
  std::vector<float> in_chunks(std::int32_t chunk) {
    std::vector<float> logits;
    for (std::int32_t first = 0; first < length(); first += chunk) {
      const std::int32_t count = std::min(chunk, length() - first);
      const std::vector<float> rows = runner_->step({{tokens(first, count), first, {17, 3, 9}}});
      logits.insert(logits.end(), rows.begin(), rows.end());
    }
    return logits;
  }

  const std::string& set_ = std::get<1>(GetParam());
  Golden golden_ = read_golden(std::get<0>(GetParam()));
  GgufFile file_{golden_path(std::get<0>(GetParam()))};
  std::unique_ptr<Runner> runner_;
};

TEST_P(ModelTest, LogitsAreThoseOfTheReferenceImplementation) {
  const std::vector<float> logits = runner_->whole(golden_.tokens);
  const double error = relative_error(logits, golden_.logits);
  RecordProperty("relative_error", std::to_string(error * 1e6) + "e-6");
  EXPECT_LE(error, logit_tolerance(set_));
  expect_same_best_tokens(logits, golden_.logits, golden_.vocab);
}

TEST_P(ModelTest, ChunksOfAnySizeGiveTheSameBits) {
  const std::vector<float> whole = runner_->whole(golden_.tokens);
  for (const std::int32_t chunk : {1, 3, 16, 17}) {
    expect_same_logits(in_chunks(chunk), whole, set_, "chunks of " + std::to_string(chunk));
  }
}

/// Unwanted rows are not computed to the end. The wanted rows have the same bits.
TEST_P(ModelTest, AnyRowsOfAStepGiveTheSameBits) {
  const std::vector<float> whole = runner_->whole(golden_.tokens);
  const auto count = static_cast<std::int32_t>(golden_.tokens.size());
  const Piece next{{golden_.tokens[0]}, count, {0, 1, 2, 3}};
  const std::vector<float> after = runner_->step({next});
  std::vector<std::int32_t> all_but_one(golden_.tokens.size() - 1);
  std::iota(all_but_one.begin(), all_but_one.end(), 1);
  for (const std::vector<std::int32_t>& rows : {std::vector<std::int32_t>{count - 1}, {0, 3, count - 2}, all_but_one, {}}) {
    std::vector<float> expected;
    for (const std::int32_t row : rows) {
      const auto begin = whole.begin() + std::ptrdiff_t{row} * golden_.vocab;
      expected.insert(expected.end(), begin, begin + golden_.vocab);
    }
    const std::vector<float> logits = runner_->rows(golden_.tokens, rows);
    ASSERT_EQ(logits.size(), expected.size());
    if (!rows.empty()) {
      expect_same_logits(logits, expected, set_, std::to_string(rows.size()) + " rows");
    }
    expect_same_logits(runner_->step({next}), after, set_, "after " + std::to_string(rows.size()) + " rows");
  }
}

TEST_P(ModelTest, AStepTakesTheTokensThatTheOneBeforeDrew) {
  const std::int32_t drawn_before = EmbeddingRows::drawn_token(0);
  std::vector<std::int32_t> expected = runner_->draw({{tokens(0, 20), 0, {5, 11}}});
  for (std::int32_t position = 20; position < 26; ++position) {
    expected.push_back(runner_->draw({{{expected.back()}, position, {5, 11}}})[0]);
  }
  std::vector<std::int32_t> drawn;
  runner_->start_draw({{tokens(0, 20), 0, {3, 7}}});
  for (std::int32_t position = 20; position < 26; ++position) {
    runner_->start_draw({{{drawn_before}, position, {3, 7}}});
    drawn.push_back(runner_->model().previous_sampled()[0]);
  }
  drawn.push_back(runner_->model().sampled()[0]);
  EXPECT_EQ(drawn, expected);
}

TEST_P(ModelTest, AReusedPrefixGivesTheSameBits) {
  const std::int32_t shared = 2 * Runner::block_tokens;
  runner_->step({{golden_.tokens, 0, {5, 11, 2}}});
  // Another sequence with the same first two blocks: only the following tokens are computed, in a block of their own.
  std::vector<std::int32_t> other = golden_.tokens;
  std::reverse(other.begin() + shared, other.end());
  const std::vector<float> rest = runner_->step({{{other.begin() + shared, other.end()}, shared, {5, 11, 20}}});
  const std::vector<float> whole = runner_->whole(other);
  expect_same_logits(rest, {whole.begin() + std::ptrdiff_t{shared} * golden_.vocab, whole.end()}, set_);
}

/// A sequence that lost its blocks to another one is computed again in other blocks, drawn tokens included, and continues.
TEST_P(ModelTest, APreemptedSequenceGivesTheSameBits) {
  const std::vector<float> whole = runner_->whole(golden_.tokens);
  const std::int32_t lost_at = 29;
  runner_->step({{tokens(0, 24), 0, {5, 11}}});
  for (std::int32_t position = 24; position < lost_at; ++position) {
    runner_->step({{tokens(position, 1), position, {5, 11}}});
  }
  std::vector<std::int32_t> other = golden_.tokens;
  std::reverse(other.begin(), other.end());
  runner_->step({{other, 0, {11, 5, 2}}});
  std::vector<float> logits = runner_->step({{tokens(0, lost_at), 0, {2, 20, 11}}});
  for (std::int32_t position = lost_at; position < length(); ++position) {
    const std::vector<float> row = runner_->step({{tokens(position, 1), position, {2, 20, 11}}});
    logits.insert(logits.end(), row.begin(), row.end());
  }
  expect_same_logits(logits, whole, set_);
}

TEST_P(ModelTest, SequencesInOneBatchDoNotSeeEachOther) {
  const std::vector<float> whole = runner_->whole(golden_.tokens);
  const auto rows = [&](std::int32_t first, std::int32_t count) {
    const auto begin = whole.begin() + std::ptrdiff_t{first} * golden_.vocab;
    return std::vector<float>(begin, begin + std::ptrdiff_t{count} * golden_.vocab);
  };
  // Three sequences of the same text at different places: one decodes, one continues its prefill, one starts.
  runner_->step({{tokens(0, 40), 0, {22, 8, 13}}, {tokens(0, 5), 0, {4, 1, 19}}});
  const std::vector<float> logits =
      runner_->step({{tokens(40, 1), 40, {22, 8, 13}}, {tokens(5, 20), 5, {4, 1, 19}}, {tokens(0, 18), 0, {0, 23}}});
  std::vector<float> expected = rows(40, 1);
  for (const std::vector<float>& part : {rows(5, 20), rows(0, 18)}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  expect_same_logits(logits, expected, set_);
}

INSTANTIATE_TEST_SUITE_P(Golden, ModelTest, Combine(ValuesIn(golden_names()), ValuesIn(forced_kernel_sets())), case_name);

TEST(ModelArchitectures, EachHasAGoldenModel) {
  std::set<std::string> found;
  for (const auto& names : {golden_names(), encoder_names()}) {
    for (const std::string& name : names) {
      found.insert(ModelConfig::from_gguf(GgufFile{golden_path(name)}).architecture);
    }
  }
  const std::vector<std::string> all = supported_architectures();
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(all));
}

TEST(ModelArchitectures, EachHasALineInTheTableOfTheDocuments) {
  std::ifstream table(test::source_path("docs/models.md"));
  std::vector<std::string> listed;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("| ") && !line.starts_with("| architecture ")) {
      listed.push_back(line.substr(2, line.find(" |") - 2));
    }
  }
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(supported_architectures()))
      << "tools/checks/model_table.py writes it";
}

TEST(ModelAttention, EveryKernelOfAGpuGivesTheLogitsOfTheOthers) {
  const std::string path = test::source_path("models/forge-demo.gguf");
  if (const std::string problem = missing("gpu"); !problem.empty()) {
    GTEST_SKIP() << problem;
  }
  const GgufFile file{path};
  std::vector<std::int32_t> tokens(150);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>((i * i * 7 + i * 31 + 3) % 4000);
  }
  const std::vector<std::int32_t> blocks{9, 3, 14, 0, 21, 7, 2, 11, 5, 18, 1};
  ModelOptions options = f32_options();
  options.kv_dtype = DType::f16;
  std::vector<float> expected;
  int compared = 0;
  for (const std::string& set : forced_kernel_sets()) {
    if (!missing(set, file).empty()) {
      continue;
    }
    Runner runner(file, set, options);
    std::vector<float> logits = runner.step({{{tokens.begin(), tokens.begin() + 145}, 0, blocks}});
    for (std::int32_t position = 145; position < 150; ++position) {
      const std::vector<float> row = runner.step({{{tokens[static_cast<std::size_t>(position)]}, position, blocks}});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    if (expected.empty()) {
      expected = logits;
    }
    EXPECT_LE(relative_error(logits, expected), 5e-3) << set;
    ++compared;
  }
  EXPECT_GE(compared, 3);
}

TEST(ModelThreads, TheirNumberDoesNotChangeABit) {
  const Golden golden = read_golden("qwen3");
  const GgufFile file{golden_path("qwen3")};
  for (const std::string& set : kernel_sets()) {
    if (is_gpu(set)) {
      GTEST_SKIP() << "GPU kernels run with no threads of the host";
    }
    EXPECT_EQ(Runner(file, set, 1).whole(golden.tokens), Runner(file, set, 4).whole(golden.tokens)) << set;
  }
}

TEST(ModelCache, HalfPrecisionKeysAndValuesStayClose) {
  const Golden golden = read_golden("llama-gqa4");
  const GgufFile file{golden_path("llama-gqa4")};
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    for (const auto& [dtype, tolerance] : {std::pair{DType::f16, 2e-3}, {DType::bf16, 2e-2}}) {
      ModelOptions options = f32_options();
      options.kv_dtype = dtype;
      const double error = relative_error(Runner(file, set, options).whole(golden.tokens), golden.logits);
      EXPECT_LE(error, tolerance + (is_gpu(set) ? logit_tolerance(set) : 0.0)) << set << " " << name(dtype);
      EXPECT_GT(error, 1e-6) << "the cache was not " << name(dtype);
    }
  }
}

}  // namespace
}  // namespace rocmforge::testing
