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

/// What a sequence holds of a group with a window: the blocks that its next token sees, and those that it is computed into.
struct WindowPages {
  std::int32_t window = 0;
  PageTable pages;

  /// The first block that the query at `position` sees.
  [[nodiscard]] std::int32_t first_block(std::int32_t position) const {
    return first_seen(window, position) / pages.block_tokens();
  }
  /// The first position that stays when a sequence goes on at `position`: what is seen from the begin of that block. So that
  /// a sequence which goes on from its whole blocks finds them; it takes no more blocks than a window may.
  [[nodiscard]] std::int32_t first_held(std::int32_t position) const {
    return first_seen(window, position / pages.block_tokens() * pages.block_tokens());
  }
  /// Positions that a sequence of that length which goes on at `position` has blocks for as long as it runs.
  [[nodiscard]] std::int32_t tokens_to_hold(std::int32_t position, std::int32_t length) const;
};

/// One request on its way: its tokens, how many of them are in the cache, and the pages they live in.
struct Sequence {
  /// `slots` of recurrent state, null for models without.
  Sequence(RequestId id, Request request, BlockAllocator& allocator, std::int32_t block_tokens,
           BlockAllocator* slots = nullptr, std::span<const WindowGroup> window_groups = {});

  RequestId id;
  Request request;
  std::int64_t arrival = 0;          ///< counts submissions
  std::int64_t turn = 0;             ///< its place among those of other clients
  RequestId leader = 0;              ///< computes the prompt they share; 0: nobody
  std::vector<std::int32_t> tokens;  ///< prompt and what has been generated, less what shifts have dropped
  std::int32_t prompt_tokens = 0;    ///< as submitted
  std::int32_t dropped_tokens = 0;   ///< by shifts of the context
  std::int32_t cached_tokens = 0;    ///< positions [0, cached_tokens) are in the KV cache
  std::int32_t seen_tokens = 0;      ///< most that were in the KV cache so far: of these rows everything has been delivered
  std::int32_t prefix_hits = 0;      ///< prompt positions that were in the cache when it was first admitted
  bool admitted = false;             ///< it has been in a batch (and may have been preempted since)
  PageTable pages;
  std::vector<WindowPages> windows;    ///< of each group with a window
  SequenceState state;                 ///< of the positions that are in the KV cache
  bool has_followers = false;          ///< others wait for the prompt that it computes
  std::int32_t kept_tokens = 0;        ///< positions of the prompt behind which a state is kept for them
  PrefixCache::Progress remembered{};  ///< blocks that the prefix cache was given
  FinishReason finish = FinishReason::none;

  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t generated() const { return length() + dropped_tokens - prompt_tokens; }
  /// Gives up all blocks.
  void clear_pages();
  /// Tokens that must be computed before the next one can be sampled; at least 1 while it runs.
  [[nodiscard]] std::int32_t pending() const { return length() - cached_tokens; }
  /// Whether tokens are drawn at all.
  [[nodiscard]] bool draws() const { return !request.embedding && request.max_tokens != 0; }
  /// Whether something is wanted of every row of the prompt, so that none may come from the prefix cache.
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

  /// Positions whose logits tell the probability of the prompt token that follows.
  [[nodiscard]] PositionRange scored() const;
  /// Positions whose hidden states are pooled.
  [[nodiscard]] PositionRange pooled() const;
};

}  // namespace rocmforge
