#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"

namespace rocmforge::testing {
namespace {

/// The golden of tools/goldens/spans_golden.py: tokens [first, first + count) see each other.
struct SpanGolden {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::vector<float> logits;
};

SpanGolden read_span_golden(const std::string& name, std::size_t num_logits) {
  std::ifstream file(test::source_path("tests/golden/models/spans/" + name + ".logits"), std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  SpanGolden golden{.logits = std::vector<float>(num_logits)};
  if (bytes.size() != 8 + num_logits * sizeof(float)) {
    ADD_FAILURE() << name << " has " << bytes.size() << " bytes";
    return golden;
  }
  std::memcpy(&golden.first, bytes.data(), 4);
  std::memcpy(&golden.count, bytes.data() + 4, 4);
  std::memcpy(golden.logits.data(), bytes.data() + 8, num_logits * sizeof(float));
  return golden;
}

ModelOptions options_with_spans() {
  ModelOptions options = f32_options();
  options.spans = true;
  return options;
}

TEST(ModelSpans, TokensThatSeeEachOtherGiveTheLogitsOfTheReferenceImplementation) {
  const Golden golden = read_golden("gemma3");
  const SpanGolden expected = read_span_golden("gemma3", golden.logits.size());
  const GgufFile file{golden_path("gemma3")};
  const auto length = static_cast<std::int32_t>(golden.tokens.size());
  const std::vector<std::int32_t> blocks{17, 3, 9};
  const auto tokens = [&](std::int32_t first, std::int32_t count) {
    return std::vector<std::int32_t>{golden.tokens.begin() + first, golden.tokens.begin() + first + count};
  };
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set, file); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set, options_with_spans());
    const std::vector<float> whole =
        runner.step({{.tokens = golden.tokens, .blocks = blocks, .span = {expected.first, expected.count}}});
    EXPECT_LE(relative_error(whole, expected.logits), logit_tolerance(set)) << set;
    // A text before the span, the span beside another sequence, and the rest as single tokens.
    const std::int32_t before = expected.first - 2;
    const std::int32_t behind = expected.first + expected.count + 3;
    std::vector<float> logits = runner.step({{.tokens = tokens(0, before), .blocks = blocks}});
    const std::vector<float> both = runner.step({{.tokens = tokens(before, behind - before),
                                                  .first_position = before,
                                                  .blocks = blocks,
                                                  .span = {expected.first - before, expected.count}},
                                                 {.tokens = golden.tokens, .blocks = {5, 11, 2}},
                                                 {.tokens = tokens(0, 1), .blocks = {1}}});
    const std::ptrdiff_t rows = std::ptrdiff_t{behind - before} * golden.vocab;
    logits.insert(logits.end(), both.begin(), both.begin() + rows);
    for (std::int32_t token = behind; token < length; ++token) {
      const std::vector<float> row = runner.step({{.tokens = tokens(token, 1), .first_position = token, .blocks = blocks}});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    expect_same_logits(logits, whole, set);
    const std::vector<float> text(both.begin() + rows, both.begin() + rows + std::ssize(golden.logits));
    EXPECT_LE(relative_error(text, golden.logits), logit_tolerance(set)) << "a text beside a span sees nothing of it";
  }
}

TEST(ModelSpans, ThePlanHasAKernelForThem) {
  const GgufFile file{golden_path("gemma3")};
  const auto lines = [&](const ModelOptions& options) {
    Runner runner(file, kernel_sets().front(), options);
    return std::ranges::count_if(runner.model().plan(), [](const PlannedOperation& operation) {
      return operation.spec.find(" spans") != std::string::npos;
    });
  };
  EXPECT_EQ(lines(f32_options()), 0);
  EXPECT_EQ(lines(options_with_spans()), 2) << "of layers with a window, and of the others";
}

TEST(ModelSpans, AModelThatWasNotLoadedForThemRefusesThem) {
  const GgufFile file{golden_path("gemma3")};
  Runner runner(file, kernel_sets().front());
  EXPECT_THROW(runner.step({{.tokens = {1, 2, 3}, .blocks = {0}, .span = {0, 3}}}), LogicError);
}

}  // namespace
}  // namespace rocmforge::testing
