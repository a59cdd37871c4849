#include "schedule/pages/host_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>

#include "base/error.h"

namespace rocmforge {
namespace {

struct Source final : HostBlockSource {
  explicit Source(std::int32_t max_blocks) : most(max_blocks) {}
  std::int32_t grow() override {
    there = std::min(there + 4, most);
    return there;
  }
  std::int32_t most;
  std::int32_t there = 0;
};

TEST(HostBlocks, GrowUpToTheLimitOfTheirSource) {
  Source source(6);
  HostBlocks blocks(source);
  EXPECT_EQ(blocks.oldest(), -1);
  for (HostId expected = 0; expected < 6; ++expected) {
    ASSERT_TRUE(blocks.make_free());
    EXPECT_EQ(blocks.take(), expected);
    EXPECT_EQ(blocks.num_blocks(), expected < 4 ? 4 : 6) << "no more than are needed";
  }
  EXPECT_FALSE(blocks.make_free());
  EXPECT_THROW(blocks.take(), LogicError);
  blocks.give_back(3);
  EXPECT_THROW(blocks.give_back(3), LogicError);
  EXPECT_THROW(blocks.touch(3), LogicError);
  ASSERT_TRUE(blocks.make_free());
  EXPECT_EQ(blocks.take(), 3);
  EXPECT_EQ(blocks.num_used(), 6);
}

TEST(HostBlocks, AHeldBlockIsNotTheOldest) {
  Source source(3);
  HostBlocks blocks(source);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(blocks.make_free());
    blocks.take();
  }
  blocks.hold_touched();
  blocks.touch(0);
  EXPECT_EQ(blocks.oldest(), 1);
  blocks.give_back(1);
  blocks.give_back(2);
  EXPECT_EQ(blocks.oldest(), -1);
  blocks.release_held();
  EXPECT_EQ(blocks.oldest(), 0);
}

TEST(HostBlocks, TheOrderIsThatOfAPlainList) {
  Source source(50);
  HostBlocks blocks(source);
  std::list<HostId> order;  // the oldest first
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto at = std::next(order.begin(), order.empty() ? 0 : static_cast<std::ptrdiff_t>(random() % order.size()));
    const std::uint32_t choice = random() % 4;
    if (choice < 2 && blocks.make_free()) {
      order.push_back(blocks.take());
    } else if (choice == 2 && !order.empty()) {
      blocks.touch(*at);
      order.splice(order.end(), order, at);
    } else if (!order.empty()) {
      blocks.give_back(*at);
      order.erase(at);
    }
    ASSERT_EQ(blocks.num_used(), std::ssize(order));
    ASSERT_EQ(blocks.oldest(), order.empty() ? -1 : order.front());
  }
}

}  // namespace
}  // namespace rocmforge
