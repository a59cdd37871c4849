#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/pages/block_allocator.h"

namespace rocmforge {

/// From where to where a block is copied: both blocks are the device's, or one is of host memory.
enum class CopyKind : std::uint8_t { on_device, to_host, from_host };

/// A block whose content must be copied to another of its group before the next step is computed. Slots of recurrent state
/// are the group behind those of pages.
struct BlockCopy {
  BlockId from = -1;
  BlockId to = -1;
  std::int32_t group = 0;
  CopyKind kind = CopyKind::on_device;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

/// The blocks of one sequence in the order of its positions. Holds a reference to each; move-only. The first ones may have
/// been given up when no query sees them any more; their entries are then -1.
class PageTable {
 public:
  PageTable(BlockAllocator& allocator, std::int32_t block_tokens);
  ~PageTable();
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&& other) noexcept;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  /// How many more blocks `tokens` positions need.
  [[nodiscard]] std::int32_t blocks_needed(std::int32_t tokens) const;
  /// Adds blocks for positions [0, tokens). False (and nothing changed) when the allocator has too few free blocks.
  bool reserve(std::int32_t tokens);
  /// Takes over shared blocks as the start of an empty table (a cached prefix, another sequence's start); retains each. The
  /// first `given_up` of them are left out.
  void adopt(std::span<const BlockId> blocks, std::size_t given_up = 0);
  /// Releases the blocks that hold only positions below `first`. Returns whether there were any.
  bool give_up_before(std::int32_t first);
  /// The number of held blocks with positions >= first that have other owners. Writing to them needs that many free blocks.
  [[nodiscard]] std::int32_t shared_blocks(std::int32_t first) const;
  /// Replaces these blocks by free ones. Appends the copy for a block that also holds positions below `first`; copies must
  /// be made in order. False (and nothing changed) when the allocator has too few free blocks.
  bool make_writable(std::int32_t first, std::vector<BlockCopy>& copies, std::int32_t group = 0);
  /// Releases the blocks that hold only positions >= tokens.
  void truncate(std::int32_t tokens);
  void clear() { truncate(0); }

  [[nodiscard]] std::span<const BlockId> blocks() const { return blocks_; }
  /// The number of blocks given up at the start, and of those that are held.
  [[nodiscard]] std::size_t num_given_up() const { return given_up_; }
  [[nodiscard]] std::int32_t num_held() const { return static_cast<std::int32_t>(blocks_.size() - given_up_); }
  [[nodiscard]] std::int32_t capacity_tokens() const;
  [[nodiscard]] std::int32_t block_tokens() const { return block_tokens_; }

 private:
  BlockAllocator* allocator_;
  std::int32_t block_tokens_;
  std::vector<BlockId> blocks_;
  std::size_t given_up_ = 0;
};

}  // namespace rocmforge
