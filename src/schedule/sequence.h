#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "kv/sequence_state.h"
#include "kv/window_group.h"
#include "schedule/request.h"

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

/// A request that was accepted: its tokens, how many of them are in the cache, and its pages.
struct Sequence {
  /// `slots` of recurrent state, null for models without.
  Sequence(RequestId id, Request request, BlockAllocator& allocator, std::int32_t block_tokens,
           BlockAllocator* slots = nullptr, std::span<const WindowGroup> window_groups = {});

  RequestId id;
  Request request;
  std::int64_t arrival = 0;          ///< the number of its submission
  std::int64_t turn = 0;             ///< its turn, see FairOrder
  RequestId leader = 0;              ///< the sequence that computes the shared prompt; 0: none
  std::vector<std::int32_t> tokens;  ///< prompt and generated tokens, without those that shifts have dropped
  std::int32_t prompt_tokens = 0;    ///< as submitted
  std::int32_t dropped_tokens = 0;   ///< by shifts of the context
  std::int32_t cached_tokens = 0;    ///< positions [0, cached_tokens) are in the KV cache
  std::int32_t seen_tokens = 0;      ///< the most ever in the KV cache; their rows have been delivered
  std::int32_t prefix_hits = 0;      ///< prompt positions that were in the cache when it was first admitted
  bool admitted = false;             ///< it has been in a batch (and may have been preempted since)
  PageTable pages;
  std::vector<WindowPages> windows;    ///< of each group with a window
  SequenceState state;                 ///< of the positions that are in the KV cache
  bool has_followers = false;          ///< other sequences wait for the prompt that it computes
  std::int32_t kept_tokens = 0;        ///< positions of the prompt behind which a state is kept for the followers
  PrefixCache::Progress remembered{};  ///< the blocks that were inserted into the prefix cache
  FinishReason finish = FinishReason::none;

  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t generated() const { return length() + dropped_tokens - prompt_tokens; }
  /// Releases all blocks.
  void clear_pages();
  /// Tokens that must be computed before the next one can be sampled; at least 1 while the sequence runs.
  [[nodiscard]] std::int32_t pending() const { return length() - cached_tokens; }
  /// Whether any tokens are drawn.
  [[nodiscard]] bool draws() const { return !request.embedding && request.max_tokens != 0; }
  /// Whether the request wants a result for every row of the prompt, so that no row may come from the prefix cache.
  [[nodiscard]] bool wants_prompt_rows() const;
};

/// Positions [first, end) of a chunk.
struct PositionRange {
  std::int32_t first = 0;
  std::int32_t end = 0;

  [[nodiscard]] std::int32_t count() const { return end > first ? end - first : 0; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

/// A sequence's part of the next step: tokens [first, first + count) of it are computed.
struct ScheduledChunk {
  Sequence* sequence = nullptr;
  std::int32_t first = 0;
  std::int32_t count = 0;
  bool completes = false;     ///< it ends at the sequence's last token
  bool wants_logits = false;  ///< a token is drawn after it
  SequenceState::Step state{};

  /// Positions whose logits give the probability of the prompt token that follows.
  [[nodiscard]] PositionRange scored() const;
  /// Positions whose hidden states are pooled.
  [[nodiscard]] PositionRange pooled() const;
};

}  // namespace rocmforge
