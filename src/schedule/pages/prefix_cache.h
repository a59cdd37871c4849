#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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
/// are dropped, the least recently used first, when host memory is full.
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

  /// From now on blocks that are freed are kept in host memory. The copies to make are appended to `copies`. Not with slots
  /// or windows. Both arguments must outlive the cache.
  void keep_on_host(HostBlockSource& source, std::vector<BlockCopy>& copies);
  /// The longest run as of match(), but of blocks on the device or in host memory. While there is a Held, the copies of
  /// them in host memory are not dropped for others.
  std::size_t hold(std::span<const std::int32_t> tokens, std::string_view salt = {}, std::span<const TokenSpan> spans = {});
  class Held {
   public:
    explicit Held(PrefixCache& cache) : cache_(&cache) {}
    ~Held() { cache_->host_->release_held(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    PrefixCache* cache_;
  };
  /// The same run, whose first `first` blocks the caller has: the others are copied to `blocks`, which are the caller's own
  /// for these positions, and belong to the cache where only host memory had them. Returns the number of blocks in the run.
  std::size_t restore(std::span<const std::int32_t> tokens, std::string_view salt, std::span<const TokenSpan> spans,
                      std::span<const BlockId> blocks, std::size_t first);

  /// How many blocks that start `tokens` are known, on the device or in host memory.
  std::size_t num_known(std::span<const std::int32_t> tokens, std::string_view salt, std::span<const TokenSpan> spans) {
    return known(tokens, salt, spans).size();
  }
  /// Adds up to `count` blocks behind the known ones that start `tokens`, to host memory alone. Returns where the caller
  /// writes their content now; fewer where there is no room. Copies that wait to be made must not exist.
  std::vector<HostId> add_on_host(std::span<const std::int32_t> tokens, std::string_view salt,
                                  std::span<const TokenSpan> spans, std::size_t count);

  /// How many blocks of a growing sequence were inserted. The next insertion continues there if the last of them
  /// is still in the cache. Belongs to one sequence, whose tokens up to there must not change.
  struct Progress {
    std::size_t blocks = 0;
    std::uint64_t key = 0;     ///< of the last one
    std::uint64_t serial = 0;  ///< of its entry
  };
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
  void evict_window(std::size_t window, std::int32_t count) { windows_[window].blocks.evict(count); }
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
  /// Copies in host memory, and the blocks for them that it has given so far.
  [[nodiscard]] std::int32_t num_on_host() const { return host_ ? host_->num_used() : 0; }
  [[nodiscard]] std::int32_t num_host_blocks() const { return host_ ? host_->num_blocks() : 0; }
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
    BlockId block = -1;                ///< -1: only host memory has it
    HostId host = -1;                  ///< its copy in host memory; -1: none
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
  /// Frees a block of host memory, if need be one that is in use; false where all are held.
  bool make_room_on_host();
  /// Has the block copied to host memory; false where that has no room. Others lose their copies for it, and this entry is
  /// forgotten too if one of them is before it.
  bool copy_to_host(Entry& entry);
  /// Drops the copy of an entry, and an entry that has nothing else.
  void drop_copy(Entry& entry);
  /// Makes idle entries of a chain the most recently used, its first block last: the ends of chains are freed first.
  void touch(std::span<Entry* const> chain);
  void link(Entry& entry, Entry* parent);
  void unlink(Entry& entry);
  struct Window {
    Window(const WindowGroup& group, std::int32_t num_blocks) : tokens(group.window), blocks(*group.allocator, num_blocks) {}
    std::int32_t tokens;
    KeptIds blocks;
  };
  /// How many of these blocks are a prefix after which a sequence can continue.
  [[nodiscard]] std::size_t usable(std::span<const BlockId> blocks, std::span<const TokenSpan> spans) const;
  /// The same where there are neither slots nor windows.
  [[nodiscard]] std::size_t usable(std::size_t count, std::span<const TokenSpan> spans) const;
  void touch_kept(std::span<const BlockId> blocks);
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
  std::optional<HostBlocks> host_;
  std::vector<Entry*> entry_of_copy_;         ///< of each block of host memory; null for those not in use
  std::vector<BlockCopy>* copies_ = nullptr;  ///< with host memory
  std::uint64_t clock_ = 0;
  std::uint64_t num_inserted_ = 0;
  std::int64_t num_visited_ = 0;
};

}  // namespace rocmforge
