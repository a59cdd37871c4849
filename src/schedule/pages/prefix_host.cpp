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

bool PrefixCache::copy_to_host(Entry& entry) {
  const Progress itself{.blocks = 1, .key = entry.key, .serial = entry.serial};
  while (!host_->make_free()) {
    const HostId oldest = host_->oldest();
    if (oldest < 0) {
      return false;
    }
    drop_copy(*entry_of_copy_[static_cast<std::size_t>(oldest)]);
    if (resume(itself) == nullptr) {
      return false;
    }
  }
  entry_of_copy_.resize(static_cast<std::size_t>(host_->num_blocks()), nullptr);
  BlockCopy& copy = copies_->emplace_back();  // nothing behind this allocates
  entry.host = host_->take();
  entry_of_copy_[static_cast<std::size_t>(entry.host)] = &entry;
  copy = {.from = entry.block, .to = entry.host, .kind = CopyKind::to_host};
  return true;
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
