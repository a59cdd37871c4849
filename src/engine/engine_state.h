#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/step_watch.h"
#include "engine/adapters.h"
#include "engine/drafts.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/mask_work.h"
#include "engine/model_runner.h"
#include "engine/prompt_cache.h"
#include "engine/prompt_disk.h"
#include "engine/running.h"
#include "engine/salt_secret.h"
#include "engine/slots.h"
#include "engine/step_recovery.h"
#include "engine/step_time.h"

namespace rocmforge {

/// The members of an Engine, for the files that implement it.
struct Engine::State {
  State(EngineParts engine_parts, const EngineOptions& options);

  /// Frees adapters that were unloaded and that no request uses any more.
  void free_adapters();
  /// Why `count` sequences of the request can't run; RequestError::none if they can.
  [[nodiscard]] RequestRefusal refusal(const Request& request, int count) const;
  /// Log probabilities of the step's drawn tokens, where requested.
  void find_logprobs(std::span<const ChunkResult> results);
  /// Takes the result of a sequence's chunk and decides whether the sequence goes on; no output for a part of a prompt.
  std::optional<StepOutput> advance(std::size_t index, const ChunkResult& result);
  /// Takes drawn tokens until one ends the answer, and commits the chunk.
  void take_tokens(std::size_t index, const ChunkResult& result, StepOutput& output);
  /// Takes one drawn token, with its log probabilities where they are asked for. Returns whether it ends the answer.
  bool take_token(Running& running, std::int32_t token, TokenLogprobs* found, StepOutput& output);
  /// The found log probabilities of a chunk's tokens.
  [[nodiscard]] std::span<TokenLogprobs> logprobs_of(std::size_t index);
  [[nodiscard]] FinishReason finish_after(const Sequence& sequence, bool stopped) const;
  /// Ends a request, whose last output the next step returns; ignores one that has ended. Never fails for lack of memory,
  /// like all functions that end answers.
  void end(RequestId id, FinishReason reason);
  /// Ends a request with this output, which has all but the reason and the statistics.
  void finish(Running& running, FinishReason reason, StepOutput& output);
  /// Removes a request that the scheduler does not have any more.
  void forget(Running& running);
  void forget_deadline(Running& running);
  /// Ends requests whose deadline has passed.
  void expire();
  /// Computes the next step and returns one result for each chunk of `step`, which is empty when there is nothing to
  /// compute. Ends sequences for which there is no memory.
  std::span<const ChunkResult> compute();
  /// Sets `step` to the running step; starts a step first if none is running.
  void take_step();
  void choose_step();
  /// Lets sequences start whose prompts have been read from files. Waits a little where nothing else can run.
  void take_read_prompts();
  /// Starts the step after the running one, if that is possible and there is memory for it.
  void start_ahead();
  /// Removes the chunks whose mask is not ready within this step's limit of work. The next step has them again.
  void leave_out_late();
  /// How a chunk's next token is drawn, for ModelRunner.
  [[nodiscard]] ModelRunner::NextDraw next_draw();
  /// Call when a step has failed for lack of memory: it has not run.
  void recover();
  /// The results of the draws in `drawn` from `first` on are lost: they are repeated.
  void draw_again(std::size_t first);
  std::optional<StepOutput> advance_alone(std::size_t index, const ChunkResult& result);
  StepOutput without_memory(Running& running);
  /// Reserves room for `count` more answers in the outputs of steps, so that ending them allocates nothing.
  void make_room_for(std::size_t count);
  void refuse(const Request& request, std::span<const RequestId> ids, const RequestRefusal& refusal);
  /// Adds an accepted request, with one answer for each id: all of them or, if memory runs out, none.
  void take(const Request& request, std::span<const RequestId> ids);
  void add(const Request& request, std::span<const RequestId> ids);
  /// Sets the limit of prompt tokens in later steps from the time of a step.
  void take_time(double seconds);
  /// Makes the copies that wait to be made.
  void copy();
  /// Tells the watch how long these chunks may take.
  void watch_work(std::span<const ScheduledChunk> chunks);
  [[nodiscard]] SequenceStatus describe(const Sequence& sequence) const;

  EngineParts parts;
  std::optional<PromptCacheMemory> host_memory;
  SequenceCache cache;
  std::optional<PromptDisk> disk;
  std::string salt_secret = random_salt_secret();  ///< of the folder, where `disk` has one
  Scheduler scheduler;
  ModelRunner runner;
  EngineAdapters adapters;
  std::optional<EngineSlots> slots;
  Drafts drafts;
  std::unordered_map<RequestId, Running> requests;  ///< addresses stay
  MaskWork masks;                                   ///< uses the answers in `requests`
  std::vector<Answer*> constrained;                 ///< of the step that is being prepared
  std::set<std::pair<std::chrono::steady_clock::time_point, RequestId>> deadlines;
  std::vector<StepOutput> ready;     ///< outputs that the next step() returns
  std::vector<StepOutput> given;     ///< outputs that the last step() returned
  std::vector<ScheduledChunk> step;  ///< the sequence of a chunk is null if it has ended
  std::vector<Running*> drawn;       ///< whose draws have not been read; null for ended ones
  StepRecovery recovery;
  /// A drawn token that has log probabilities.
  struct ScoredDraw {
    std::size_t chunk = 0;
    std::size_t draw = 0;
  };
  std::vector<ScoredDraw> scored;       ///< in the order of the step
  std::vector<TokenLogprobs> logprobs;  ///< the first ones are those of `scored`
  std::vector<ScheduledChunk> ahead;    ///< the step that was started ahead, whose draws have not been read; as `step`
  RequestId last_id = 0;
  std::int64_t steps = 0;
  std::int32_t step_tokens = 0;  ///< of the last step
  std::int32_t step_sequences = 0;
  bool step_copies = false;               ///< the step began with copies to or from host memory
  std::int32_t max_prefill_tokens;        ///< the requested limit; 0: none
  double max_prefill_seconds;             ///< 0: no limit
  double seconds_per_prompt_token = 0.0;  ///< 0: not known yet
  std::optional<double> step_seconds;     ///< EngineOptions::step_seconds
  StepWork model_work;                    ///< what does not depend on a step
  std::unique_ptr<StepWatch> watch;
};

}  // namespace rocmforge
