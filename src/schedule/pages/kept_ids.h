#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "schedule/pages/block_allocator.h"

namespace rocmforge {

/// Ids of another allocator, each kept with a cached block: the slot of a sequence's state behind its last position, or the
/// block of a group with a window for the same positions. Holds one reference to each. An id without other owners is idle;
/// its owner drops idle ids, the least recently used first, when ids are needed. Integers only; every call is O(1).
class KeptIds final : private BlockWatcher {
 public:
  /// `allocator` must outlive it.
  KeptIds(BlockAllocator& allocator, std::int32_t num_blocks);
  ~KeptIds();
  KeptIds(const KeptIds&) = delete;
  KeptIds& operator=(const KeptIds&) = delete;

  /// The id kept with `block`, or -1.
  [[nodiscard]] BlockId of(BlockId block) const { return kept_of_[static_cast<std::size_t>(block)]; }
  /// Keeps `id`, which the caller holds, with a block that has none.
  void put(BlockId block, BlockId id);
  /// Makes the id kept with a block the most recently used, if it is idle.
  void touch(BlockId block);
  /// Releases the id kept with a block, if there is one.
  void drop(BlockId block);

  /// The block whose idle id is released next so that `count` are free; -1 where they are, or none is idle.
  [[nodiscard]] BlockId next_to_drop(std::int32_t count) const {
    return allocator_->can_allocate(count) || idle_.empty() ? -1 : of_id_[static_cast<std::size_t>(idle_.front())].block;
  }
  [[nodiscard]] BlockAllocator& allocator() { return *allocator_; }
  [[nodiscard]] std::int32_t num_idle() const { return static_cast<std::int32_t>(idle_.size()); }
  [[nodiscard]] std::int32_t num_kept() const { return num_kept_; }

 private:
  void gained_second_owner(BlockId id) override;
  void left_with_one_owner(BlockId id) override;

  struct Kept {
    BlockId block = -1;
    bool idle = false;
    std::list<BlockId>::iterator place{};  ///< in idle_ or read_
  };

  BlockAllocator* allocator_;
  std::vector<BlockId> kept_of_;  ///< of each block
  std::vector<Kept> of_id_;
  std::list<BlockId> idle_;  ///< the least recently used first
  std::list<BlockId> read_;  ///< ids with other owners: nodes move between the lists without allocation
  std::int32_t num_kept_ = 0;
};

}  // namespace rocmforge
