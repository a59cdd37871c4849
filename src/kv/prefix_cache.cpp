#include "kv/prefix_cache.h"

#include <algorithm>

#include "base/error.h"

namespace rocmforge {

PrefixCache::PrefixCache(BlockAllocator& allocator, std::int32_t block_tokens, BlockHash hash)
    : allocator_(&allocator), block_tokens_(block_tokens), hash_(hash) {
  check(block_tokens > 0, "a block holds at least one token");
}

PrefixCache::~PrefixCache() {
  for (const auto& [key, entry] : entries_) {
    allocator_->release(entry.block);
  }
}

std::uint64_t PrefixCache::hash_block(std::uint64_t parent, std::span<const std::int32_t> tokens) {
  std::uint64_t hash = parent;
  for (const std::int32_t token : tokens) {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
    hash += 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(token);
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    hash ^= hash >> 31;
  }
  return hash != 0 ? hash : 1;
}

// One entry per key, and an entry outlives its children: so equal parent keys mean the same tokens before, and comparing
// this block's tokens makes the whole match exact.
PrefixCache::Entry* PrefixCache::find(std::uint64_t key, std::uint64_t parent, std::span<const std::int32_t> tokens) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.parent != parent || !std::ranges::equal(found->second.tokens, tokens)) {
    return nullptr;
  }
  return &found->second;
}

void PrefixCache::touch(std::span<const std::uint64_t> chain) {
  for (std::size_t i = chain.size(); i-- > 0;) {
    by_recency_.splice(by_recency_.end(), by_recency_, entries_.at(chain[i]).recency);
  }
}

std::vector<BlockId> PrefixCache::match(std::span<const std::int32_t> tokens) {
  std::vector<BlockId> blocks;
  std::vector<std::uint64_t> chain;
  const auto length = static_cast<std::size_t>(block_tokens_);
  std::uint64_t parent = 0;
  for (std::size_t begin = 0; begin + length < tokens.size(); begin += length) {
    const auto piece = tokens.subspan(begin, length);
    const std::uint64_t key = hash_(parent, piece);
    const Entry* entry = find(key, parent, piece);
    if (entry == nullptr) {
      break;
    }
    blocks.push_back(entry->block);
    chain.push_back(key);
    parent = key;
  }
  touch(chain);
  return blocks;
}

void PrefixCache::insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks) {
  std::vector<std::uint64_t> chain;
  const auto length = static_cast<std::size_t>(block_tokens_);
  const std::size_t full_blocks = std::min(tokens.size() / length, blocks.size());
  std::uint64_t parent = 0;
  for (std::size_t i = 0; i < full_blocks; ++i) {
    const auto piece = tokens.subspan(i * length, length);
    const std::uint64_t key = hash_(parent, piece);
    if (find(key, parent, piece) == nullptr) {
      if (entries_.contains(key)) {
        break;  // another block has this key; what follows can't be told apart from its children
      }
      allocator_->retain(blocks[i]);
      by_recency_.push_back(key);
      entries_.emplace(key, Entry{parent, {piece.begin(), piece.end()}, blocks[i], std::prev(by_recency_.end()), {}});
      if (parent != 0) {
        entries_.at(parent).children.push_back(key);
      }
    }
    chain.push_back(key);
    parent = key;
  }
  touch(chain);
}

void PrefixCache::evict(std::int32_t count) {
  for (const bool ends_only : {true, false}) {
    // Children come before their parents in the list, so one pass also reaches the parents that become ends of chains. What
    // follows a block that is forgotten in the second pass is held by somebody, or it would be gone: it stays allocated.
    for (auto next = by_recency_.begin(); next != by_recency_.end() && !allocator_->can_allocate(count);) {
      const auto entry = entries_.find(*next);
      const bool given = allocator_->references(entry->second.block) == 1 && (entry->second.children.empty() || !ends_only);
      if (!given) {
        ++next;
        continue;
      }
      std::vector<std::uint64_t>* siblings =
          entry->second.parent != 0 ? &entries_.at(entry->second.parent).children : nullptr;
      if (siblings != nullptr) {
        std::erase(*siblings, *next);
      }
      const auto after = std::next(next);  // no entry that follows this one: they are before it
      forget(entry);
      next = after;
    }
  }
}

void PrefixCache::forget(Entries::iterator entry) {
  std::vector<Entries::iterator> doomed{entry};
  for (std::size_t i = 0; i < doomed.size(); ++i) {
    for (const std::uint64_t child : doomed[i]->second.children) {
      doomed.push_back(entries_.find(child));
    }
  }
  for (const Entries::iterator each : doomed) {
    allocator_->release(each->second.block);
    by_recency_.erase(each->second.recency);
    entries_.erase(each);
  }
}

std::int32_t PrefixCache::num_evictable() const {
  return static_cast<std::int32_t>(std::ranges::count_if(
      entries_, [this](const auto& entry) { return allocator_->references(entry.second.block) == 1; }));
}

}  // namespace rocmforge
