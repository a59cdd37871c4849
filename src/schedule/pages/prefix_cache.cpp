#include "schedule/pages/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {

PrefixCache::PrefixCache(BlockAllocator& allocator, std::int32_t block_tokens, BlockHash hash, BlockAllocator* slots,
                         std::span<const WindowGroup> windows)
    : allocator_(&allocator),
      block_tokens_(block_tokens),
      hash_(hash),
      entry_of_block_(static_cast<std::size_t>(allocator.num_blocks()), nullptr) {
  check(block_tokens > 0, "a block holds at least one token");
  if (slots != nullptr) {
    states_.emplace(*slots, allocator.num_blocks());
  }
  for (const WindowGroup& window : windows) {
    windows_.emplace_back(window, allocator.num_blocks());
  }
}

PrefixCache::~PrefixCache() {
  for (const auto& [key, entry] : entries_) {
    if (entry.block >= 0) {
      allocator_->watch(entry.block, nullptr);
      allocator_->release(entry.block);
    }
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

std::uint64_t PrefixCache::key_of(const Position& position, std::span<const std::int32_t> tokens) const {
  if (position.parent != nullptr) {
    return hash_(position.parent->key, tokens);
  }
  const std::vector<std::int32_t> salt(position.salt.begin(), position.salt.end());
  return hash_(salt.empty() ? 0 : hash_(0, salt), tokens);
}

// There is one entry for each key, and an entry outlives its children. So entries with the same parent follow the same
// tokens and the same salt, and comparing this block's tokens makes the whole match exact.
PrefixCache::Entry* PrefixCache::find(std::uint64_t key, const Position& position, std::span<const std::int32_t> tokens) {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.parent != position.parent ||
      (position.parent == nullptr && found->second.salt != position.salt) ||
      !std::ranges::equal(found->second.tokens, tokens)) {
    return nullptr;
  }
  return &found->second;
}

void PrefixCache::touch(std::span<Entry* const> chain) {
  for (std::size_t i = chain.size(); i-- > 0;) {
    Entry& entry = *chain[i];
    if (entry.idle) {
      ByAge& set = idle_set(entry);
      auto node = set.extract(&entry);
      entry.last_use = ++clock_;
      set.insert(set.end(), std::move(node));
    }
    if (copy_of(entry, 0) >= 0) {
      host_[0].blocks.touch(entry.copies[0]);
    }
  }
}

std::vector<PrefixCache::Entry*> PrefixCache::known(std::span<const std::int32_t> tokens, std::string_view salt,
                                                    std::span<const TokenSpan> spans) {
  std::vector<Entry*> chain;
  const auto length = static_cast<std::size_t>(block_tokens_);
  Position position{.salt = salt};
  std::vector<std::int32_t> memory;
  for (std::size_t begin = 0; begin + length < tokens.size(); begin += length) {
    const auto first = static_cast<std::int32_t>(begin);
    const auto piece = content_of(tokens, spans, first, first + block_tokens_, memory);
    Entry* entry = find(key_of(position, piece), position, piece);
    if (entry == nullptr) {
      break;
    }
    chain.push_back(entry);
    position.parent = entry;
  }
  return chain;
}

std::vector<BlockId> PrefixCache::match(std::span<const std::int32_t> tokens, std::string_view salt,
                                        std::span<const TokenSpan> spans) {
  const std::vector<Entry*> chain = known(tokens, salt, spans);
  const auto end = std::ranges::find_if(chain, [](const Entry* entry) { return entry->block < 0; });
  const std::size_t count = usable(std::span(chain.begin(), end), spans, /*with_host=*/false);
  std::vector<BlockId> blocks;
  for (const Entry* entry : std::span(chain).first(count)) {
    blocks.push_back(entry->block);
  }
  touch_kept(std::span(chain).first(count));
  touch(std::span(chain).first(host_.empty() ? count : chain.size()));
  return blocks;
}

BlockId PrefixCache::on_device(const Entry& entry, std::size_t kind) const {
  return kind == 0 || entry.block < 0 ? entry.block : kept(kind).of(entry.block);
}

std::size_t PrefixCache::first_needed(std::size_t kind, std::size_t count) const {
  if (kind > windows_.size()) {
    return count - 1;
  }
  const auto position = static_cast<std::int32_t>(count) * block_tokens_;
  return static_cast<std::size_t>(first_seen(windows_[kind - 1].tokens, position) / block_tokens_);
}

std::size_t PrefixCache::usable(std::span<Entry* const> chain, std::span<const TokenSpan> spans, bool with_host) const {
  std::vector<std::size_t> behind_gap(num_kinds(), 0);  // blocks up to the last one that lacks this kind
  std::size_t best = 0;
  for (std::size_t count = 1; count <= chain.size(); ++count) {
    const Entry& entry = *chain[count - 1];
    const auto position = static_cast<std::int32_t>(count) * block_tokens_;
    bool serves = cut_before(spans, position) == position;
    for (std::size_t kind = 1; kind < num_kinds(); ++kind) {
      if (on_device(entry, kind) < 0 && !(with_host && copy_of(entry, kind) >= 0)) {
        behind_gap[kind] = count;
      }
      serves = serves && first_needed(kind, count) >= behind_gap[kind];
    }
    best = serves ? count : best;
  }
  return best;
}

void PrefixCache::touch_kept(std::span<Entry* const> chain) {
  for (std::size_t kind = 1; kind < num_kinds() && !chain.empty(); ++kind) {
    for (std::size_t i = first_needed(kind, chain.size()); i < chain.size(); ++i) {
      if (chain[i]->block >= 0) {
        kept(kind).touch(chain[i]->block);
      }
      if (const HostId copy = copy_of(*chain[i], kind); copy >= 0) {
        host_[kind].blocks.touch(copy);
      }
    }
  }
}

void PrefixCache::keep_windows(BlockId block, std::size_t index, std::span<const std::span<const BlockId>> window_blocks) {
  for (std::size_t w = 0; w < window_blocks.size(); ++w) {
    const BlockId own = window_blocks[w][index];
    if (own >= 0 && windows_[w].blocks.of(block) < 0) {
      windows_[w].blocks.put(block, own);
    }
  }
}

PrefixCache::Entry* PrefixCache::resume(const Progress& progress) {
  const auto found = progress.blocks > 0 ? entries_.find(progress.key) : entries_.end();
  return found != entries_.end() && found->second.serial == progress.serial ? &found->second : nullptr;
}

void PrefixCache::insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks, Progress& progress,
                         std::span<const std::span<const BlockId>> window_blocks, std::string_view salt,
                         std::span<const TokenSpan> spans) {
  std::vector<Entry*> chain;
  std::vector<std::int32_t> memory;
  const auto length = static_cast<std::size_t>(block_tokens_);
  std::size_t full_blocks = std::min(tokens.size() / length, blocks.size());
  for (const std::span<const BlockId> window : window_blocks) {
    full_blocks = std::min(full_blocks, window.size());
  }
  Position position{.parent = resume(progress), .salt = salt};
  if (position.parent == nullptr) {
    progress = {};
  }
  for (std::size_t i = progress.blocks; i < full_blocks; ++i) {
    const auto first = static_cast<std::int32_t>(i * length);
    const auto piece = content_of(tokens, spans, first, first + block_tokens_, memory);
    const std::uint64_t key = key_of(position, piece);
    Entry* entry = find(key, position, piece);
    if (entry == nullptr) {
      if (entries_.contains(key)) {
        break;  // another block has this key; children can't be distinguished from its children
      }
      entry = &add(key, position, piece);
    }
    if (entry->block < 0) {
      attach(*entry, blocks[i]);
    }
    keep_windows(entry->block, i, window_blocks);
    chain.push_back(entry);
    position.parent = entry;
    progress = {i + 1, key, entry->serial};
  }
  touch(chain);
}

void PrefixCache::insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks) {
  Progress start;
  insert(tokens, blocks, start);
}

void PrefixCache::keep_state(const Progress& progress, SlotId slot) {
  const Entry* entry = resume(progress);
  if (!states_ || entry == nullptr || entry->block < 0) {
    return;
  }
  if (states_->of(entry->block) >= 0) {
    states_->touch(entry->block);
  } else {
    states_->put(entry->block, slot);
  }
}

void PrefixCache::evict_states(std::int32_t count) {
  if (states_) {
    evict_kept(1 + windows_.size(), count);
  }
}

void PrefixCache::evict_kept(std::size_t kind, std::int32_t count) {
  KeptIds& ids = kept(kind);
  for (BlockId block = ids.next_to_drop(count); block >= 0; block = ids.next_to_drop(count)) {
    keep_copy(*entry_of_block_[static_cast<std::size_t>(block)], kind);
    ids.drop(block);
  }
}

PrefixCache::Entry& PrefixCache::add(std::uint64_t key, const Position& position, std::span<const std::int32_t> tokens) {
  ByAge places;
  std::vector<std::int32_t> copy(tokens.begin(), tokens.end());
  std::string salt(position.parent == nullptr ? position.salt : std::string_view());
  std::vector<HostId> copies(host_.size(), -1);
  Entry& entry = entries_[key];
  try {
    places.insert(&entry);
  } catch (...) {
    entries_.erase(key);
    throw;
  }
  entry.place = places.extract(places.begin());
  entry.key = key;
  entry.tokens = std::move(copy);
  entry.salt = std::move(salt);
  entry.copies = std::move(copies);
  entry.index = position.parent != nullptr ? position.parent->index + 1 : 0;
  entry.serial = ++num_inserted_;
  link(entry, position.parent);
  return entry;
}

void PrefixCache::attach(Entry& entry, BlockId block) {
  Entry*& owner = entry_of_block_[static_cast<std::size_t>(block)];
  check(owner == nullptr && entry.block < 0, "a block holds the tokens of one entry");
  allocator_->retain(block);
  allocator_->watch(block, this);
  owner = &entry;
  entry.block = block;
  ++num_on_device_;
  count_child(entry.parent, 1);
}

void PrefixCache::detach(Entry& entry) {
  if (entry.idle) {
    entry.place = idle_set(entry).extract(&entry);
    entry.idle = false;
  }
  entry_of_block_[static_cast<std::size_t>(entry.block)] = nullptr;
  allocator_->watch(entry.block, nullptr);
  allocator_->release(entry.block);
  entry.block = -1;
  --num_on_device_;
  count_child(entry.parent, -1);
}

void PrefixCache::count_child(Entry* parent, std::int32_t change) {
  if (parent == nullptr) {
    return;
  }
  ByAge& before = idle_set(*parent);
  parent->children_on_device += change;
  if (ByAge& now = idle_set(*parent); parent->idle && &now != &before) {
    now.insert(before.extract(parent));
  }
}

void PrefixCache::gained_second_owner(BlockId block) {
  Entry& entry = *entry_of_block_[static_cast<std::size_t>(block)];
  entry.place = idle_set(entry).extract(&entry);
  entry.idle = false;
}

void PrefixCache::left_with_one_owner(BlockId block) {
  Entry& entry = *entry_of_block_[static_cast<std::size_t>(block)];
  entry.idle = true;
  entry.last_use = ++clock_;
  ByAge& set = idle_set(entry);
  set.insert(set.end(), std::move(entry.place));
}

void PrefixCache::link(Entry& entry, Entry* parent) {
  entry.parent = parent;
  if (parent == nullptr) {
    return;
  }
  entry.next_sibling = parent->first_child;
  if (entry.next_sibling != nullptr) {
    entry.next_sibling->previous_sibling = &entry;
  }
  parent->first_child = &entry;
}

void PrefixCache::unlink(Entry& entry) {
  if (entry.next_sibling != nullptr) {
    entry.next_sibling->previous_sibling = entry.previous_sibling;
  }
  if (entry.previous_sibling != nullptr) {
    entry.previous_sibling->next_sibling = entry.next_sibling;
  } else if (entry.parent != nullptr) {
    entry.parent->first_child = entry.next_sibling;
  }
}

void PrefixCache::evict(std::int32_t count) {
  // The blocks after an inner block have owners, or they would have been freed first: they stay allocated.
  while (!allocator_->can_allocate(count) && num_evictable() > 0) {
    free_block(**(idle_ends_.empty() ? idle_inner_ : idle_ends_).begin());
  }
}

void PrefixCache::free_block(Entry& entry) {
  const Progress itself{.blocks = 1, .key = entry.key, .serial = entry.serial};
  if (!host_.empty() && (copy_of(entry, 0) >= 0 || copy_to_host(entry, 0))) {
    ++num_visited_;
    host_[0].blocks.touch(entry.copies[0]);  // its successors came before it
    for (std::size_t kind = 1; kind < num_kinds(); ++kind) {
      keep_copy(entry, kind);
      kept(kind).drop(entry.block);
    }
    detach(entry);
  } else if (Entry* left = resume(itself); left != nullptr) {
    forget(*left);
  }
}

std::size_t PrefixCache::erase(std::span<const std::int32_t> tokens, std::string_view salt,
                               std::span<const TokenSpan> spans) {
  const std::vector<Entry*> chain = known(tokens, salt, spans);
  std::size_t left = chain.size();
  while (left > 0 && chain[left - 1]->first_child == nullptr) {
    forget(*chain[--left]);
  }
  return chain.size() - left;
}

// A removed entry is no child any more, so that only its own block and copy remain to be freed.
void PrefixCache::forget(Entry& entry) {
  const auto remove = [this](Entry& each) {
    ++num_visited_;
    each.parent = nullptr;
    if (each.block >= 0) {
      for (std::size_t kind = 1; kind < num_kinds(); ++kind) {
        kept(kind).drop(each.block);
      }
      detach(each);
    }
    for (std::size_t kind = 0; kind < each.copies.size(); ++kind) {
      if (each.copies[kind] >= 0) {
        host_[kind].entry_of[static_cast<std::size_t>(each.copies[kind])] = nullptr;
        host_[kind].blocks.give_back(each.copies[kind]);
      }
    }
    entries_.erase(each.key);
  };
  std::vector<Entry*> doomed;
  if (entry.first_child != nullptr) {
    doomed.push_back(&entry);
    for (std::size_t i = 0; i < doomed.size(); ++i) {
      for (Entry* child = doomed[i]->first_child; child != nullptr; child = child->next_sibling) {
        doomed.push_back(child);
      }
    }
  }
  unlink(entry);  // allocates nothing, like the next calls
  count_child(entry.parent, entry.block >= 0 ? -1 : 0);
  if (doomed.empty()) {
    remove(entry);
  }
  std::ranges::for_each(doomed, [&](Entry* each) { remove(*each); });
}

}  // namespace rocmforge
