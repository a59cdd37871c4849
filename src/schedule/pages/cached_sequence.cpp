#include "schedule/pages/cached_sequence.h"

#include <algorithm>
#include <cstddef>

namespace rocmforge {

std::int32_t WindowPages::tokens_to_hold(std::int32_t position, std::int32_t length) const {
  const std::int32_t block_tokens = pages.block_tokens();
  const std::int64_t first = first_held(position) / block_tokens;
  const std::int64_t end = (first + most_blocks_seen(window, block_tokens)) * block_tokens;
  return static_cast<std::int32_t>(std::min<std::int64_t>(end, length));
}

CachedSequence::CachedSequence(BlockAllocator& blocks, std::int32_t block_tokens, BlockAllocator* slots,
                               std::span<const WindowGroup> window_groups)
    : pages(blocks, block_tokens), state(slots) {
  windows.reserve(window_groups.size());
  for (const WindowGroup& group : window_groups) {
    windows.push_back({group.window, PageTable(*group.allocator, block_tokens)});
  }
}

std::int32_t CachedSequence::tokens_to_hold(const WindowPages& window, std::int32_t length) const {
  return std::max(window.tokens_to_hold(computed_tokens, length), std::min(least_next(), length));
}

bool CachedSequence::owns_from(std::int32_t position) const {
  return pages.shared_blocks(position) == 0 &&
         std::ranges::all_of(windows, [&](const WindowPages& window) { return window.pages.shared_blocks(position) == 0; });
}

bool CachedSequence::has_windows_before(std::int32_t tokens) const {
  return std::ranges::all_of(windows, [tokens](const WindowPages& window) {
    return window.pages.num_given_up() <= static_cast<std::size_t>(window.first_block(tokens));
  });
}

}  // namespace rocmforge
