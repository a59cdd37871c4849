#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/pages/block_allocator.h"
#include "schedule/pages/cached_sequence.h"
#include "schedule/pages/host_blocks.h"
#include "schedule/pages/page_table.h"
#include "schedule/pages/prefix_cache.h"
#include "schedule/pages/sequence_state.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {

/// What is compared to find a sequence's start in the prefix cache.
struct PrefixKey {
  std::span<const std::int32_t> tokens;
  std::string_view salt{};  ///< see PrefixCache
};

/// Which blocks and slots of the cache belong to which sequence: pages with and without windows, recurrent states and known
/// prefixes. Integers only; what they count is in a SequenceMemory of the same size.
///
/// With recurrent state a sequence runs only with state slots of its own beside its blocks, and a computed prefix can be
/// used only where its state was kept: after the last whole block of each prompt chunk. Kept states are freed when sequences
/// need slots.
///
/// Groups of pages with a window hold what the next token sees and what a step computes: blocks behind the window are freed
/// when a step has been computed. A sequence runs only with the blocks of its window, or of all its tokens if these
/// are fewer. A prompt chunk uses free blocks beyond that, and is shorter when there are fewer.
///
/// Blocks, states and windows that only the prefix cache holds are freed, the least recently used first, when sequences need
/// them. With host memory their content is copied there first. No call's work grows with the size of the cache.
class SequenceCache {
 public:
  struct Window {
    std::int32_t window = 0;  ///< positions that a query sees, its own included
    std::int32_t blocks = 0;
  };
  struct Size {
    std::int32_t blocks = 0;  ///< of the group without a window
    std::int32_t block_tokens = 0;
    bool prefixes = false;          ///< whether computed prefixes are kept for later sequences
    std::int32_t slots = 0;         ///< of recurrent state; 0: the model has none
    std::vector<Window> windows{};  ///< groups with a window
    /// Keeps prefixes whose blocks are freed, a source for each kind (PrefixCache::keep_on_host); empty: none does.
    std::vector<HostBlockSource*> host{};
  };

  explicit SequenceCache(const Size& size);
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  /// The most positions that one sequence may have, and the most sequences that can run at once.
  [[nodiscard]] std::int32_t max_tokens() const;
  [[nodiscard]] std::int32_t max_sequences() const;
  /// The longest span that a sequence alone can compute in one step.
  [[nodiscard]] std::int32_t max_span() const;

  /// A sequence without blocks. The cache must outlive it.
  [[nodiscard]] CachedSequence make_sequence();

  /// A sequence without blocks starts with what `leader` has computed of the same prompt of `prompt_tokens`; its last token
  /// is left to be computed. False, and nothing changed, where `leader` no longer has that.
  bool adopt(CachedSequence& sequence, const CachedSequence& leader, std::int32_t prompt_tokens);
  /// A sequence without blocks starts with the longest known prefix.
  void adopt(CachedSequence& sequence, const PrefixKey& key);
  /// Whether a sequence of `tokens` positions finds blocks and slots, and `spare` blocks of each group are left.
  [[nodiscard]] bool has_room_for(const CachedSequence& sequence, std::int32_t tokens, std::int32_t spare) const;
  /// Changes when blocks, slots or starts of sequences may have become available: what found no room before need not look
  /// again while this number is the same and no fewer blocks are to be spared.
  [[nodiscard]] std::uint64_t version() const;

  /// Reserves what a sequence needs that adopted a prefix. Where a longer one is known with host memory, and there is room
  /// to continue from that, it is copied back and counts as computed. False when there is too little, see reserve().
  bool start(CachedSequence& sequence, std::int32_t tokens, const PrefixKey& key);
  /// Gives a sequence slots, and blocks of its own for positions [0, tokens); in groups with a window for those that it
  /// needs to run. False when there are too few; it may then have some of them.
  bool reserve(CachedSequence& sequence, std::int32_t tokens);
  /// The same for a sequence that runs and owns its last blocks, but frees nothing for it.
  static bool reserve_free(CachedSequence& sequence, std::int32_t tokens);
  /// Takes blocks of every window for up to `count` more positions; returns for how many, at least 1 after reserve().
  std::int32_t extend(CachedSequence& sequence, std::int32_t count);
  /// Takes blocks for up to `count` positions behind the first `length` ones, which have theirs, where blocks are free or
  /// only the prefix cache holds them; returns for how many.
  std::int32_t extend_for_drafts(CachedSequence& sequence, std::int32_t length, std::int32_t count);
  /// The same behind the computed positions, but no sequence shares these blocks, and blocks are taken only where `spare`
  /// ones of each group are left.
  std::int32_t extend_ahead(CachedSequence& sequence, std::int32_t count, std::int32_t spare);
  /// Frees the blocks that hold only positions behind the first `length` ones, which includes all computed ones.
  void drop_behind(CachedSequence& sequence, std::int32_t length);
  /// What a step of `count` positions does with the state of a sequence that has `length` tokens.
  SequenceState::Step next_state(CachedSequence& sequence, std::int32_t count, std::int32_t length);
  /// The copies to make, in this order, before the next step is computed: all that were added since copies_made().
  [[nodiscard]] std::span<const BlockCopy> copies() const { return copies_; }
  void copies_made() { copies_.clear(); }

  /// Call when a step has computed `count` more positions. Prompt chunks are inserted into the prefix cache, so that later
  /// sequences find them while this one runs.
  void commit(CachedSequence& sequence, std::int32_t count, const SequenceState::Step& state, const PrefixKey& key);
  /// Inserts the whole blocks that are computed of a sequence into the prefix cache.
  void insert_computed(CachedSequence& sequence, const PrefixKey& key) { insert(sequence, sequence.computed_tokens, key); }
  /// Why a sequence can't be rolled back to its first `tokens` positions, in one line; "" if it can. A recurrent state has
  /// no way back but to the start of the sequence. A group with a window has one while it holds what position `tokens` sees.
  [[nodiscard]] std::string truncate_refusal(const CachedSequence& sequence, std::int32_t tokens) const;
  /// Rolls a sequence back to its first `tokens` positions, which must not be refused, and frees the blocks behind them.
  /// Blocks that other sequences hold stay as they are: the next reserve() replaces them by copies.
  void truncate(CachedSequence& sequence, std::int32_t tokens);
  /// Frees the blocks and slots of a sequence. Its whole blocks stay in the prefix cache until they are needed.
  void release(CachedSequence& sequence, const PrefixKey& key);
  /// The same, but the prefix cache gains nothing.
  void release(CachedSequence& sequence);

  // All of these are without content of their own: whole numbers of blocks and slots.
  [[nodiscard]] BlockAllocator& blocks() { return blocks_; }
  [[nodiscard]] const BlockAllocator& blocks() const { return blocks_; }
  [[nodiscard]] std::int32_t block_tokens() const { return block_tokens_; }
  [[nodiscard]] std::span<const WindowGroup> windows() const { return windows_; }
  /// null for models without recurrent state.
  [[nodiscard]] const BlockAllocator* slots() const { return slots_ ? &*slots_ : nullptr; }
  /// null without a prefix cache.
  [[nodiscard]] PrefixCache* prefixes() { return prefixes_ ? &*prefixes_ : nullptr; }
  [[nodiscard]] const PrefixCache* prefixes() const { return prefixes_ ? &*prefixes_ : nullptr; }

 private:
  // Blocks and slots that are free or can be freed.
  [[nodiscard]] std::int32_t blocks_available() const;
  [[nodiscard]] std::int32_t window_blocks_available(std::size_t window) const;
  [[nodiscard]] std::int32_t slots_available() const;

  [[nodiscard]] static std::int32_t blocks_wanted(const CachedSequence& sequence, std::int32_t tokens);
  [[nodiscard]] static std::int32_t window_blocks_wanted(const WindowPages& window, const CachedSequence& sequence,
                                                         std::int32_t tokens);
  /// Frees blocks of a group with a window until `count` are free, if need be from the prefix cache.
  bool free_window_blocks(std::size_t window, std::int32_t count);
  /// Whether the blocks that the sequence needs in groups with a window are free; frees cached ones for it.
  bool free_for_windows(CachedSequence& sequence, std::int32_t tokens);
  void reserve_windows(CachedSequence& sequence, std::int32_t tokens);
  /// Frees kept states until `count` slots are free.
  bool free_slots(std::int32_t count);
  bool reserve_state(CachedSequence& sequence);
  /// What a sequence without blocks of its own has adopted.
  struct Start {
    std::vector<BlockId> blocks{};
    std::vector<std::vector<BlockId>> windows{};
    SlotId state = -1;
    std::int32_t computed_tokens = 0;
  };
  [[nodiscard]] static Start start_of(const CachedSequence& sequence);
  /// Gives a sequence that start in place of what it has.
  void start_with(CachedSequence& sequence, const Start& start);
  /// Start with the longest prefix that is known with host memory; false, and nothing changed, without room or a longer one.
  bool restore(CachedSequence& sequence, std::int32_t tokens, const PrefixKey& key);
  /// Takes over the blocks of windows that the position behind a known prefix sees.
  void adopt_windows(CachedSequence& sequence, std::span<const BlockId> blocks);
  /// Whether it gave up any.
  static bool give_up_behind_windows(CachedSequence& sequence);
  void keep_state(CachedSequence& sequence, const SequenceState::Step& computed, const PrefixKey& key);
  /// Inserts the blocks of the first `count` positions into the prefix cache.
  void insert(CachedSequence& sequence, std::int32_t count, const PrefixKey& key);

  std::int32_t block_tokens_;
  BlockAllocator blocks_;
  std::deque<BlockAllocator> window_blocks_;
  std::vector<WindowGroup> windows_;
  std::optional<BlockAllocator> slots_;
  std::optional<PrefixCache> prefixes_;  // uses all of the above
  std::vector<BlockCopy> copies_;
  std::uint64_t version_ = 0;
};

}  // namespace rocmforge
