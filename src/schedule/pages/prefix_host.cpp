#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "schedule/pages/prefix_cache.h"

// The part of the PrefixCache that keeps blocks in host memory.

namespace rocmforge {

void PrefixCache::keep_on_host(HostBlockSource& source, std::vector<BlockCopy>& copies) {
  check(!states_ && windows_.empty(), "host memory keeps blocks without states and windows");
  host_.emplace(source);
  copies_ = &copies;
}

std::size_t PrefixCache::usable(std::size_t count, std::span<const TokenSpan> spans) const {
  while (count > 0) {
    const auto position = static_cast<std::int32_t>(count) * block_tokens_;
    const std::int32_t cut = cut_before(spans, position);
    if (cut == position) {
      break;
    }
    count = static_cast<std::size_t>(cut / block_tokens_);
  }
  return count;
}

std::size_t PrefixCache::hold(std::span<const std::int32_t> tokens, std::string_view salt,
                              std::span<const TokenSpan> spans) {
  const std::vector<Entry*> chain = known(tokens, salt, spans);
  const std::size_t count = usable(chain.size(), spans);
  host_->hold_touched();
  touch(std::span(chain).first(count));
  return count;
}

std::size_t PrefixCache::restore(std::span<const std::int32_t> tokens, std::string_view salt,
                                 std::span<const TokenSpan> spans, std::span<const BlockId> blocks, std::size_t first) {
  const std::vector<Entry*> chain = known(tokens, salt, spans);
  const std::size_t count = std::max(usable(chain.size(), spans), first);
  copies_->reserve(copies_->size() + count - first);  // nothing behind this allocates
  for (std::size_t i = first; i < count; ++i) {
    Entry& entry = *chain[i];
    if (entry.block >= 0) {
      copies_->push_back({.from = entry.block, .to = blocks[i]});
    } else {
      copies_->push_back({.from = entry.host, .to = blocks[i], .kind = CopyKind::from_host});
      attach(entry, blocks[i]);
    }
  }
  return count;
}

bool PrefixCache::make_room_on_host() {
  while (!host_->make_free()) {
    const HostId oldest = host_->oldest();
    if (oldest < 0) {
      return false;
    }
    drop_copy(*entry_of_copy_[static_cast<std::size_t>(oldest)]);
  }
  entry_of_copy_.resize(static_cast<std::size_t>(host_->num_blocks()), nullptr);
  return true;
}

bool PrefixCache::copy_to_host(Entry& entry) {
  const Progress itself{.blocks = 1, .key = entry.key, .serial = entry.serial};
  if (!make_room_on_host() || resume(itself) == nullptr) {
    return false;
  }
  BlockCopy& copy = copies_->emplace_back();  // nothing behind this allocates
  entry.host = host_->take();
  entry_of_copy_[static_cast<std::size_t>(entry.host)] = &entry;
  copy = {.from = entry.block, .to = entry.host, .kind = CopyKind::to_host};
  return true;
}

std::vector<HostId> PrefixCache::add_on_host(std::span<const std::int32_t> tokens, std::string_view salt,
                                             std::span<const TokenSpan> spans, std::size_t count) {
  check(copies_->empty(), "what is written to host memory now comes behind copies that wait");
  const Held held(*this);
  host_->hold_touched();
  const std::vector<Entry*> chain = known(tokens, salt, spans);
  touch(chain);
  std::vector<HostId> added;
  added.reserve(count);
  std::vector<std::int32_t> memory;
  Position position{.parent = chain.empty() ? nullptr : chain.back(), .salt = salt};
  while (added.size() < count && make_room_on_host()) {
    const auto first = static_cast<std::int32_t>(chain.size() + added.size()) * block_tokens_;
    const auto piece = content_of(tokens, spans, first, first + block_tokens_, memory);
    const std::uint64_t key = key_of(position, piece);
    if (entries_.contains(key)) {
      break;  // of another block
    }
    Entry& entry = add(key, position, piece);
    entry.host = host_->take();
    entry_of_copy_[static_cast<std::size_t>(entry.host)] = &entry;
    added.push_back(entry.host);
    position.parent = &entry;
  }
  return added;
}

void PrefixCache::drop_copy(Entry& entry) {
  if (entry.block < 0) {
    forget(entry);
    return;
  }
  entry_of_copy_[static_cast<std::size_t>(entry.host)] = nullptr;
  host_->give_back(entry.host);
  entry.host = -1;
}

}  // namespace rocmforge
