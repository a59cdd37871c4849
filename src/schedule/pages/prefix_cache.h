#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schedule/pages/block_allocator.h"
#include "schedule/pages/host_blocks.h"
#include "schedule/pages/kept_ids.h"
#include "schedule/pages/page_table.h"
#include "schedule/pages/token_span.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {

/// Finds full blocks whose tokens (and all tokens before them) were computed already. Holds one reference to each block in
/// the cache; frees the least recently used ones on request. A match compares the tokens themselves, not only their hash.
/// Sequences find only blocks of sequences with the same salt: a text that keeps clients apart who shall not learn of each
/// other's prompts.
///
/// Blocks without other owners are idle. They are kept in the order of their last use as they become idle, so that no call
/// examines more entries than it matches, inserts or frees.
///
/// With host memory (keep_on_host) the content of a block that is freed is copied there, and the entry stays. restore()
/// copies it back. The copy remains, so that a block that was restored need not be copied again when it is freed. Copies
/// are dropped, the least recently used first, when host memory is full. States and blocks of windows are copied, too, each
/// kind to memory of its own, where a prompt may continue from them: at ends and branches of prompts, and between these once
/// in checkpoint_tokens positions.
class PrefixCache final : private BlockWatcher {
 public:
  /// The key of a block from the key of the one before it (0 for the first) and its tokens. Any function works: colliding
  /// keys cost hits, but never give a wrong match.
  using BlockHash = std::uint64_t (*)(std::uint64_t parent, std::span<const std::int32_t> tokens);
  static std::uint64_t hash_block(std::uint64_t parent, std::span<const std::int32_t> tokens);

  /// With `slots`, for models with recurrent state, a prefix ends at a block after which a state was kept. With `windows`,
  /// it ends where each of these groups still has the blocks that the next position sees.
  PrefixCache(BlockAllocator& allocator, std::int32_t block_tokens, BlockHash hash = hash_block,
              BlockAllocator* slots = nullptr, std::span<const WindowGroup> windows = {});
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// The longest run of cached blocks that starts `tokens`; at most tokens.size() - 1 positions, since the last token must
  /// still be computed to have logits. With slots a state was kept after the last of them; with windows the last ones have
  /// their window's blocks. With `spans` the run does not end inside of one, and their contents are equal too. The caller
  /// must retain these blocks and this state before the next call.
  std::vector<BlockId> match(std::span<const std::int32_t> tokens, std::string_view salt = {},
                             std::span<const TokenSpan> spans = {});

  /// From now on what is freed is kept in host memory. There is a source for each kind of what is kept: blocks, blocks of
  /// each group with a window, and states. The copies to make are appended to `copies`. All must outlive the cache.
  void keep_on_host(std::span<HostBlockSource* const> sources, std::vector<BlockCopy>& copies);
  /// The longest distance of states, and of whole windows, that are copied to host memory within a prompt.
  static constexpr std::int32_t checkpoint_tokens = 4096;

  class Held;
  /// The longest run as of match(), but of what is on the device or in host memory.
  [[nodiscard]] Held hold(std::span<const std::int32_t> tokens, std::string_view salt = {},
                          std::span<const TokenSpan> spans = {});
  /// Where a held run is copied to, which is its caller's own.
  struct Target {
    std::size_t first = 0;            ///< the caller has the blocks before this one
    std::span<const BlockId> blocks;  ///< those behind belong to the cache where only host memory had them
    std::span<const std::span<const BlockId>> windows{};  ///< of each group; the blocks that the next position sees
    SlotId state = -1;                                    ///< -1: not wanted
  };
  void restore(const Held& held, const Target& target);

  /// How many blocks that start `tokens` are known, on the device or in host memory.
  std::size_t num_known(std::span<const std::int32_t> tokens, std::string_view salt, std::span<const TokenSpan> spans) {
    return known(tokens, salt, spans).size();
  }
  /// A copy that was added to host memory, of a block of a prompt or of what is kept with it.
  struct Added {
    std::size_t kind = 0;
    std::size_t index = 0;  ///< of the block in its prompt
    HostId id = -1;
  };
  /// Adds what is not known of the first `count` blocks of `tokens` to host memory alone; with `kept` also what continues
  /// behind them. Returns where the caller writes their content now; less where there is no room. Copies that wait to be
  /// made must not exist.
  std::vector<Added> add_on_host(std::span<const std::int32_t> tokens, std::string_view salt,
                                 std::span<const TokenSpan> spans, std::size_t count, bool kept);
  /// The first block of a run of `count` of which a kind from 1 on is needed to continue behind the run.
  [[nodiscard]] std::size_t first_needed(std::size_t kind, std::size_t count) const;
  /// The id of a kind from 1 on that is kept with a block of the device; -1 for none.
  [[nodiscard]] BlockId kept_with(std::size_t kind, BlockId block) const { return kept(kind).of(block); }

  /// How many blocks of a growing sequence were inserted. The next insertion continues there if the last of them
  /// is still in the cache. Belongs to one sequence, whose tokens up to there must not change.
  struct Progress {
    std::size_t blocks = 0;
    std::uint64_t key = 0;     ///< of the last one
    std::uint64_t serial = 0;  ///< of its entry
  };
  /// Forgets the last known blocks that start `tokens`, up to one that a longer prompt needs. Returns how many; a block that
  /// a sequence holds stays allocated.
  std::size_t erase(std::span<const std::int32_t> tokens, std::string_view salt, std::span<const TokenSpan> spans);

  /// Inserts the full blocks of a sequence: blocks[i] holds tokens [i * block_tokens, (i + 1) * block_tokens). If memory
  /// runs out, only the first of them are inserted. `window_blocks` are those of the same positions in each group with a
  /// window, -1 for given-up blocks.
  void insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks, Progress& progress,
              std::span<const std::span<const BlockId>> window_blocks = {}, std::string_view salt = {},
              std::span<const TokenSpan> spans = {});
  void insert(std::span<const std::int32_t> tokens, std::span<const BlockId> blocks);

  /// Keeps the state after the last block of `progress`, in a slot that the caller holds, unless that block has a state
  /// already.
  void keep_state(const Progress& progress, SlotId slot);
  /// The slot of the state after a block, -1 for none.
  [[nodiscard]] SlotId state_behind(BlockId block) const { return states_ ? states_->of(block) : -1; }
  /// The block for the same positions in a group with a window, -1 for none.
  [[nodiscard]] BlockId window_block(std::size_t window, BlockId block) const { return windows_[window].blocks.of(block); }
  /// Frees the least recently used idle blocks of group `window` until `count` are free or none is left.
  void evict_window(std::size_t window, std::int32_t count) { evict_kept(1 + window, count); }
  /// The number of blocks that `evict_window` could free.
  [[nodiscard]] std::int32_t num_evictable(std::size_t window) const { return windows_[window].blocks.num_idle(); }
  /// Frees the least recently used idle states until `count` slots are free or none is left.
  void evict_states(std::int32_t count);
  /// The number of states that `evict_states` could free, and of all kept states.
  [[nodiscard]] std::int32_t num_evictable_states() const { return states_ ? states_->num_idle() : 0; }
  [[nodiscard]] std::int32_t num_states() const { return states_ ? states_->num_kept() : 0; }

  /// Frees least recently used idle blocks until the allocator has `count` free ones or none is left. The ends of chains are
  /// freed first. Then come blocks that precede a block that a sequence holds; the later blocks leave the cache too, but
  /// stay allocated.
  void evict(std::int32_t count);

  /// On the device.
  [[nodiscard]] std::int32_t num_blocks() const { return num_on_device_; }
  /// Kinds of what is kept: blocks, blocks of each group with a window, states.
  [[nodiscard]] std::size_t num_kinds() const { return 1 + windows_.size() + (states_ ? 1 : 0); }
  /// Copies in host memory of a kind.
  [[nodiscard]] std::int32_t num_on_host(std::size_t kind = 0) const {
    return kind < host_.size() ? host_[kind].blocks.num_used() : 0;
  }
  [[nodiscard]] bool has_copies() const {
    return std::ranges::any_of(host_, [](const Copies& copies) { return copies.blocks.num_used() > 0; });
  }
  /// The number of blocks that `evict` could free: the idle ones.
  [[nodiscard]] std::int32_t num_evictable() const {
    return static_cast<std::int32_t>(idle_ends_.size() + idle_inner_.size());
  }
  /// Changes with each inserted block.
  [[nodiscard]] std::uint64_t num_inserted() const { return num_inserted_; }
  /// Entries that evictions have examined so far. Tests check that it is not above the number of freed ones.
  [[nodiscard]] std::int64_t num_visited() const { return num_visited_; }

 private:
  struct Entry;
  struct OlderFirst {
    bool operator()(const Entry* a, const Entry* b) const { return a->last_use < b->last_use; }
  };
  using ByAge = std::set<Entry*, OlderFirst>;
  struct Entry {
    std::uint64_t key = 0;
    std::vector<std::int32_t> tokens;  ///< and the contents of spans: content_of()
    std::string salt;                  ///< of a first block
    std::int32_t index = 0;            ///< of the block in its prompt
    BlockId block = -1;                ///< -1: only host memory has it
    std::vector<HostId> copies;        ///< in host memory, of each kind; -1: none
    std::uint64_t serial = 0;
    std::uint64_t last_use = 0;  ///< of an idle entry; unique
    bool idle = false;
    ByAge::node_type place{};  ///< its node, moved into a set when the entry becomes idle: that allocates nothing
    // The entries of the block before it and of the blocks after it.
    std::int32_t children_on_device = 0;
    Entry* parent = nullptr;
    Entry* first_child = nullptr;
    Entry* previous_sibling = nullptr;
    Entry* next_sibling = nullptr;
  };

  void gained_second_owner(BlockId block) override;
  void left_with_one_owner(BlockId block) override;

  /// Where a block stands: after another one, or as the first of sequences with this salt.
  struct Position {
    Entry* parent = nullptr;
    std::string_view salt;
  };
  [[nodiscard]] std::uint64_t key_of(const Position& position, std::span<const std::int32_t> tokens) const;
  /// The entries of the blocks that start `tokens`, as far as they are known.
  std::vector<Entry*> known(std::span<const std::int32_t> tokens, std::string_view salt, std::span<const TokenSpan> spans);
  /// The entry of the block with these tokens, or null.
  Entry* find(std::uint64_t key, const Position& position, std::span<const std::int32_t> tokens);
  /// An entry that has no block yet.
  Entry& add(std::uint64_t key, const Position& position, std::span<const std::int32_t> tokens);
  /// The entry that `progress` refers to, or null when it has left the cache.
  Entry* resume(const Progress& progress);
  /// The set for an idle entry of this kind.
  ByAge& idle_set(const Entry& entry) { return entry.children_on_device == 0 ? idle_ends_ : idle_inner_; }
  /// Counts a child of `parent`, which may be null, that came to the device (1) or left it (-1).
  void count_child(Entry* parent, std::int32_t change);
  /// Gives an entry without a block one that a sequence holds.
  void attach(Entry& entry, BlockId block);
  /// Takes the block from an entry that stays.
  void detach(Entry& entry);
  /// Frees the block of an idle entry. With host memory the entry stays where a copy can be kept there.
  void free_block(Entry& entry);
  /// What is kept with blocks, of a kind from 1 on.
  [[nodiscard]] KeptIds& kept(std::size_t kind) { return kind <= windows_.size() ? windows_[kind - 1].blocks : *states_; }
  [[nodiscard]] const KeptIds& kept(std::size_t kind) const {
    return kind <= windows_.size() ? windows_[kind - 1].blocks : *states_;
  }
  /// The id of a kind that the device has of an entry, and that of its copy; -1 for none.
  [[nodiscard]] BlockId on_device(const Entry& entry, std::size_t kind) const;
  [[nodiscard]] static HostId copy_of(const Entry& entry, std::size_t kind) {
    return kind < entry.copies.size() ? entry.copies[kind] : -1;
  }
  /// Drops idle ids of a kind until `count` are free.
  void evict_kept(std::size_t kind, std::int32_t count);
  /// Has what is kept with a block copied to host memory, where a prompt may continue from it.
  void keep_copy(Entry& entry, std::size_t kind);
  [[nodiscard]] bool is_worth_copying(const Entry& entry, std::size_t kind) const;
  [[nodiscard]] bool is_worth_copying_state(const Entry& entry, std::size_t kind) const;
  /// Frees a block of host memory for a kind, if need be one that is in use; false where all are held.
  bool make_room_on_host(std::size_t kind);
  /// Has a kind copied to host memory; false where that has no room. Others lose their copies for it, and this entry is
  /// forgotten too if one of them is the block of one before it.
  bool copy_to_host(Entry& entry, std::size_t kind);
  /// A block of host memory for this kind of an entry; make_room_on_host() was called.
  HostId take_on_host(Entry& entry, std::size_t kind);
  /// Drops the copy of an entry, and an entry that has nothing else.
  void drop_copy(Entry& entry, std::size_t kind);
  /// Makes idle entries of a chain the most recently used, its first block last: the ends of chains are freed first.
  void touch(std::span<Entry* const> chain);
  void link(Entry& entry, Entry* parent);
  void unlink(Entry& entry);
  struct Window {
    Window(const WindowGroup& group, std::int32_t num_blocks) : tokens(group.window), blocks(*group.allocator, num_blocks) {}
    std::int32_t tokens;
    KeptIds blocks;
  };
  /// How many of these blocks are a prefix after which a sequence can continue, with what host memory has or without.
  [[nodiscard]] std::size_t usable(std::span<Entry* const> chain, std::span<const TokenSpan> spans, bool with_host) const;
  /// Makes what continues behind a chain the most recently used.
  void touch_kept(std::span<Entry* const> chain);
  void keep_windows(BlockId block, std::size_t index, std::span<const std::span<const BlockId>> window_blocks);
  /// Removes an entry and all that follow it.
  void forget(Entry& entry);

  BlockAllocator* allocator_;
  std::int32_t block_tokens_;
  BlockHash hash_;
  std::unordered_map<std::uint64_t, Entry> entries_;  ///< by key; addresses of entries stay
  std::vector<Entry*> entry_of_block_;                ///< null for blocks outside the cache
  ByAge idle_ends_;                                   ///< without children
  ByAge idle_inner_;
  std::int32_t num_on_device_ = 0;
  std::optional<KeptIds> states_;
  std::deque<Window> windows_;
  struct Copies {
    explicit Copies(HostBlockSource& source) : blocks(source) {}
    HostBlocks blocks;
    std::vector<Entry*> entry_of{};  ///< of each block; null for those not in use
  };
  std::deque<Copies> host_;                   ///< of each kind; empty: nothing is kept there
  std::vector<BlockCopy>* copies_ = nullptr;  ///< with host memory
  std::uint64_t clock_ = 0;
  std::uint64_t num_inserted_ = 0;
  std::int64_t num_visited_ = 0;
};

/// A run of known blocks. While it is there, its blocks, and what a sequence behind it continues from, stay where they are.
class PrefixCache::Held {
 public:
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  [[nodiscard]] std::size_t num_blocks() const { return chain_.size(); }
  /// The first of them that are on the device.
  [[nodiscard]] std::vector<BlockId> start_on_device() const;
  /// The slot of the state behind it where that is on the device, else -1.
  [[nodiscard]] SlotId state_on_device() const;
  /// Where block `index` of the run is, or what is kept of a kind from 1 on with it: on the device if it is there.
  struct Place {
    std::int32_t id = -1;  ///< -1: nowhere
    bool on_host = false;
  };
  [[nodiscard]] Place place(std::size_t kind, std::size_t index) const;

 private:
  friend class PrefixCache;
  Held(PrefixCache& cache, std::vector<Entry*> chain);  // allocates only before it holds anything

  PrefixCache* cache_;
  std::vector<Entry*> chain_;
  std::vector<std::pair<BlockAllocator*, BlockId>> retained_;  ///< in the order of the run
};

}  // namespace rocmforge
