#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/pages/block_allocator.h"
#include "schedule/pages/page_table.h"
#include "schedule/pages/prefix_cache.h"
#include "schedule/pages/sequence_state.h"
#include "schedule/pages/token_span.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {

/// A sequence's blocks in a group with a window: those that its next token sees, and those that it writes.
struct WindowPages {
  std::int32_t window = 0;
  PageTable pages;

  /// The first block that the query at `position` sees.
  [[nodiscard]] std::int32_t first_block(std::int32_t position) const {
    return first_seen(window, position) / pages.block_tokens();
  }
  /// The first position that is kept when a sequence continues at `position`: the start of the block that it still sees. So
  /// a sequence that continues after its whole blocks finds them; this needs no more blocks than a window may have.
  [[nodiscard]] std::int32_t first_held(std::int32_t position) const {
    return first_seen(window, position / pages.block_tokens() * pages.block_tokens());
  }
  /// The number of positions for which a sequence of that length, continued at `position`, has blocks while it runs.
  [[nodiscard]] std::int32_t tokens_to_hold(std::int32_t position, std::int32_t length) const;
};

/// What a SequenceCache holds of one sequence: its blocks and slots, and how many of its positions are computed.
struct CachedSequence {
  /// `slots` of recurrent state, null for models without.
  CachedSequence(BlockAllocator& blocks, std::int32_t block_tokens, BlockAllocator* slots,
                 std::span<const WindowGroup> window_groups);

  PageTable pages;                   ///< of the group without a window
  std::vector<WindowPages> windows;  ///< of each group with a window
  SequenceState state;               ///< behind the computed positions
  std::int32_t computed_tokens = 0;  ///< positions [0, computed_tokens) are in the cache
  std::int32_t awaited_tokens = 0;   ///< length of its prompt, when other sequences start from it; 0: none does
  std::int32_t kept_tokens = 0;      ///< positions of that prompt behind which a state is kept for them; 0: none
  std::int32_t restored_tokens = 0;  ///< of them, copied from host memory when it was started
  PrefixCache::Progress inserted{};  ///< its blocks in the prefix cache
  std::span<const TokenSpan> spans;  ///< of its prompt; their owner outlives it

  /// The positions that it has at least when its next step is computed.
  [[nodiscard]] std::int32_t least_next() const { return cut_after(spans, computed_tokens); }
  /// The positions of a window for which it has blocks while it runs, of `length` in all.
  [[nodiscard]] std::int32_t tokens_to_hold(const WindowPages& window, std::int32_t length) const;

  /// Whether no other sequence holds a block with positions >= `position`.
  [[nodiscard]] bool owns_from(std::int32_t position) const;
  /// Whether it still holds the blocks of windows that the position behind `tokens` sees.
  [[nodiscard]] bool has_windows_before(std::int32_t tokens) const;
};

}  // namespace rocmforge
