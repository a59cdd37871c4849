#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/block_allocator.h"

namespace rocmforge {

/// Finds full blocks whose tokens (and all tokens before them) were computed already. Keeps one reference to each block it
/// knows; gives the least recently used ones back when asked. A match compares the tokens themselves, not only their hash.
class PrefixCache {
 public:
  /// The key of a block from the key of the one before it (0 for the first) and its tokens. Any function serves: keys that
  /// collide cost hits, never a wrong match.
  using BlockHash = std::uint64_t (*)(std::uint64_t parent, std::span<const std::int32_t> tokens);
  static std::uint64_t hash_block(std::uint64_t parent, std::span<const std::int32_t> tokens);

  PrefixCache(BlockAllocator& allocator, std::int32_t block_tokens, BlockHash hash = hash_block);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest run of cached blocks that starts `tokens`; at most tokens.size() - 1 positions, since the last token must
  /// still be computed to have logits. The caller adopts (retains) them before the next call.
  std::vector<BlockId> match(std::span<const std::int32_t> tokens);

  /// Remembers the full blocks of a sequence: blocks[i] holds tokens [i * block_tokens, (i + 1) * block_tokens).
  void insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks);

  /// Frees least recently used blocks that nobody else holds until the allocator has `count` free ones or none is left to
  /// give: the ends of chains first, then also those before a block that a sequence holds, which is forgotten with them.
  void evict(std::int32_t count);

  [[nodiscard]] std::int32_t num_blocks() const { return static_cast<std::int32_t>(entries_.size()); }
  /// Blocks that `evict` could free: nobody else holds them. Linear in num_blocks.
  [[nodiscard]] std::int32_t num_evictable() const;

 private:
  struct Entry {
    std::uint64_t parent = 0;  ///< key of the block before, 0 for the first
    std::vector<std::int32_t> tokens;
    BlockId block = -1;
    std::list<std::uint64_t>::iterator recency;
    std::vector<std::uint64_t> children;  ///< keys of the blocks known to follow
  };
  using Entries = std::unordered_map<std::uint64_t, Entry>;

  /// The entry of the block with these tokens after `parent`, or null.
  Entry* find(std::uint64_t key, std::uint64_t parent, std::span<const std::int32_t> tokens);
  /// Removes an entry and all that follow it.
  void forget(Entries::iterator entry);
  /// Makes a chain the most recently used, its first block last: so a parent is always behind its children in the list.
  void touch(std::span<const std::uint64_t> chain);

  BlockAllocator* allocator_;
  std::int32_t block_tokens_;
  BlockHash hash_;
  Entries entries_;
  std::list<std::uint64_t> by_recency_;  ///< front = least recently used
};

}  // namespace rocmforge
