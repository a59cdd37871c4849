#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "schedule/fair_order.h"
#include "schedule/pages/sequence_cache.h"
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
  bool whole_prompts = false;  ///< a prompt is computed in one step, and nothing is drawn (encoders)
};

/// Decides what the next step computes: decodes first, then prompt chunks within the token budget. Integers only; no models,
/// no devices.
///
/// Lower priorities run first; within a priority clients take turns, and each client's sequences run in order of arrival.
/// When blocks run out, the last sequence in this order is preempted: it frees its pages and is computed again later. It is
/// also preempted for a request of a better priority that has no room to start. Within a priority a client's sequence may
/// preempt the last one of a client that runs at least twice as many as the first would then have. Prompts run in the same
/// order, but half of a step's prompt tokens are reserved for prompts that fit into that half, so that these need not wait
/// for longer ones. A request that can never fit is refused at once.
///
/// No sequence waits for ever within its priority: a prompt is admitted only with all its blocks, the first running sequence
/// can always take those of later ones, and no sequence may need more blocks than the whole cache has.
///
/// The work of a step depends on the running sequences, not on the size of the cache or the queue.
class Scheduler {
 public:
  /// Sequences are made with the same cache, which must outlive the scheduler.
  Scheduler(const SchedulerLimits& limits, SequenceCache& cache);

  /// Why `count` sequences of this request can't be accepted now; RequestError::none if they can.
  [[nodiscard]] RequestRefusal refusal(const Request& request, std::int32_t count = 1) const;
  /// Adds the sequence of a request that is not refused; it must stay until finish(). With a `leader`, an unfinished
  /// sequence of the same prompt, it starts when that one has computed the prompt and then shares its blocks; each writes
  /// its later tokens to blocks of its own. If memory runs out, the sequence was not added.
  void submit(Sequence& sequence, Sequence* leader = nullptr);

  /// The limits in effect, which may be below the requested ones: the context never exceeds the cache.
  [[nodiscard]] const SchedulerLimits& limits() const { return limits_; }

  /// SchedulerLimits::max_prefill_tokens from the next step on.
  void set_max_prefill_tokens(std::int32_t count) { limits_.max_prefill_tokens = count; }

  [[nodiscard]] bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  /// Whether there is work that does not wait for files.
  [[nodiscard]] bool can_run() const;
  /// The next step. Never empty while there is such work; valid until the next call.
  [[nodiscard]] std::span<const ScheduledChunk> next_batch();
  /// The step after `computing`, which still runs: the same sequences, each one position further, with the tokens that the
  /// running step draws. Equal to what next_batch would return if all of them continue. Empty when another sequence may run
  /// first or a draw depends on the token before it. Reserves the blocks. Commit the chunks of `computing` first.
  [[nodiscard]] std::vector<ScheduledChunk> next_ahead(std::span<const ScheduledChunk> computing);
  /// How many drafted tokens the next step may compute for a sequence; 0 unless it decodes. Its drafts are set before
  /// next_batch(), which takes as many of them as fit: at most half of what other decodes leave of the step's tokens and
  /// rows of logits, in blocks that no running sequence needs.
  [[nodiscard]] std::int32_t max_drafts(const Sequence& sequence) const;
  /// Gives a running sequence blocks for up to `count` positions behind the computed ones, which a source of drafts writes
  /// to before the step does; returns for how many. Takes none that other running sequences are about to need.
  std::int32_t make_room_ahead(Sequence& sequence, std::int32_t count) {
    return cache_->extend_ahead(sequence.cache, count, /*spare=*/num_running());
  }
  /// Call after the step: the positions of the chunk are computed, and the drawn `tokens` are appended, at most
  /// ScheduledChunk::draws. Each but the last one must equal its draft; the other drafts are dropped with what the cache
  /// has of them. A recurrent state that includes them is dropped too: the next step computes these tokens again. A chunk
  /// whose sequence has finished meanwhile is ignored.
  void commit(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens);
  /// Ends a sequence at any time: its whole blocks stay in the prefix cache, its pages are freed. Allocates nothing.
  void finish(Sequence& sequence, FinishReason reason);
  /// Makes room in a full context: drops the older half of the tokens after the first `Request::keep` (at least one). The
  /// others move to lower positions and are computed again.
  void shift(Sequence& sequence);

  // Both in the order in which they run.
  [[nodiscard]] const std::deque<Sequence*>& waiting() const { return waiting_; }
  [[nodiscard]] std::span<Sequence* const> running() const { return running_; }
  [[nodiscard]] std::int32_t num_waiting() const { return static_cast<std::int32_t>(waiting_.size()); }
  [[nodiscard]] std::int32_t num_running() const { return static_cast<std::int32_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_preemptions() const { return num_preemptions_; }
  /// Tokens of prompts, counted when a prompt is first admitted, and how many of them were in the prefix cache.
  [[nodiscard]] std::int64_t prefix_queries() const { return prefix_queries_; }
  [[nodiscard]] std::int64_t prefix_hits() const { return prefix_hits_; }
  /// Of those, in host memory.
  [[nodiscard]] std::int64_t host_hits() const { return host_hits_; }

 private:
  /// Gives every running sequence, in order, blocks of its own for the tokens that it computes next.
  void make_room();
  /// Why the request's spans can't be computed; "" if they can.
  [[nodiscard]] std::string span_refusal(const Request& request) const;
  /// Whether the next step can be prepared without the token that this chunk draws.
  [[nodiscard]] bool can_run_ahead(const ScheduledChunk& chunk) const;
  void preempt_last();
  void admit_waiting();
  /// Starts the first waiting sequence that can start, or else one that may take the place of a running one. False when all
  /// must wait.
  bool admit();
  /// Gives pages to a waiting sequence, if need be those of running ones that make way. False when it must wait.
  bool start(Sequence& sequence);
  [[nodiscard]] Sequence* first_ready() const;
  void adopt_computed(Sequence& sequence);
  [[nodiscard]] bool has_room_for(const Sequence& sequence) const;
  /// Whether `sequence` failed to find room before and nothing has changed since.
  [[nodiscard]] bool still_no_room(const Sequence& sequence) const;
  void schedule_decodes();
  void group_by_adapters();
  void schedule_prompts();
  /// Prompts in their order, as many as fit; the first always does.
  void schedule_whole_prompts();
  /// Puts at most `count` tokens into the batch, as many as the limit of logit rows allows; returns how many.
  std::int32_t schedule(Sequence& sequence, std::int32_t count);
  /// Puts the last token of a sequence into the batch, with at most `most` of its drafts; returns with how many.
  std::int32_t schedule_decode(Sequence& sequence, std::int32_t most);

  SchedulerLimits limits_;
  SequenceCache* cache_;
  // Both in the order of priority, turn and arrival.
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;
  FairOrder order_;
  RequestId without_room_ = 0;         ///< the sequence that last found no room
  std::uint64_t version_without_ = 0;  ///< of the cache at that time
  std::vector<ScheduledChunk> batch_;
  std::int32_t tokens_left_ = 0;  ///< the rest of the token budget of batch_
  std::int32_t rows_left_ = 0;
  std::int64_t num_submitted_ = 0;
  std::int64_t num_preemptions_ = 0;
  std::int64_t prefix_queries_ = 0;
  std::int64_t prefix_hits_ = 0;
  std::int64_t host_hits_ = 0;
};

}  // namespace rocmforge
