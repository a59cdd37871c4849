// The scheduler's functions for groups of pages with a window.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/error.h"
#include "schedule/scheduler.h"

namespace rocmforge {

std::int32_t Scheduler::window_blocks_available(std::size_t window) const {
  return windows_[window].allocator->num_free() + (prefix_cache_ != nullptr ? prefix_cache_->num_evictable(window) : 0);
}

std::int32_t Scheduler::all_window_blocks_available() const {
  std::int32_t sum = 0;
  for (std::size_t window = 0; window < windows_.size(); ++window) {
    sum += window_blocks_available(window);
  }
  return sum;
}

bool Scheduler::free_window_blocks(std::size_t window, std::int32_t count) {
  const BlockAllocator& allocator = *windows_[window].allocator;
  if (prefix_cache_ != nullptr && !allocator.can_allocate(count)) {
    prefix_cache_->evict_window(window, count);
  }
  return allocator.can_allocate(count);
}

std::int32_t Scheduler::window_blocks_wanted(const WindowPages& window, const Sequence& sequence) const {
  const std::int32_t tokens = window.tokens_to_hold(sequence.cached_tokens, sequence.length());
  return window.pages.blocks_needed(tokens) + window.pages.shared_blocks(sequence.cached_tokens);
}

bool Scheduler::has_window_room_for(const Sequence& sequence) const {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    if (window_blocks_wanted(sequence.windows[i], sequence) + num_running() > window_blocks_available(i)) {
      return false;
    }
  }
  return true;
}

bool Scheduler::free_for_windows(Sequence& sequence) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    if (!free_window_blocks(i, window_blocks_wanted(window, sequence))) {
      window.pages.give_up_before(
          first_seen(window.window, sequence.cached_tokens));  // kept only so that other sequences could start from these
      if (!free_window_blocks(i, window_blocks_wanted(window, sequence))) {
        return false;
      }
    }
  }
  return true;
}

void Scheduler::reserve_windows(Sequence& sequence) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    const std::int32_t copied = window.pages.shared_blocks(sequence.cached_tokens);
    copies_.reserve(copies_.size() + static_cast<std::size_t>(copied));  // each allocated block has its copy
    const auto group = static_cast<std::int32_t>(i) + 1;
    const bool own = window.pages.make_writable(sequence.cached_tokens, copies_, group) &&
                     window.pages.reserve(window.tokens_to_hold(sequence.cached_tokens, sequence.length()));
    check(own, "blocks that are free are taken");
  }
}

std::int32_t Scheduler::extend_windows(Sequence& sequence, std::int32_t count) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const PageTable& pages = sequence.windows[i].pages;
    const std::int32_t needed = pages.blocks_needed(sequence.cached_tokens + count);
    if (!free_window_blocks(i, needed)) {
      const std::int64_t room = pages.capacity_tokens() + std::int64_t{windows_[i].allocator->num_free()} * block_tokens_;
      count = static_cast<std::int32_t>(std::min<std::int64_t>(count, room - sequence.cached_tokens));
    }
  }
  check(count > 0, "a sequence that runs has blocks for its next token");
  for (WindowPages& window : sequence.windows) {
    check(window.pages.reserve(sequence.cached_tokens + count), "blocks that are free are taken");
  }
  return count;
}

// Followers of a prompt that was just computed start one position before its end.
void Scheduler::give_up_behind_windows(Sequence& sequence) {
  const bool awaited = sequence.has_followers && sequence.cached_tokens == sequence.prompt_tokens;
  for (WindowPages& window : sequence.windows) {
    window.pages.give_up_before(window.first_held(sequence.cached_tokens - (awaited ? 1 : 0)));
  }
}

bool Scheduler::has_windows_before(const Sequence& sequence, std::int32_t tokens) {
  return std::ranges::all_of(sequence.windows, [tokens](const WindowPages& window) {
    return window.pages.num_given_up() <= static_cast<std::size_t>(window.first_block(tokens));
  });
}

void Scheduler::adopt_windows(Sequence& sequence, const Sequence& leader, std::int32_t tokens) {
  const auto blocks = static_cast<std::size_t>((tokens + sequence.pages.block_tokens() - 1) / sequence.pages.block_tokens());
  for (std::size_t i = 0; i < sequence.windows.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    window.pages.adopt(leader.windows[i].pages.blocks().first(blocks), static_cast<std::size_t>(window.first_block(tokens)));
  }
}

void Scheduler::adopt_windows(Sequence& sequence, std::span<const BlockId> blocks) {
  const auto position = static_cast<std::int32_t>(blocks.size()) * block_tokens_;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    std::vector<BlockId> own(blocks.size(), -1);
    const auto first = static_cast<std::size_t>(sequence.windows[i].first_block(position));
    for (std::size_t b = first; b < blocks.size(); ++b) {
      own[b] = prefix_cache_->window_block(i, blocks[b]);
    }
    sequence.windows[i].pages.adopt(own, std::min(first, blocks.size()));
  }
}

}  // namespace rocmforge
