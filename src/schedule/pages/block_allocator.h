#pragma once

#include <cstdint>
#include <vector>

namespace rocmforge {

using BlockId = std::int32_t;
using SlotId = BlockId;  ///< of recurrent state: slots are counted like blocks

/// Is notified when the owners of a watched block change, so that no caller has to count them.
class BlockWatcher {
 public:
  virtual void gained_second_owner(BlockId block) = 0;
  virtual void left_with_one_owner(BlockId block) = 0;

 protected:
  ~BlockWatcher() = default;
};

/// Reference-counted ids of cache blocks, or of slots of state: integers only. Every call is O(1), not counting what a
/// watcher does.
class BlockAllocator {
 public:
  explicit BlockAllocator(std::int32_t num_blocks);

  [[nodiscard]] std::int32_t num_blocks() const { return static_cast<std::int32_t>(references_.size()); }
  [[nodiscard]] std::int32_t num_free() const { return static_cast<std::int32_t>(free_.size()); }
  [[nodiscard]] bool can_allocate(std::int32_t count) const { return count <= num_free(); }

  /// Returns a free block with one reference. Throws LogicError when none is free: call can_allocate first.
  BlockId allocate();
  /// Adds an owner of a block in use.
  void retain(BlockId block);
  /// Removes an owner; returns true when the block became free. Throws LogicError for a block that is already free.
  bool release(BlockId block);
  [[nodiscard]] std::int32_t references(BlockId block) const;
  /// `watcher` is notified about this block from now on; null: no watcher. A block that becomes free loses its watcher.
  void watch(BlockId block, BlockWatcher* watcher);

 private:
  std::vector<std::int32_t> references_;
  std::vector<BlockWatcher*> watchers_;  ///< of each block, or null
  std::vector<BlockId> free_;
};

}  // namespace rocmforge
