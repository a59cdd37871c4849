#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/answer.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/mask_work.h"
#include "engine/model_runner.h"
#include "engine/step_recovery.h"

namespace rocmforge {

/// What an Engine is made of; for the files that implement it.
struct Engine::State {
  State(EngineParts engine_parts, const EngineOptions& options);

  /// Groups of pages with a window, each with an allocator of its own.
  std::vector<WindowGroup> make_windows();
  /// The slots of recurrent state, null for a model without.
  BlockAllocator* known_slots();
  PrefixCache& emplace_prefix_cache();
  /// Why `count` sequences of the request can't run, if so.
  [[nodiscard]] RequestRefusal refusal(const Request& request, int count) const;
  /// Log probabilities of what the step has drawn, where they were asked for.
  void find_logprobs(std::span<const ChunkResult> results);
  /// Takes what a step gave for a sequence and decides whether it goes on; nothing for a part of a prompt.
  std::optional<StepOutput> advance(std::size_t index, const ChunkResult& result);
  void take_token(Sequence& sequence, const ChunkResult& result, TokenLogprobs& found, StepOutput& output);
  [[nodiscard]] FinishReason finish_after(const Sequence& sequence, bool stopped) const;
  /// Takes no memory that must be there, like whatever else ends answers.
  void end(RequestId id, FinishReason reason);
  /// Drops statistics that nobody has taken, but none of a request that the next step reports: any number may end at once.
  void forget_stats();
  /// Ends what has run out of time.
  void expire();
  /// Moves what finished from the active requests to the statistics.
  void retire();
  /// Computes the next step and gives its results, one for each chunk of `step`, which is empty when there is nothing to
  /// compute. Ends sequences for which there is no memory.
  std::span<const ChunkResult> compute();
  /// Makes `step` the one to be waited for; starts one when none is under way.
  void take_step();
  void choose_step();
  /// Starts the step after the one under way where that can be done, and there is memory for it.
  void start_ahead();
  /// Leaves out the chunks whose draw has no mask in this step's time: they come again in the next one.
  void leave_out_late();
  /// How a chunk's next token is drawn, for ModelRunner.
  [[nodiscard]] ModelRunner::NextDraw next_draw();
  /// There was no memory for the step: it has not been.
  void recover();
  /// Those in `drawn` from `first` on have come to nothing.
  void draw_again(std::size_t first);
  std::optional<StepOutput> advance_alone(std::size_t index, const ChunkResult& result);
  StepOutput without_memory(RequestId id);
  /// Room for so many more answers in what steps give: their ends take no memory then.
  void make_room_for(std::size_t count);
  void refuse(const Request& request, std::span<const RequestId> ids, const RequestRefusal& refusal);
  /// Takes in a request that is not refused, an answer for each id.
  void take(const Request& request, std::span<const RequestId> ids);
  /// Takes back answers of which not all could be taken.
  void withdraw(std::span<const RequestId> ids, const Request& request);
  /// Learns from a step's time how many tokens of prompts a later one may have.
  void take_time(double seconds);
  [[nodiscard]] SequenceStatus describe(const Sequence& sequence, bool waiting) const;

  EngineParts parts;
  BlockAllocator allocator;  ///< of the group without a window
  std::deque<BlockAllocator> window_allocators;
  std::vector<WindowGroup> windows;
  std::optional<BlockAllocator> slots;  ///< of recurrent state, for models that have one
  std::optional<PrefixCache> prefix_cache;
  Scheduler scheduler;
  ModelRunner runner;
  std::unordered_map<RequestId, Answer> active;
  MaskWork masks;                    ///< on answers in `active`
  std::vector<Answer*> constrained;  ///< of the step that is being made
  std::set<std::pair<std::chrono::steady_clock::time_point, RequestId>> deadlines;
  std::map<RequestId, RequestStats> stats;             ///< ordered: the oldest go first
  std::map<RequestId, RequestStats> unfinished_stats;  ///< become such
  std::vector<StepOutput> ready;                       ///< delivered by the next step
  std::vector<StepOutput> given;                       ///< by the last one
  std::vector<ScheduledChunk> step;
  std::vector<RequestId> drawn;  ///< whose draws belong to steps that nobody has seen
  StepRecovery recovery;
  std::vector<TokenLogprobs> logprobs;  ///< of each chunk of the step
  std::vector<std::size_t> scored;      ///< chunks that have some
  /// The step that was started ahead: nobody has seen what it draws. A chunk whose sequence has ended meanwhile has none.
  std::vector<ScheduledChunk> ahead;
  RequestId last_id = 0;
  std::int64_t steps = 0;
  std::int32_t step_tokens = 0;  ///< of the last step
  std::int32_t step_sequences = 0;
  std::int32_t max_prefill_tokens;        ///< as asked for; 0: any number
  double max_prefill_seconds;             ///< 0: any time
  double seconds_per_prompt_token = 0.0;  ///< 0: not known yet
};

}  // namespace rocmforge
