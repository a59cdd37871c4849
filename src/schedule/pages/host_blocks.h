#pragma once

#include <cstdint>
#include <vector>

namespace rocmforge {

using HostId = std::int32_t;  ///< of a block of host memory

/// The blocks of host memory that there are, from 0 on.
class HostBlockSource {
 public:
  /// Adds blocks if there may be more, as many at once as it likes. Returns how many there are then.
  virtual std::int32_t grow() = 0;

 protected:
  ~HostBlockSource() = default;
};

/// Which blocks of host memory are in use, in the order of their last use. Integers only; every call is O(1), not counting
/// the growth of its tables.
class HostBlocks {
 public:
  /// `source` must outlive it.
  explicit HostBlocks(HostBlockSource& source) : source_(&source) {}

  /// Whether a block is free, if need be one that the source adds.
  bool make_free();
  /// A free block, now in use and the most recently used one. Call make_free() first; allocates nothing.
  HostId take();
  /// A block is not in use any more.
  void give_back(HostId block);
  /// Makes a block in use the most recently used one.
  void touch(HostId block);
  /// The least recently used block, unless it is held; -1 for none.
  [[nodiscard]] HostId oldest() const;
  /// Blocks that are touched from now on are held: oldest() does not give them until release_held().
  void hold_touched() { held_from_ = clock_ + 1; }
  void release_held() { held_from_ = never; }

  [[nodiscard]] std::int32_t num_used() const { return num_used_; }
  /// Given by the source so far.
  [[nodiscard]] std::int32_t num_blocks() const { return static_cast<std::int32_t>(places_.size()) - 1; }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  /// Places form a ring through one that is no block, -1: between the newest and the oldest.
  struct Place {
    HostId older = -1;
    HostId newer = -1;
    std::uint64_t last_use = 0;
  };
  [[nodiscard]] Place& at(HostId block) { return places_[static_cast<std::size_t>(block + 1)]; }
  [[nodiscard]] const Place& at(HostId block) const { return places_[static_cast<std::size_t>(block + 1)]; }
  void unlink(HostId block);
  void make_newest(HostId block);

  HostBlockSource* source_;
  std::vector<Place> places_{Place{}};  ///< of block i at i + 1; the first is the ring's end
  std::vector<HostId> free_;            ///< the next one last
  std::int32_t num_used_ = 0;
  std::uint64_t clock_ = 0;
  std::uint64_t held_from_ = never;
};

}  // namespace rocmforge
