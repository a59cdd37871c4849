#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/block_allocator.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "schedule/fair_order.h"
#include "schedule/request.h"
#include "schedule/sequence.h"

namespace rocmforge {

struct SchedulerLimits {
  std::int32_t max_batch_tokens = 512;  ///< tokens in one step
  std::int32_t max_sequences = 64;      ///< sequences in one step
  std::int32_t context_length = 2048;   ///< positions a sequence may hold
  std::int32_t max_prefill_tokens = 0;  ///< of prompts in a step that also has decodes; 0: what the decodes leave
  std::int32_t max_waiting = -1;        ///< requests beyond max_sequences; -1: any number
  std::int32_t max_logit_rows = std::numeric_limits<std::int32_t>::max();  ///< in one step
};

/// Decides what the next step computes: decodes first, then prompt chunks within the token budget. Integers only; no models,
/// no devices.
///
/// Lower priorities run first; within a priority clients take turns, and each client's sequences run in order of arrival.
/// When blocks run out, the last sequence in this order is preempted: it frees its pages and is computed again later. It is
/// also preempted for a request of a better priority that has no room to start. Within a priority a client's sequence may
/// preempt the last one of a client that runs at least twice as many as the first would then have. Prompts run in the same
/// order, but half of a
/// step's prompt tokens are reserved for prompts that fit into that half, so that these need not wait for longer ones. A
/// request that can never fit is refused at once.
///
/// No sequence waits for ever within its priority: a prompt is admitted only with all its blocks, the first running sequence
/// can always take those of later ones, and no sequence may need more blocks than the whole cache has.
///
/// With recurrent state a sequence runs only with state slots of its own beside its blocks, and a computed prefix can be
/// used only where its state was kept: after the last whole block of each prompt chunk. Kept states are freed when sequences
/// need slots.
///
/// Groups of pages with a window hold what the next token sees and what a step computes: blocks behind the window are freed
/// when a step has been computed. A sequence runs only with the blocks of its window, or of all its tokens if these
/// are fewer. A prompt chunk uses free blocks beyond that, and is shorter when there are fewer.
///
/// The work of a step depends on the running sequences, not on the size of the cache or the queue.
class Scheduler {
 public:
  /// `slots` are of recurrent state, null for a model without; `windows` are the groups with a window. The prefix cache must
  /// have been made with both.
  Scheduler(const SchedulerLimits& limits, BlockAllocator& allocator, PrefixCache* prefix_cache, std::int32_t block_tokens,
            BlockAllocator* slots = nullptr, std::span<const WindowGroup> windows = {});

  /// Why `count` sequences of this request can't be accepted now; RequestError::none if they can.
  [[nodiscard]] RequestRefusal refusal(const Request& request, std::int32_t count = 1) const;
  /// Accepts the request, or returns the reason for its refusal. With a `leader`, an earlier sequence of the same prompt, it
  /// starts when that one has computed the prompt and then shares its blocks; each writes its later tokens to blocks of its
  /// own.
  RequestRefusal submit(RequestId id, Request request, RequestId leader = 0);
  /// Finishes the sequence and frees its pages at once. Needs no memory, like finish().
  /// Unknown ids are ignored (it may just have finished).
  void cancel(RequestId id, FinishReason reason = FinishReason::cancelled);

  /// The limits in effect, which may be below the requested ones: the context never exceeds the cache.
  [[nodiscard]] const SchedulerLimits& limits() const { return limits_; }

  /// SchedulerLimits::max_prefill_tokens from the next step on.
  void set_max_prefill_tokens(std::int32_t count) { limits_.max_prefill_tokens = count; }

  [[nodiscard]] bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  /// The next step. Never empty while there is work; valid until the next call.
  [[nodiscard]] std::span<const ScheduledChunk> next_batch();
  /// The step after `computing`, which still runs: the same sequences, each one position further, with the tokens that the
  /// running step draws. Equal to what next_batch would return if all of them continue. Empty when another sequence may run
  /// first or a draw depends on the token before it. Reserves the blocks. Commit the chunks of `computing` first.
  [[nodiscard]] std::vector<ScheduledChunk> next_ahead(std::span<const ScheduledChunk> computing);
  /// The copies to make, in this order, before the step of next_batch is computed: all that were added since copies_made().
  [[nodiscard]] std::span<const BlockCopy> block_copies() const { return copies_; }
  void copies_made() { copies_.clear(); }
  /// Call after the step: positions of the chunk are cached; `token` (>= 0) is appended if the chunk wanted logits.
  /// A chunk whose sequence has finished meanwhile is ignored.
  void commit(const ScheduledChunk& chunk, std::int32_t token);
  /// Ends a sequence: inserts its full blocks into the prefix cache and frees its pages.
  void finish(Sequence& sequence, FinishReason reason);
  /// Makes room in a full context: drops the older half of the tokens after the first `Request::keep` (at least one). The
  /// others move to lower positions and are computed again.
  void shift(Sequence& sequence);
  /// Removes finished sequences and passes each to `take`.
  template <class Take>
  void take_finished(Take&& take) {
    for (std::unique_ptr<Sequence>& sequence : finished_) {
      take(std::move(sequence));
    }
    finished_.clear();
  }

  // Both in the order in which they run.
  [[nodiscard]] const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  [[nodiscard]] std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  [[nodiscard]] std::int32_t num_waiting() const { return static_cast<std::int32_t>(waiting_.size()); }
  [[nodiscard]] std::int32_t num_running() const { return static_cast<std::int32_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_preemptions() const { return num_preemptions_; }
  /// Tokens of prompts, counted when a prompt is first admitted, and how many of them were in the prefix cache.
  [[nodiscard]] std::int64_t prefix_queries() const { return prefix_queries_; }
  [[nodiscard]] std::int64_t prefix_hits() const { return prefix_hits_; }

 private:
  /// Gives every running sequence, in order, blocks of its own for the tokens that it computes next.
  void make_room();
  bool reserve(Sequence& sequence);
  /// The same for the slots of its state.
  bool reserve_state(Sequence& sequence);
  [[nodiscard]] std::int32_t window_blocks_wanted(const WindowPages& pages, const Sequence& sequence) const;
  /// Frees blocks of a group with a window until `count` are free, if need be from the prefix cache.
  bool free_window_blocks(std::size_t window, std::int32_t count);
  [[nodiscard]] std::int32_t window_blocks_available(std::size_t window) const;
  [[nodiscard]] bool has_window_room_for(const Sequence& sequence) const;
  /// Whether the blocks that the sequence needs in groups with a window are free; frees cached ones for it.
  bool free_for_windows(Sequence& sequence);
  void reserve_windows(Sequence& sequence);
  /// Takes blocks of every window for up to `count` tokens; returns for how many, at least 1 if the sequence has its blocks.
  std::int32_t extend_windows(Sequence& sequence, std::int32_t count);
  void give_up_behind_windows(Sequence& sequence);
  /// Whether the sequence still has the blocks that the position behind `tokens` sees.
  [[nodiscard]] static bool has_windows_before(const Sequence& sequence, std::int32_t tokens);
  /// Takes over the blocks that the position behind `tokens` sees, from another sequence or from the prefix cache behind
  /// `blocks`.
  static void adopt_windows(Sequence& sequence, const Sequence& leader, std::int32_t tokens);
  void adopt_windows(Sequence& sequence, std::span<const BlockId> blocks);
  /// Frees kept states until `count` slots are free.
  bool free_slots(std::int32_t count);
  [[nodiscard]] std::int32_t slots_available() const;
  [[nodiscard]] std::int32_t all_window_blocks_available() const;
  /// The number of positions behind which the state is to be kept when this chunk is computed; 0: none.
  std::int32_t positions_to_keep(const Sequence& sequence, const ScheduledChunk& chunk);
  void keep_state(Sequence& sequence, const SequenceState::Step& computed);
  /// Frees the blocks and state of a sequence that does not run.
  void forget_computed(Sequence& sequence);
  /// Whether the next step can be prepared without the token that this chunk draws.
  [[nodiscard]] bool can_run_ahead(const ScheduledChunk& chunk) const;
  [[nodiscard]] std::int32_t blocks_wanted(const Sequence& sequence) const;
  void preempt_last();
  void admit_waiting();
  /// Gives pages to the first waiting sequence that may start. False when it must wait.
  bool admit();
  [[nodiscard]] Sequence* first_ready() const;
  [[nodiscard]] const Sequence* leader_of(const Sequence& sequence) const;
  void adopt_computed(Sequence& sequence);
  [[nodiscard]] bool has_room_for(const Sequence& sequence) const;
  /// Blocks that are free or can be freed.
  [[nodiscard]] std::int32_t blocks_available() const;
  /// Whether `sequence` failed to find room before and nothing has changed since.
  [[nodiscard]] bool still_no_room(const Sequence& sequence) const;
  void schedule_decodes();
  void schedule_prompts();
  /// Puts at most `count` tokens into the batch, as many as the limit of logit rows allows; returns how many.
  std::int32_t schedule(Sequence& sequence, std::int32_t count);
  /// Inserts the blocks of the first `count` positions into the prefix cache.
  void remember(Sequence& sequence, std::int32_t count);

  SchedulerLimits limits_;
  BlockAllocator* allocator_;
  PrefixCache* prefix_cache_;
  std::int32_t block_tokens_;
  BlockAllocator* slots_;
  std::vector<WindowGroup> windows_;
  // Both in the order of priority, turn and arrival.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  FairOrder order_;
  std::unordered_map<RequestId, Sequence*> unfinished_;  ///< those of both lists
  std::vector<std::unique_ptr<Sequence>> finished_;
  /// When the first waiting sequence last found too few blocks, and the state of everything that could change that.
  struct NoRoom {
    RequestId id = 0;
    std::int32_t available = 0;
    std::int32_t slots = 0;
    std::int32_t window_blocks = 0;  ///< of all groups with a window
    std::int32_t running = 0;
    std::uint64_t known_blocks = 0;
  };
  NoRoom no_room_;
  std::vector<ScheduledChunk> batch_;
  std::vector<BlockCopy> copies_;
  std::int32_t tokens_left_ = 0;  ///< the rest of the token budget of batch_
  std::int32_t rows_left_ = 0;
  std::int64_t num_submitted_ = 0;
  std::int64_t num_preemptions_ = 0;
  std::int64_t prefix_queries_ = 0;
  std::int64_t prefix_hits_ = 0;
};

}  // namespace rocmforge
