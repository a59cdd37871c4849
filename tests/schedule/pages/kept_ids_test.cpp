#include "schedule/pages/kept_ids.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace rocmforge {
namespace {

/// Keeps a state after `block` and releases its slot.
SlotId keep(BlockAllocator& slots, KeptIds& states, BlockId block) {
  const SlotId slot = slots.allocate();
  states.put(block, slot);
  slots.release(slot);
  return slot;
}

void evict(KeptIds& states, std::int32_t count) {
  for (BlockId block = states.next_to_drop(count); block >= 0; block = states.next_to_drop(count)) {
    states.drop(block);
  }
}

TEST(KeptIds, TheLeastRecentlyUsedGoFirst) {
  BlockAllocator slots(4);
  KeptIds states(slots, 8);
  for (const BlockId block : {5, 1, 7}) {
    keep(slots, states, block);
  }
  states.touch(5);
  EXPECT_EQ(states.num_idle(), 3);
  evict(states, 1);
  EXPECT_EQ(states.num_kept(), 3) << "one is free already";
  evict(states, 2);
  EXPECT_EQ(states.of(1), -1);
  EXPECT_GE(states.of(5), 0);
  evict(states, 100);
  EXPECT_EQ(states.num_kept(), 0);
  EXPECT_EQ(slots.num_free(), 4);
}

TEST(KeptIds, OneThatIsReadStays) {
  BlockAllocator slots(2);
  KeptIds states(slots, 4);
  const SlotId read = keep(slots, states, 0);
  keep(slots, states, 1);
  slots.retain(read);
  EXPECT_EQ(states.num_idle(), 1);
  evict(states, 2);
  EXPECT_EQ(states.of(0), read);
  EXPECT_EQ(states.of(1), -1);
  states.touch(0);  // not idle: nothing to order
  states.drop(0);   // its block is dropped; the reader still holds the slot
  EXPECT_EQ(states.of(0), -1);
  EXPECT_EQ(slots.num_free(), 1);
  slots.release(read);
  EXPECT_EQ(slots.num_free(), 2);
}

TEST(KeptIds, GivesBackWhatItHolds) {
  BlockAllocator slots(3);
  {
    KeptIds states(slots, 4);
    keep(slots, states, 2);
    EXPECT_THROW(keep(slots, states, 2), LogicError) << "there is one behind it already";
  }
  EXPECT_EQ(slots.num_free(), 2) << "the test's own slot";
}

}  // namespace
}  // namespace rocmforge
