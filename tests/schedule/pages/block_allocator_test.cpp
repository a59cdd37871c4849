#include "schedule/pages/block_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/error.h"

namespace rocmforge {
namespace {

TEST(BlockAllocator, HandsOutEveryBlockOnceAndThenNone) {
  BlockAllocator allocator(5);
  std::set<BlockId> seen;
  for (int i = 0; i < 5; ++i) {
    const BlockId block = allocator.allocate();
    EXPECT_GE(block, 0);
    EXPECT_LT(block, 5);
    EXPECT_TRUE(seen.insert(block).second);
  }
  EXPECT_EQ(allocator.num_free(), 0);
  EXPECT_FALSE(allocator.can_allocate(1));
  EXPECT_TRUE(allocator.can_allocate(0));
  EXPECT_THROW(allocator.allocate(), LogicError);
}

TEST(BlockAllocator, RefusesToFreeTwice) {
  BlockAllocator allocator(2);
  const BlockId block = allocator.allocate();
  EXPECT_TRUE(allocator.release(block));
  EXPECT_THROW(allocator.release(block), LogicError);
  EXPECT_THROW(allocator.retain(block), LogicError);
  EXPECT_EQ(allocator.num_free(), 2);
}

TEST(BlockAllocator, RefusesIdsOutsideTheCache) {
  BlockAllocator allocator(2);
  for (const BlockId block : {-1, 2, 1 << 30}) {
    EXPECT_THROW(allocator.release(block), LogicError);
    EXPECT_THROW(allocator.retain(block), LogicError);
    EXPECT_THROW((void)allocator.references(block), LogicError);
  }
  EXPECT_THROW(BlockAllocator(-1), LogicError);
}

TEST(BlockAllocator, BlockIsFreeOnlyAfterItsLastOwner) {
  BlockAllocator allocator(1);
  const BlockId block = allocator.allocate();
  allocator.retain(block);
  EXPECT_EQ(allocator.references(block), 2);
  EXPECT_FALSE(allocator.release(block));
  EXPECT_EQ(allocator.num_free(), 0);
  EXPECT_TRUE(allocator.release(block));
  EXPECT_EQ(allocator.num_free(), 1);
}

TEST(BlockAllocator, RandomOperationsKeepCountsRight) {
  constexpr std::int32_t num_blocks = 61;
  BlockAllocator allocator(num_blocks);
  std::vector<std::int32_t> expected(num_blocks, 0);
  std::mt19937 random(7);
  std::int32_t in_use = 0;
  for (int step = 0; step < 400'000; ++step) {
    const auto block = static_cast<BlockId>(random() % num_blocks);
    std::int32_t& references = expected[static_cast<std::size_t>(block)];
    switch (random() % 3) {
      case 0:
        if (allocator.can_allocate(1)) {
          const BlockId fresh = allocator.allocate();
          ASSERT_EQ(expected[static_cast<std::size_t>(fresh)]++, 0) << "a block in use was handed out";
          ++in_use;
        }
        break;
      case 1:
        if (references > 0) {
          allocator.retain(block);
          ++references;
        }
        break;
      default:
        if (references > 0) {
          ASSERT_EQ(allocator.release(block), --references == 0);
          in_use -= references == 0 ? 1 : 0;
        } else {
          ASSERT_THROW(allocator.release(block), LogicError);
        }
    }
    ASSERT_EQ(allocator.num_free(), num_blocks - in_use);
    ASSERT_EQ(allocator.references(block), references);
  }
}

}  // namespace
}  // namespace rocmforge
