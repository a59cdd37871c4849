#pragma once

#include <algorithm>
#include <cstdint>

#include "schedule/pages/block_allocator.h"

namespace rocmforge {

/// A further group of pages: its blocks, and the number of positions that a query sees, its own included.
struct WindowGroup {
  BlockAllocator* allocator = nullptr;
  std::int32_t window = 0;
};

/// The first position that the query at `position` sees.
constexpr std::int32_t first_seen(std::int32_t window, std::int32_t position) { return std::max(0, position - window + 1); }

/// The most blocks that one query sees.
constexpr std::int32_t most_blocks_seen(std::int32_t window, std::int32_t block_tokens) {
  return (window - 1) / block_tokens + ((window - 1) % block_tokens != 0 ? 1 : 0) + 1;
}

/// Blocks of a window's group: one window for each sequence, one more block for the token after it, and the tokens of one
/// step; at most as many as a group without a window has.
constexpr std::int32_t window_blocks(std::int32_t window, std::int32_t block_tokens, std::int32_t full_blocks,
                                     std::int32_t max_sequences, std::int32_t max_batch_tokens) {
  const std::int64_t each = std::int64_t{most_blocks_seen(window, block_tokens)} + 1;
  const std::int64_t step = max_batch_tokens / block_tokens + (max_batch_tokens % block_tokens != 0 ? 1 : 0);
  return static_cast<std::int32_t>(std::min<std::int64_t>(full_blocks, max_sequences * each + step));
}

}  // namespace rocmforge
