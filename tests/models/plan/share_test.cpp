#include "models/plan/share.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "models/error_text.h"

namespace rocmforge::testing {
namespace {

/// The first element and the count of every rank, one after another.
template <class Part>
std::vector<std::int64_t> of_all(std::int32_t ranks, const Part& part) {
  std::vector<std::int64_t> numbers;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const Range range = part(Share{rank, ranks});
    numbers.insert(numbers.end(), {range.first, range.count});
  }
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

TEST(Share, HeadsAreDividedEqually) {
  const auto of = [](std::int64_t count) { return [count](const Share& share) { return share.equal(count, "heads"); }; };
  EXPECT_EQ(of_all(1, of(7)), (Numbers{0, 7}));
  EXPECT_EQ(of_all(4, of(8)), (Numbers{0, 2, 2, 2, 4, 2, 6, 2}));
  EXPECT_EQ(error_text([&] { of_all(4, of(14)); }), "14 heads can't be shared by 4 ranks");
}

TEST(Share, FewerHeadsThanRanksAreRepeated) {
  const auto of = [](std::int64_t count) {
    return [count](const Share& share) { return share.repeated(count, "KV heads"); };
  };
  EXPECT_EQ(of_all(2, of(4)), (Numbers{0, 2, 2, 2}));
  EXPECT_EQ(of_all(4, of(2)), (Numbers{0, 1, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(of_all(2, of(1)), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(of_all(2, of(0)), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(error_text([&] { of_all(4, of(3)); }), "3 KV heads can't be shared by 4 ranks");
  EXPECT_EQ(error_text([&] { of_all(4, of(6)); }), "6 KV heads can't be shared by 4 ranks");
}

/// The experts of Qwen3-30B-A3B are 768 wide, three blocks of a K-quant.
TEST(Share, FeaturesAreDividedByWholeBlocks) {
  const auto of = [](std::int64_t count, std::int64_t unit) {
    return [count, unit](const Share& share) { return share.units(count, unit, "columns"); };
  };
  EXPECT_EQ(of_all(2, of(768, 256)), (Numbers{0, 256, 256, 512}));
  EXPECT_EQ(of_all(2, of(768, 32)), (Numbers{0, 384, 384, 384}));
  EXPECT_EQ(of_all(3, of(10, 1)), (Numbers{0, 3, 3, 3, 6, 4}));
  EXPECT_EQ(of_all(1, of(100, 32)), (Numbers{0, 100}));
  EXPECT_EQ(error_text([&] { of_all(4, of(768, 256)); }), "768 columns in blocks of 256 can't be shared by 4 ranks");
}

}  // namespace
}  // namespace rocmforge::testing
