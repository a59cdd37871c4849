#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "kv/block_allocator.h"
#include "kv/page_table.h"
#include "kv/prefix_cache.h"
#include "schedule/request.h"

namespace rocmforge {

/// One request on its way: its tokens, how many of them are in the cache, and the pages they live in.
struct Sequence {
  Sequence(RequestId id, Request request, BlockAllocator& allocator, std::int32_t block_tokens);

  RequestId id;
  Request request;
  std::vector<std::int32_t> tokens;  ///< prompt and what has been generated, less what shifts have dropped
  std::int32_t prompt_tokens = 0;    ///< as submitted
  std::int32_t dropped_tokens = 0;   ///< by shifts of the context
  std::int32_t cached_tokens = 0;    ///< positions [0, cached_tokens) are in the KV cache
  std::int32_t prefix_hits = 0;      ///< prompt positions that came from the prefix cache when it was first admitted
  bool admitted = false;             ///< it has been in a batch (and may have been preempted since)
  PageTable pages;
  FinishReason finish = FinishReason::none;

  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()); }
  [[nodiscard]] std::int32_t generated() const { return length() + dropped_tokens - prompt_tokens; }
  /// Tokens that must be computed before the next one can be sampled; at least 1 while it runs.
  [[nodiscard]] std::int32_t pending() const { return length() - cached_tokens; }
};

/// A sequence's part of the next step: tokens [first, first + count) of it are computed.
struct ScheduledChunk {
  Sequence* sequence = nullptr;
  std::int32_t first = 0;
  std::int32_t count = 0;
  bool wants_logits = false;  ///< the chunk ends at the last token, so a new one is sampled
};

struct SchedulerLimits {
  std::int32_t max_batch_tokens = 512;  ///< tokens in one step
  std::int32_t max_sequences = 64;      ///< sequences in one step
  std::int32_t context_length = 2048;   ///< positions a sequence may hold
};

/// Decides what the next step computes: decodes first, then prompt chunks in arrival order under the token budget.
/// Integers only; knows nothing of models and devices. When blocks run out the youngest sequence gives its pages back and is
/// computed again later; a request that can never fit is refused by `submit`.
///
/// Nothing waits for ever: a prompt is admitted only with all its blocks, the oldest running sequence can always take those
/// of younger ones, and no sequence may grow beyond what the whole cache holds.
class Scheduler {
 public:
  Scheduler(const SchedulerLimits& limits, BlockAllocator& allocator, PrefixCache* prefix_cache, std::int32_t block_tokens);

  /// Takes the request in; returns "" or one line that says why it can never run.
  std::string submit(RequestId id, Request request);
  /// Marks the sequence finished and frees its pages at once. Unknown ids are ignored (it may just have finished).
  void cancel(RequestId id);

  /// What holds, which may be less than what was asked for: the context never exceeds the cache.
  [[nodiscard]] const SchedulerLimits& limits() const { return limits_; }

  [[nodiscard]] bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  /// The next step. Never empty while there is work; valid until the next call.
  [[nodiscard]] std::span<const ScheduledChunk> next_batch();
  /// After the step: positions of the chunk are cached; `token` (>= 0) is appended when the chunk wanted logits.
  /// A chunk whose sequence has finished meanwhile is ignored.
  void commit(const ScheduledChunk& chunk, std::int32_t token);
  /// Ends a sequence: remembers its full blocks in the prefix cache and frees its pages.
  void finish(Sequence& sequence, FinishReason reason);
  /// Makes room in a full context: drops the older half of the tokens after the first `Request::keep` (at least one). What
  /// follows moves to lower positions and is computed again.
  void shift(Sequence& sequence);
  /// Removes finished sequences and hands them over.
  std::vector<std::unique_ptr<Sequence>> take_finished();

  [[nodiscard]] std::int32_t num_waiting() const { return static_cast<std::int32_t>(waiting_.size()); }
  [[nodiscard]] std::int32_t num_running() const { return static_cast<std::int32_t>(running_.size()); }
  [[nodiscard]] std::int64_t num_preemptions() const { return num_preemptions_; }

 private:
  /// Makes sure that every running sequence, the oldest first, has blocks for all its tokens.
  void make_room();
  bool reserve(Sequence& sequence);
  void preempt_youngest();
  /// Gives the oldest waiting sequence its pages and starts it. False when it must go on waiting.
  bool admit();
  void schedule(Sequence& sequence, std::int32_t count);
  void remember(const Sequence& sequence);

  SchedulerLimits limits_;
  BlockAllocator* allocator_;
  PrefixCache* prefix_cache_;
  std::int32_t block_tokens_;
  // Both in order of arrival, and every running sequence is older than every waiting one.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<std::unique_ptr<Sequence>> finished_;
  std::vector<ScheduledChunk> batch_;
  std::int32_t budget_ = 0;  ///< tokens that still fit into batch_
  std::int64_t num_preemptions_ = 0;
};

}  // namespace rocmforge
