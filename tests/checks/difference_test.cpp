#include "checks/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace rocmforge {
namespace {

constexpr std::int64_t width = 40;

/// Rows of ones with a small pattern.
std::vector<float> rows_of_numbers(std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * width; ++i) {
    values.push_back(1.0f + 0.01f * static_cast<float>(i % 7));
  }
  return values;
}

TEST(CompareOutputs, EqualNumbersAreRight) {
  const std::vector<float> values = rows_of_numbers(3);
  const OutputDifference found = compare_outputs(values, values, width, 0.0);
  EXPECT_TRUE(found.right());
  EXPECT_EQ(found.elements, 120);
  EXPECT_EQ(found.relative, 0.0);
}

TEST(CompareOutputs, ToleranceZeroWantsEqualNumbers) {
  const std::vector<float> expected = rows_of_numbers(3);
  std::vector<float> actual = expected;
  actual[50] = std::nextafter(actual[50], 2.0f);
  const OutputDifference found = compare_outputs(actual, expected, width, 0.0);
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.first_row, 1);
  EXPECT_EQ(found.first_column, 10);
}

TEST(CompareOutputs, OneElementOfManyIsFound) {
  const std::vector<float> expected = rows_of_numbers(1000);
  std::vector<float> actual = expected;
  actual[39999] += 0.1f;  // relative to all numbers only 5e-4
  const OutputDifference found = compare_outputs(actual, expected, width, 1e-3);
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.first_row, 999);
  EXPECT_EQ(found.first_column, 39);
  EXPECT_FLOAT_EQ(found.first_actual, actual[39999]);
}

TEST(CompareOutputs, NumbersThatAreNotFiniteMustBeTheSame) {
  std::vector<float> expected = rows_of_numbers(2);
  std::vector<float> actual = expected;
  expected[3] = actual[3] = -std::numeric_limits<float>::infinity();
  EXPECT_TRUE(compare_outputs(actual, expected, width, 1e-5).right());
  actual[41] = std::nanf("");
  const OutputDifference found = compare_outputs(actual, expected, width, 1e-5);
  EXPECT_EQ(found.missing, 1);
  EXPECT_EQ(found.wrong, 1);
  EXPECT_EQ(found.first_row, 1);
}

/// An activation closes all gates of a piece but for a little: their products were rounded at the size of open ones.
TEST(CompareOutputs, APieceOfSmallNumbersMayBeRoundedLikeTheOthers) {
  std::vector<float> expected = rows_of_numbers(100);
  std::fill_n(expected.begin() + 16, 16, 1e-4f);
  std::vector<float> actual = expected;
  actual[20] += 2e-4f;  // less than a tolerance of what numbers have on average
  EXPECT_TRUE(compare_outputs(actual, expected, width, 1e-3).right());
  actual[20] += 2e-3f;
  EXPECT_EQ(compare_outputs(actual, expected, width, 1e-3).wrong, 1);
}

TEST(CompareOutputs, ManySmallErrorsAreWrongTogether) {
  const std::vector<float> expected = rows_of_numbers(10);
  std::vector<float> actual = expected;
  for (float& value : actual) {
    value *= 1.002f;
  }
  EXPECT_FALSE(compare_outputs(actual, expected, width, 1e-3).right());
  EXPECT_TRUE(compare_outputs(actual, expected, width, 3e-3).right());
}

/// Outputs of several parts, which threads share.
TEST(CompareOutputs, ThreadsFindTheSame) {
  const std::int64_t rows = 60'000;
  const std::vector<float> expected = rows_of_numbers(rows);
  std::vector<float> actual = expected;
  for (const std::size_t wrong : {std::size_t{50'003}, std::size_t{1'100'007}, actual.size() - 1}) {
    actual[wrong] = std::numeric_limits<float>::quiet_NaN();
  }
  actual[2'000'001] += 1.0f;
  ThreadPool pool(3);
  const OutputDifference shared = compare_outputs(actual, expected, width, 1e-3, &pool);
  const OutputDifference alone = compare_outputs(actual, expected, width, 1e-3);
  EXPECT_EQ(shared.wrong, 4);
  EXPECT_EQ(shared.missing, 3);
  EXPECT_EQ(shared.first_row, 50'003 / width);
  EXPECT_EQ(shared.first_column, 50'003 % width);
  EXPECT_EQ(alone.wrong, shared.wrong);
  EXPECT_EQ(alone.missing, shared.missing);
  EXPECT_EQ(alone.first_row, shared.first_row);
  EXPECT_EQ(alone.relative, shared.relative);
}

}  // namespace
}  // namespace rocmforge
