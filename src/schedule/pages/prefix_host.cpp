#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/error.h"
#include "schedule/pages/prefix_cache.h"

// The part of the PrefixCache that keeps blocks, states and blocks of windows in host memory.

namespace rocmforge {

void PrefixCache::keep_on_host(std::span<HostBlockSource* const> sources, std::vector<BlockCopy>& copies) {
  check(sources.size() == num_kinds() && entries_.empty(), "host memory has room for each kind from the start");
  for (HostBlockSource* source : sources) {
    host_.emplace_back(*source);
  }
  copies_ = &copies;
}

PrefixCache::Held PrefixCache::hold(std::span<const std::int32_t> tokens, std::string_view salt,
                                    std::span<const TokenSpan> spans) {
  std::vector<Entry*> chain = known(tokens, salt, spans);
  chain.resize(usable(chain, spans, /*with_host=*/true));
  return {*this, std::move(chain)};
}

PrefixCache::Held::Held(PrefixCache& cache, std::vector<Entry*> chain) : cache_(&cache), chain_(std::move(chain)) {
  retained_.reserve(chain_.size() * cache.num_kinds());  // nothing behind this allocates
  for (Copies& copies : cache.host_) {
    copies.blocks.hold_touched();
  }
  cache.touch_kept(chain_);
  cache.touch(chain_);
  const auto retain = [this](BlockAllocator& allocator, BlockId id) {
    if (id >= 0) {
      allocator.retain(id);
      retained_.emplace_back(&allocator, id);
    }
  };
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    retain(*cache.allocator_, chain_[i]->block);
    for (std::size_t kind = 1; kind < cache.num_kinds(); ++kind) {
      if (i >= cache.first_needed(kind, chain_.size())) {
        retain(cache.kept(kind).allocator(), cache.on_device(*chain_[i], kind));
      }
    }
  }
}

// The first block is the most recently used one then: the ends of chains are freed first.
PrefixCache::Held::~Held() {
  for (std::size_t i = retained_.size(); i-- > 0;) {
    retained_[i].first->release(retained_[i].second);
  }
  for (Copies& copies : cache_->host_) {
    copies.blocks.release_held();
  }
}

std::vector<BlockId> PrefixCache::Held::start_on_device() const {
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i < chain_.size() && chain_[i]->block >= 0; ++i) {
    blocks.push_back(chain_[i]->block);
  }
  return blocks;
}

SlotId PrefixCache::Held::state_on_device() const {
  return chain_.empty() || !cache_->states_ ? -1 : cache_->on_device(*chain_.back(), cache_->num_kinds() - 1);
}

PrefixCache::Held::Place PrefixCache::Held::place(std::size_t kind, std::size_t index) const {
  const Entry& entry = *chain_.at(index);
  const BlockId own = cache_->on_device(entry, kind);
  return own >= 0 ? Place{.id = own, .on_host = false} : Place{.id = copy_of(entry, kind), .on_host = true};
}

void PrefixCache::restore(const Held& held, const Target& target) {
  const std::span<Entry* const> chain = held.chain_;
  copies_->reserve(copies_->size() + chain.size() * num_kinds());  // nothing behind this allocates
  const auto copy = [this](const Entry& entry, std::size_t kind, BlockId to) {
    const BlockId own = on_device(entry, kind);
    const auto group = static_cast<std::int32_t>(kind);
    copies_->push_back(own >= 0 ? BlockCopy{own, to, group}
                                : BlockCopy{copy_of(entry, kind), to, group, CopyKind::from_host});
  };
  for (std::size_t w = 0; w < target.windows.size(); ++w) {
    for (std::size_t i = first_needed(1 + w, chain.size()); i < chain.size(); ++i) {
      copy(*chain[i], 1 + w, target.windows[w][i]);
    }
  }
  if (target.state >= 0) {
    copy(*chain.back(), num_kinds() - 1, target.state);
  }
  for (std::size_t i = target.first; i < chain.size(); ++i) {
    copy(*chain[i], 0, target.blocks[i]);
    if (chain[i]->block < 0) {
      attach(*chain[i], target.blocks[i]);
    }
  }
}

bool PrefixCache::make_room_on_host(std::size_t kind) {
  Copies& copies = host_[kind];
  while (!copies.blocks.make_free()) {
    const HostId oldest = copies.blocks.oldest();
    if (oldest < 0) {
      return false;
    }
    drop_copy(*copies.entry_of[static_cast<std::size_t>(oldest)], kind);
  }
  copies.entry_of.resize(static_cast<std::size_t>(copies.blocks.num_blocks()), nullptr);
  return true;
}

HostId PrefixCache::take_on_host(Entry& entry, std::size_t kind) {
  entry.copies[kind] = host_[kind].blocks.take();
  host_[kind].entry_of[static_cast<std::size_t>(entry.copies[kind])] = &entry;
  return entry.copies[kind];
}

bool PrefixCache::copy_to_host(Entry& entry, std::size_t kind) {
  const Progress itself{.blocks = 1, .key = entry.key, .serial = entry.serial};
  if (!make_room_on_host(kind) || resume(itself) == nullptr) {
    return false;
  }
  BlockCopy& copy = copies_->emplace_back();  // nothing behind this allocates
  copy = {.from = on_device(entry, kind),
          .to = take_on_host(entry, kind),
          .group = static_cast<std::int32_t>(kind),
          .kind = CopyKind::to_host};
  return true;
}

void PrefixCache::keep_copy(Entry& entry, std::size_t kind) {
  if (host_.empty() || on_device(entry, kind) < 0) {
    return;
  }
  if (const HostId copy = copy_of(entry, kind); copy >= 0) {
    host_[kind].blocks.touch(copy);
  } else if (is_worth_copying(entry, kind)) {
    copy_to_host(entry, kind);
  }
}

// A block of a window is worth it where the prompt ends or branches within the window, or reaches a multiple of
// checkpoint_tokens there.
bool PrefixCache::is_worth_copying(const Entry& entry, std::size_t kind) const {
  if (kind > windows_.size()) {
    return is_worth_copying_state(entry, kind);
  }
  const std::int32_t seen = most_blocks_seen(windows_[kind - 1].tokens, block_tokens_);
  const std::int32_t distance = std::max(checkpoint_tokens / block_tokens_, 1);
  if ((entry.index + seen) / distance != entry.index / distance) {
    return true;
  }
  const Entry* last = &entry;
  for (std::int32_t i = 0; i < seen; ++i) {
    if (last->first_child == nullptr || last->first_child->next_sibling != nullptr) {
      return true;
    }
    last = last->first_child;
  }
  return false;
}

// A state is not where the prompt goes on to another one and a copy of one is before it, both within checkpoint_tokens.
bool PrefixCache::is_worth_copying_state(const Entry& entry, std::size_t kind) const {
  const std::int32_t distance = std::max(checkpoint_tokens / block_tokens_, 1);
  const Entry* later = &entry;
  for (std::int32_t i = 0; i < distance; ++i) {
    if (later->first_child == nullptr || later->first_child->next_sibling != nullptr) {
      return true;
    }
    later = later->first_child;
    if (on_device(*later, kind) >= 0 || copy_of(*later, kind) >= 0) {
      break;
    }
  }
  if (on_device(*later, kind) < 0 && copy_of(*later, kind) < 0) {
    return true;
  }
  const Entry* earlier = entry.parent;
  for (std::int32_t i = 1; i < distance && earlier != nullptr; ++i, earlier = earlier->parent) {
    if (copy_of(*earlier, kind) >= 0) {
      return false;
    }
  }
  return true;
}

std::vector<PrefixCache::Added> PrefixCache::add_on_host(std::span<const std::int32_t> tokens, std::string_view salt,
                                                         std::span<const TokenSpan> spans, std::size_t count, bool kept) {
  check(copies_->empty(), "what is written to host memory now comes behind copies that wait");
  const auto length = static_cast<std::size_t>(block_tokens_);
  std::vector<Entry*> chain = known(tokens.first(std::min(tokens.size(), count * length + 1)), salt, spans);
  const Held held(*this, chain);
  std::vector<Added> added;
  std::vector<std::int32_t> memory;
  Position position{.parent = chain.empty() ? nullptr : chain.back(), .salt = salt};
  while (chain.size() < count && make_room_on_host(0)) {
    const auto first = static_cast<std::int32_t>(chain.size() * length);
    const auto piece = content_of(tokens, spans, first, first + block_tokens_, memory);
    const std::uint64_t key = key_of(position, piece);
    if (entries_.contains(key)) {
      break;  // of another block
    }
    Added& copy = added.emplace_back(Added{.kind = 0, .index = chain.size()});
    Entry& entry = add(key, position, piece);
    copy.id = take_on_host(entry, 0);
    chain.push_back(&entry);
    position.parent = &entry;
  }
  for (std::size_t kind = 1; kept && chain.size() == count && kind < num_kinds(); ++kind) {
    for (std::size_t i = first_needed(kind, count); i < count; ++i) {
      if (copy_of(*chain[i], kind) < 0 && make_room_on_host(kind)) {
        Added& copy = added.emplace_back(Added{.kind = kind, .index = i});
        copy.id = take_on_host(*chain[i], kind);
      }
    }
  }
  return added;
}

void PrefixCache::drop_copy(Entry& entry, std::size_t kind) {
  if (kind == 0 && entry.block < 0) {
    forget(entry);
    return;
  }
  host_[kind].entry_of[static_cast<std::size_t>(entry.copies[kind])] = nullptr;
  host_[kind].blocks.give_back(entry.copies[kind]);
  entry.copies[kind] = -1;
}

}  // namespace rocmforge
