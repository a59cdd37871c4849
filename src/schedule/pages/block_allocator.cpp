#include "schedule/pages/block_allocator.h"

#include <numeric>

#include "base/error.h"

namespace rocmforge {

BlockAllocator::BlockAllocator(std::int32_t num_blocks) {
  check(num_blocks >= 0, "the number of blocks is negative");
  references_.assign(static_cast<std::size_t>(num_blocks), 0);
  watchers_.assign(static_cast<std::size_t>(num_blocks), nullptr);
  free_.resize(static_cast<std::size_t>(num_blocks));
  // Blocks are taken from the back: the lowest ids first, so that a small load touches little of the cache's memory.
  std::iota(free_.rbegin(), free_.rend(), 0);
}

BlockId BlockAllocator::allocate() {
  check(!free_.empty(), "no block is free");
  const BlockId block = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(block)] = 1;
  return block;
}

void BlockAllocator::retain(BlockId block) {
  check(references(block) > 0, "a free block can't be retained");
  const auto index = static_cast<std::size_t>(block);
  if (++references_[index] == 2 && watchers_[index] != nullptr) {
    watchers_[index]->gained_second_owner(block);
  }
}

bool BlockAllocator::release(BlockId block) {
  check(references(block) > 0, "the block is free already");
  const auto index = static_cast<std::size_t>(block);
  const std::int32_t left = --references_[index];
  if (left == 1 && watchers_[index] != nullptr) {
    watchers_[index]->left_with_one_owner(block);
  }
  if (left > 0) {
    return false;
  }
  watchers_[index] = nullptr;
  free_.push_back(block);
  return true;
}

void BlockAllocator::watch(BlockId block, BlockWatcher* watcher) {
  check(references(block) > 0, "a free block can't be watched");
  watchers_[static_cast<std::size_t>(block)] = watcher;
}

std::int32_t BlockAllocator::references(BlockId block) const {
  check(block >= 0 && block < num_blocks(), "the block id is outside the cache");
  return references_[static_cast<std::size_t>(block)];
}

}  // namespace rocmforge
