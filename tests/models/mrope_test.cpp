#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "models/config/model_config.h"
#include "models/config/rope_config.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"

namespace rocmforge::testing {
namespace {

using ::testing::ElementsAre;

/// Tokens with a position on each of three axes, and the logits that they give: tools/goldens/mrope_golden.py.
struct Places {
  std::vector<std::int32_t> places;  ///< [tokens, 3]
  std::vector<float> logits;         ///< [tokens, vocab]
};

Places read_places(const std::string& name, const Golden& golden) {
  std::ifstream file(test::source_path("tests/golden/models/mrope/" + name + ".logits"), std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  Places found{std::vector<std::int32_t>(3 * golden.tokens.size()), std::vector<float>(golden.logits.size())};
  constexpr std::size_t header = 8;
  const std::size_t of_places = found.places.size() * sizeof(std::int32_t);
  const std::size_t of_logits = found.logits.size() * sizeof(float);
  if (bytes.size() != header + of_places + of_logits) {
    ADD_FAILURE() << name << " has " << bytes.size() << " bytes";
    return found;
  }
  std::memcpy(found.places.data(), bytes.data() + header, of_places);
  std::memcpy(found.logits.data(), bytes.data() + header + of_places, of_logits);
  return found;
}

/// Tokens [first, first + count).
Piece piece_of(const Golden& golden, const Places& expected, std::int32_t first, std::int32_t count) {
  const auto begin = golden.tokens.begin() + first;
  const auto place = expected.places.begin() + std::ptrdiff_t{3} * first;
  return {.tokens = {begin, begin + count},
          .first_position = first,
          .blocks = {17, 3, 9},
          .places = {place, place + std::ptrdiff_t{3} * count}};
}

class MultimodalRope : public ::testing::TestWithParam<std::string> {};

TEST_P(MultimodalRope, GivesTheLogitsOfTheReferenceImplementation) {
  const Golden golden = read_golden(GetParam());
  const Places expected = read_places(GetParam(), golden);
  const GgufFile file{golden_path(GetParam())};
  const auto length = static_cast<std::int32_t>(golden.tokens.size());
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set, file); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set);
    const std::vector<float> whole = runner.step({piece_of(golden, expected, 0, length)});
    EXPECT_LE(relative_error(whole, expected.logits), logit_tolerance(set)) << set;
    EXPECT_GT(relative_error(whole, golden.logits), 0.01) << "the places have no effect";
    // The image is cut; after it each token is a step of its own, as an answer's are.
    std::vector<float> logits = runner.step({piece_of(golden, expected, 0, 9)});
    const std::vector<float> rest = runner.step({piece_of(golden, expected, 9, length - 14)});
    logits.insert(logits.end(), rest.begin(), rest.end());
    for (std::int32_t token = length - 5; token < length; ++token) {
      const std::vector<float> row = runner.step({piece_of(golden, expected, token, 1)});
      logits.insert(logits.end(), row.begin(), row.end());
    }
    expect_same_logits(logits, whole, set);
    // A text beside an image has its own positions.
    const Piece text{golden.tokens, 0, {5, 11, 2}};
    std::vector<float> both = runner.step({text, piece_of(golden, expected, 0, length)});
    EXPECT_LE(relative_error({both.begin(), both.begin() + std::ssize(whole)}, golden.logits), logit_tolerance(set));
    expect_same_logits({both.begin() + std::ssize(whole), both.end()}, whole, set);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, MultimodalRope, ::testing::Values("qwen2vl", "qwen3vl", "qwen35"));

TEST(MultimodalRopeSections, LieOneAfterAnotherOrInterleaved) {
  const std::vector<std::int32_t> sections{3, 3, 2, 0};
  EXPECT_THAT(rope_axes(sections, RopeSections::contiguous), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2));
  EXPECT_THAT(rope_axes(sections, RopeSections::interleaved), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
  // An axis that has no pairs left gives its places to the first.
  const std::vector<std::int32_t> uneven{4, 2, 2};
  EXPECT_THAT(rope_axes(uneven, RopeSections::interleaved), ElementsAre(0, 1, 2, 0, 1, 2, 0, 0));
}

TEST(MultimodalRopeSections, MustCoverTheRotatedPairs) {
  const auto error_of = [](const std::string& name, std::vector<std::uint64_t> sections) {
    ModelFile model = ModelFile::golden(name);
    model.set(name + ".rope.dimension_sections", GgufArray{GgufType::u64, std::move(sections)});
    return error_text([&] { static_cast<void>(ModelConfig::from_gguf(OpenModel(model).file)); });
  };
  EXPECT_EQ(error_of("qwen3vl", {3, 3, 1, 0}),
            "tiny.gguf: key 'qwen3vl.rope.dimension_sections' is 3, 3, 1, 0, the sections of 8 rotated pairs are needed");
  EXPECT_EQ(error_of("qwen3vl", {3, 3, 1, 1}),
            "tiny.gguf: key 'qwen3vl.rope.dimension_sections' is 3, 3, 1, 1, the sections "
            "of 8 rotated pairs are needed on three axes");
  EXPECT_EQ(error_of("qwen2vl", {1, 1, 1, 1, 0}),
            "tiny.gguf: key 'qwen2vl.rope.dimension_sections' has 5 values, those supported are at most 4");
}

TEST(MultimodalRopeSections, AModelWithoutThemTakesOnePositionAToken) {
  const Golden golden = read_golden("qwen3");
  const GgufFile file{golden_path("qwen3")};
  Runner runner(file, kernel_sets().front());
  EXPECT_THROW(runner.step({{.tokens = {1}, .blocks = {0}, .places = {0, 1, 2}}}), LogicError);
}

}  // namespace
}  // namespace rocmforge::testing
