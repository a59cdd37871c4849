#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/pages/cached_sequence.h"
#include "schedule/pages/sequence_cache.h"
#include "schedule/pages/sequence_state.h"
#include "schedule/request.h"

namespace rocmforge {

/// What a sequence does next.
enum class SequencePhase {
  waiting,  ///< it has no blocks, because it has not started or was preempted
  prefill,  ///< it computes a part of its prompt
  decode,   ///< it computes its last token, whose logits give the next one, and perhaps drafts of those that follow
};

std::string_view name(SequencePhase phase);

/// The salt of a request's prefixes: different for each of its salts with each list of adapters that act from the first
/// token on.
std::string prefix_salt_of(std::string_view salt, std::span<const AdapterScale> adapters);

struct Sequence;

/// A prompt to which several sequences answer.
struct SharedPrompt {
  const Sequence* leader = nullptr;  ///< computes it; null once it has ended
};

/// A request that was accepted: its tokens, and what the cache holds of them.
struct Sequence {
  Sequence(RequestId id, Request request, SequenceCache& cache);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  RequestId id;
  Request request;
  std::string prefix_salt;                        ///< of the request's salt and adapters
  std::vector<TokenSpan> spans;                   ///< of the prompt: tokens of images, and where adapters begin
  std::int64_t arrival = 0;                       ///< the number of its submission; 0 before it
  std::int64_t turn = 0;                          ///< its turn, see FairOrder
  std::shared_ptr<SharedPrompt> shared_prompt{};  ///< with the sequences that share it; null: none does
  /// Prompt and generated tokens, without those that shifts have dropped. Behind them `drafts` drafted ones.
  std::vector<std::int32_t> tokens;
  std::int32_t drafts = 0;          ///< tokens that may follow: the next step computes and draws at each
  std::int32_t prompt_tokens = 0;   ///< as submitted
  std::int32_t dropped_tokens = 0;  ///< by shifts of the context
  std::int32_t seen_tokens = 0;     ///< the most ever in the KV cache; their rows have been delivered
  std::int32_t undone_tokens = 0;   ///< computed, but the state behind them was lost with rejected drafts
  std::int32_t prefix_hits = 0;     ///< prompt positions that were in the cache when it was first admitted
  std::int32_t host_hits = 0;       ///< of them, those that were in host memory
  bool admitted = false;            ///< it has been in a batch (and may have been preempted since)
  bool awaits_files = false;        ///< its prompt is being read: it does not start before that has come
  SequencePhase phase = SequencePhase::waiting;
  CachedSequence cache;
  FinishReason finish = FinishReason::none;

  /// Without drafts.
  [[nodiscard]] std::int32_t length() const { return static_cast<std::int32_t>(tokens.size()) - drafts; }
  [[nodiscard]] std::int32_t generated() const { return length() + dropped_tokens - prompt_tokens; }
  /// Tokens that must be computed before the next one can be sampled; at least 1 while the sequence runs.
  [[nodiscard]] std::int32_t pending() const { return length() - cache.computed_tokens; }
  /// Sets the phase of a sequence that runs from what is pending.
  void update_phase() { phase = pending() == 1 + undone_tokens ? SequencePhase::decode : SequencePhase::prefill; }
  /// Drops `count` tokens from `first` on; an adapter that begins among them begins behind them.
  void drop(std::int32_t first, std::int32_t count);
  /// Replaces the drafted tokens.
  void set_drafts(std::span<const std::int32_t> drafted);
  [[nodiscard]] PrefixKey prefix_key() const { return {tokens, prefix_salt}; }
  /// The sequence that computes the prompt for this one, null for none.
  [[nodiscard]] const Sequence* leader() const {
    return shared_prompt != nullptr && shared_prompt->leader != this ? shared_prompt->leader : nullptr;
  }
  /// Whether it waits for a prompt that its leader has not computed yet.
  [[nodiscard]] bool awaits_prompt() const { return leader() != nullptr && leader()->seen_tokens < leader()->prompt_tokens; }
  /// Whether it does not start yet, though there may be room.
  [[nodiscard]] bool awaits() const { return awaits_files || awaits_prompt(); }
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

/// A sequence's part of the next step: tokens [first, first + count) of it are computed, drafted ones included.
struct ScheduledChunk {
  Sequence* sequence = nullptr;
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t draws = 0;  ///< for so many of its last positions a token is drawn from the logits: 0, or 1 + drafts
  bool completes = false;  ///< it reaches the sequence's last token
  SequenceState::Step state{};

  /// The drafted tokens among them, its last ones.
  [[nodiscard]] std::int32_t drafts() const { return draws > 0 ? draws - 1 : 0; }
  /// Positions whose logits give the probability of the prompt token that follows.
  [[nodiscard]] PositionRange scored() const;
  /// Positions whose hidden states are pooled.
  [[nodiscard]] PositionRange pooled() const;
};

}  // namespace rocmforge
