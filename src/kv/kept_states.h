#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "kv/block_allocator.h"

namespace rocmforge {

/// Slots that hold the state of a sequence behind the last position of a cached block. Keeps one reference to each; those
/// that nobody else holds are idle and are given back, the least recently used first, when slots are needed. Integers only;
/// every call is O(1) beside what it gives back.
class KeptStates final : private BlockWatcher {
 public:
  /// `slots` must outlive it.
  KeptStates(BlockAllocator& slots, std::int32_t num_blocks);
  ~KeptStates();
  KeptStates(const KeptStates&) = delete;
  KeptStates& operator=(const KeptStates&) = delete;

  /// The slot of the state behind `block`, or -1.
  [[nodiscard]] SlotId behind(BlockId block) const { return slot_behind_[static_cast<std::size_t>(block)]; }
  /// Keeps `slot`, in use by the caller, as the state behind a block that has none.
  void put(BlockId block, SlotId slot);
  /// Makes an idle state the most recently used.
  void touch(BlockId block);
  /// Gives up the state behind a block, if there is one.
  void drop(BlockId block);

  /// Gives up idle states until `count` slots are free or none is idle.
  void evict(std::int32_t count);
  [[nodiscard]] std::int32_t num_idle() const { return static_cast<std::int32_t>(idle_.size()); }
  [[nodiscard]] std::int32_t num_kept() const { return num_kept_; }

 private:
  void gained_second_owner(SlotId slot) override;
  void left_with_one_owner(SlotId slot) override;

  struct Slot {
    BlockId block = -1;
    bool idle = false;
    std::list<SlotId>::iterator place{};  ///< in idle_ or read_
  };

  BlockAllocator* slots_;
  std::vector<SlotId> slot_behind_;  ///< of each block
  std::vector<Slot> of_slot_;
  std::list<SlotId> idle_;  ///< the least recently used first
  std::list<SlotId> read_;  ///< that others hold too: so a change of owners takes no memory
  std::int32_t num_kept_ = 0;
};

}  // namespace rocmforge
