#include "schedule/pages/page_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

TEST(PageTable, GrowsByWholeBlocks) {
  BlockAllocator allocator(4);
  PageTable table(allocator, 16);
  EXPECT_EQ(table.blocks_needed(0), 0);
  EXPECT_EQ(table.blocks_needed(1), 1);
  EXPECT_EQ(table.blocks_needed(16), 1);
  EXPECT_EQ(table.blocks_needed(17), 2);
  ASSERT_TRUE(table.reserve(17));
  EXPECT_EQ(table.capacity_tokens(), 32);
  ASSERT_TRUE(table.reserve(32));
  EXPECT_EQ(allocator.num_free(), 2);
  EXPECT_EQ(table.blocks_needed(33), 1);
}

TEST(PageTable, FailedReservationChangesNothing) {
  BlockAllocator allocator(3);
  PageTable table(allocator, 4);
  ASSERT_TRUE(table.reserve(4));
  const std::vector<BlockId> before(table.blocks().begin(), table.blocks().end());
  EXPECT_FALSE(table.reserve(17));
  EXPECT_TRUE(std::ranges::equal(table.blocks(), before));
  EXPECT_EQ(allocator.num_free(), 2);
}

TEST(PageTable, TruncateKeepsTheBlockThatIsPartlyUsed) {
  BlockAllocator allocator(4);
  PageTable table(allocator, 4);
  ASSERT_TRUE(table.reserve(16));
  const BlockId second = table.blocks()[1];
  table.truncate(5);
  ASSERT_EQ(table.blocks().size(), 2u);
  EXPECT_EQ(table.blocks()[1], second);
  table.truncate(4);
  EXPECT_EQ(table.blocks().size(), 1u);
  table.truncate(100);
  EXPECT_EQ(table.blocks().size(), 1u);
  table.clear();
  EXPECT_EQ(allocator.num_free(), 4);
}

TEST(PageTable, AdoptedBlocksAreShared) {
  BlockAllocator allocator(4);
  PageTable first(allocator, 4);
  ASSERT_TRUE(first.reserve(8));
  PageTable second(allocator, 4);
  second.adopt(first.blocks());
  EXPECT_EQ(allocator.references(first.blocks()[0]), 2);
  EXPECT_EQ(allocator.num_free(), 2);
  EXPECT_THROW(second.adopt(first.blocks()), LogicError);
  first.clear();
  EXPECT_EQ(allocator.num_free(), 2);
  second.clear();
  EXPECT_EQ(allocator.num_free(), 4);
}

TEST(PageTable, MovingPassesTheBlocksOn) {
  BlockAllocator allocator(4);
  {
    PageTable first(allocator, 4);
    ASSERT_TRUE(first.reserve(8));
    PageTable second(std::move(first));
    EXPECT_EQ(second.blocks().size(), 2u);
    PageTable third(allocator, 4);
    ASSERT_TRUE(third.reserve(4));
    third = std::move(second);
    EXPECT_EQ(third.blocks().size(), 2u);
  }
  EXPECT_EQ(allocator.num_free(), 4);
}

TEST(PageTable, RandomOperationsNeitherLeakNorShareByAccident) {
  constexpr std::int32_t num_blocks = 40;
  constexpr std::int32_t block_tokens = 4;
  BlockAllocator allocator(num_blocks);
  std::mt19937 random(11);
  std::vector<PageTable> tables;
  for (int step = 0; step < 100'000; ++step) {
    if (tables.size() < 6) {
      tables.emplace_back(allocator, block_tokens);
    }
    const std::size_t index = random() % tables.size();
    PageTable& table = tables[index];
    switch (random() % 8) {
      case 0:
        table.truncate(static_cast<std::int32_t>(random() % 60));
        break;
      case 1:
        tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(index));
        break;
      case 2:
        if (table.blocks().empty()) {
          const PageTable& other = tables[random() % tables.size()];
          table.adopt(std::vector<BlockId>(other.blocks().begin(), other.blocks().end()), other.num_given_up());
        }
        break;
      case 3:
        table.give_up_before(static_cast<std::int32_t>(random() % 60));
        break;
      default: {
        const auto tokens = static_cast<std::int32_t>(random() % 60);
        const std::int32_t needed = table.blocks_needed(tokens);
        const std::int32_t free_before = allocator.num_free();
        const bool reserved = table.reserve(tokens);
        ASSERT_EQ(reserved, needed <= free_before);
        ASSERT_EQ(allocator.num_free(), reserved ? free_before - needed : free_before);
        ASSERT_TRUE(!reserved || table.capacity_tokens() >= tokens);
      }
    }
    std::vector<std::int32_t> owners(num_blocks, 0);
    for (const PageTable& each : tables) {
      std::set<BlockId> own;
      ASSERT_EQ(each.num_held(), std::ssize(each.blocks()) - static_cast<std::ptrdiff_t>(each.num_given_up()));
      for (const BlockId block : each.blocks().subspan(each.num_given_up())) {
        ASSERT_TRUE(own.insert(block).second) << "a block occurs twice in one table";
        ++owners[static_cast<std::size_t>(block)];
      }
    }
    for (BlockId block = 0; block < num_blocks; ++block) {
      ASSERT_EQ(allocator.references(block), owners[static_cast<std::size_t>(block)]);
    }
  }
  tables.clear();
  EXPECT_EQ(allocator.num_free(), num_blocks);
}

}  // namespace
}  // namespace rocmforge
