#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/answer.h"
#include "engine/engine_parts.h"
#include "engine/mask_work.h"
#include "engine/model_runner.h"

namespace rocmforge {

namespace {
constexpr std::size_t max_unread_stats = 1024;
/// The time of a step with fewer of prompts says nothing about prompts; a step never takes fewer for its time's sake.
constexpr std::int32_t least_timed_tokens = 16;

/// However a step ends, nothing works on answers any more.
class PausedAtEnd {
 public:
  explicit PausedAtEnd(MaskWork& masks) : masks_(masks) {}
  PausedAtEnd(const PausedAtEnd&) = delete;
  PausedAtEnd& operator=(const PausedAtEnd&) = delete;
  ~PausedAtEnd() { masks_.pause(); }

 private:
  MaskWork& masks_;
};
}  // namespace

struct Engine::State {
  State(EngineParts engine_parts, const EngineOptions& options);

  /// Why `count` sequences of the request can't run, if so.
  [[nodiscard]] RequestRefusal refusal(const Request& request, int count) const;
  /// Takes what a step gave for a sequence and decides whether it goes on; nothing for a part of a prompt.
  std::optional<StepOutput> advance(const ScheduledChunk& chunk, const ChunkResult& result);
  void take_token(Sequence& sequence, const ChunkResult& result, StepOutput& output);
  [[nodiscard]] FinishReason finish_after(const Sequence& sequence, bool stopped) const;
  void end(RequestId id, FinishReason reason);
  /// Drops statistics that nobody has taken, but none of a request that the next step reports: any number may end at once.
  void forget_stats();
  /// Ends what has run out of time.
  void expire();
  /// Moves what finished from the active requests to the statistics.
  void retire();
  /// The step to be waited for; starts one when none is under way. Empty when there is nothing to compute.
  std::vector<ScheduledChunk> take_step();
  /// Leaves out the chunks whose draw has no mask in this step's time: they come again in the next one.
  void leave_out_late(std::vector<ScheduledChunk>& step);
  void store(RequestId id, const RequestStats& request_stats);
  /// Learns from a step's time how many tokens of prompts a later one may have.
  void take_time(double seconds);
  [[nodiscard]] SequenceStatus describe(const Sequence& sequence, bool waiting) const;

  EngineParts parts;
  BlockAllocator allocator;
  std::optional<PrefixCache> prefix_cache;
  Scheduler scheduler;
  ModelRunner runner;
  std::unordered_map<RequestId, Answer> active;
  MaskWork masks;                    ///< on answers in `active`
  std::vector<Answer*> constrained;  ///< of the step that is being made
  std::set<std::pair<std::chrono::steady_clock::time_point, RequestId>> deadlines;
  std::map<RequestId, RequestStats> stats;  ///< ordered: the oldest go first
  std::vector<StepOutput> ready;            ///< delivered by the next step
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

namespace {

SchedulerLimits scheduler_limits(const EngineParts& parts, const EngineOptions& options) {
  return {.max_batch_tokens = options.max_batch_tokens,
          .max_sequences = options.max_sequences,
          .context_length = context_length(options, parts.model->config()),
          .max_prefill_tokens = options.max_prefill_tokens,
          .max_waiting = options.max_waiting,
          .max_logit_rows = std::max(options.model.max_logit_rows, options.max_sequences)};
}

}  // namespace

Engine::State::State(EngineParts engine_parts, const EngineOptions& options)
    : parts(std::move(engine_parts)),
      allocator(parts.cache->num_blocks()),
      scheduler(scheduler_limits(parts, options), allocator,
                options.prefix_cache ? &prefix_cache.emplace(allocator, parts.cache->layout().block_tokens) : nullptr,
                parts.cache->layout().block_tokens),
      runner(*parts.model, *parts.cache),
      max_prefill_tokens(options.max_prefill_tokens),
      max_prefill_seconds(options.max_prefill_seconds) {}

RequestRefusal Engine::State::refusal(const Request& request, int count) const {
  const auto invalid = [](std::string reason) { return RequestRefusal{RequestError::invalid, std::move(reason)}; };
  const std::int32_t vocab = parts.model->config().vocab;
  const auto outside = [vocab](std::int32_t token) { return token < 0 || token >= vocab; };
  if (const auto token = std::ranges::find_if(request.prompt, outside); token != request.prompt.end()) {
    return invalid(fmt::format("the prompt's token {} is {}, the vocabulary has {} tokens", token - request.prompt.begin(),
                               *token, vocab));
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (outside(token)) {
      return invalid(fmt::format("logit_bias names token {}, the vocabulary has {} tokens", token, vocab));
    }
  }
  if (std::ranges::any_of(request.stop, &std::string::empty)) {
    return invalid("a stop string is empty");
  }
  return scheduler.refusal(request, count);
}

std::optional<StepOutput> Engine::State::advance(const ScheduledChunk& chunk, const ChunkResult& result) {
  Sequence& sequence = *chunk.sequence;
  Answer& answer = active.at(sequence.id);
  answer.take_prompt(chunk, result, *parts.pool);
  scheduler.commit(chunk, result.token);
  if (!chunk.completes) {
    return std::nullopt;
  }
  StepOutput output;
  output.id = sequence.id;
  output.prompt_logprobs = answer.prompt_logprobs();
  if (chunk.wants_logits) {
    take_token(sequence, result, output);
  } else {
    answer.computed();
    output.embedding = answer.embedding();
    output.finish = sequence.request.embedding ? FinishReason::stop : FinishReason::length;
  }
  if (output.finish != FinishReason::none) {
    scheduler.finish(sequence, output.finish);
  } else if (sequence.length() > scheduler.limits().context_length) {
    scheduler.shift(sequence);
    output.shifted = true;
  }
  return output;
}

void Engine::State::take_token(Sequence& sequence, const ChunkResult& result, StepOutput& output) {
  Answer& answer = active.at(sequence.id);
  answer.computed();
  const auto fail = [&](std::string reason) {
    output.finish = FinishReason::error;
    output.text = std::move(reason);
  };
  if (!answer.failure().empty()) {
    output.error = RequestError::invalid;  // what it may say was the request's choice
    return fail(answer.failure());
  }
  if (result.token < 0) {
    return fail("no token can be drawn: all are forbidden or their logits are not numbers");
  }
  output.token = result.token;
  if (!result.logits.empty()) {
    output.logprobs.push_back(token_logprobs(result.logits, result.token, sequence.request.logprobs));
  }
  const bool may_end = !sequence.request.ignore_eos || sequence.request.constraint != nullptr;
  const bool ends = may_end && parts.tokenizer != nullptr && parts.tokenizer->is_end_of_generation(result.token);
  if (!ends) {
    output.text = answer.add(result.token);
    if (!answer.failure().empty()) {
      return fail(answer.failure());
    }
  }
  output.finish = finish_after(sequence, ends || answer.stopped());
  if (output.finish != FinishReason::none) {
    output.text += answer.finish();
    output.stop = answer.stop_string();
  }
}

FinishReason Engine::State::finish_after(const Sequence& sequence, bool stopped) const {
  if (stopped) {
    return FinishReason::stop;
  }
  if (sequence.generated() == sequence.request.max_tokens) {
    return FinishReason::length;
  }
  // The newest token is in the cache only when something follows it: so a full context still gives one token.
  if (sequence.length() > scheduler.limits().context_length && sequence.request.context_policy == ContextPolicy::stop) {
    return FinishReason::context;
  }
  return FinishReason::none;
}

void Engine::State::end(RequestId id, FinishReason reason) {
  const auto found = active.find(id);
  if (found != active.end()) {
    ready.push_back({.id = id, .text = found->second.finish(), .finish = reason});
    scheduler.cancel(id, reason);
    retire();
  }
}

void Engine::State::expire() {
  const auto now = std::chrono::steady_clock::now();
  while (!deadlines.empty() && deadlines.begin()->first < now) {
    end(deadlines.begin()->second, FinishReason::timeout);  // takes it out of `deadlines` too
  }
}

void Engine::State::retire() {
  for (const auto& sequence : scheduler.take_finished()) {
    for (ScheduledChunk& chunk : ahead) {
      chunk.sequence = chunk.sequence == sequence.get() ? nullptr : chunk.sequence;
    }
    const auto answer = active.extract(sequence->id);
    if (sequence->request.deadline) {
      deadlines.erase({*sequence->request.deadline, sequence->id});
    }
    store(sequence->id, {.prompt_tokens = sequence->prompt_tokens,
                         .cached_tokens = sequence->prefix_hits,
                         .generated_tokens = sequence->generated(),
                         .queue_seconds = answer.mapped().queue_seconds(),
                         .prompt_seconds = answer.mapped().prompt_seconds(),
                         .decode_seconds = answer.mapped().decode_seconds()});
  }
}

void Engine::State::store(RequestId id, const RequestStats& request_stats) { stats[id] = request_stats; }

void Engine::State::forget_stats() {
  while (stats.size() > max_unread_stats + ready.size()) {
    stats.erase(stats.begin());
  }
}

std::vector<ScheduledChunk> Engine::State::take_step() {
  const std::int32_t vocab = parts.model->config().vocab;
  const auto next_draw = [&](const ScheduledChunk& chunk, BatchPlan& step) {
    return active.at(chunk.sequence->id).next(*chunk.sequence, vocab, step);
  };
  std::vector<ScheduledChunk> step = std::exchange(ahead, {});
  if (std::ranges::all_of(step, [](const ScheduledChunk& chunk) { return chunk.sequence == nullptr; })) {
    const std::span<const ScheduledChunk> batch = scheduler.next_batch();
    step.assign(batch.begin(), batch.end());
    if (step.empty()) {
      return step;
    }
    for (const ScheduledChunk& chunk : step) {
      active.at(chunk.sequence->id).started();
    }
    leave_out_late(step);
    runner.start(step, scheduler.block_copies(), next_draw);
  }
  if (parts.model->runs_ahead()) {
    ahead = scheduler.next_ahead(step);
  }
  if (!ahead.empty()) {
    runner.start_ahead(ahead, next_draw);
  }
  return step;
}

void Engine::State::leave_out_late(std::vector<ScheduledChunk>& step) {
  constrained.clear();
  for (const ScheduledChunk& chunk : step) {
    if (chunk.wants_logits && chunk.sequence->request.constraint != nullptr) {
      constrained.push_back(&active.at(chunk.sequence->id));
    }
  }
  if (constrained.empty()) {
    return;
  }
  const std::int32_t vocab = parts.model->config().vocab;
  masks.prepare(constrained, vocab);
  std::erase_if(step, [&](const ScheduledChunk& chunk) {
    return chunk.wants_logits && !active.at(chunk.sequence->id).mask_is_settled();
  });
  if (!step.empty()) {
    masks.resume();  // beside what the device computes
  }
}

void Engine::State::take_time(double seconds) {
  if (max_prefill_seconds <= 0.0 || step_tokens - step_sequences < least_timed_tokens) {
    return;
  }
  const double now = seconds / step_tokens;
  seconds_per_prompt_token = seconds_per_prompt_token > 0.0 ? 0.5 * (seconds_per_prompt_token + now) : now;
  const double fitting = std::min(max_prefill_seconds / seconds_per_prompt_token, 1e6);
  const auto count = std::max(least_timed_tokens, static_cast<std::int32_t>(fitting));
  scheduler.set_max_prefill_tokens(max_prefill_tokens > 0 ? std::min(max_prefill_tokens, count) : count);
}

SequenceStatus Engine::State::describe(const Sequence& sequence, bool waiting) const {
  SequenceStatus status;
  status.id = sequence.id;
  status.state = waiting                  ? SequenceStatus::State::waiting
                 : sequence.pending() > 1 ? SequenceStatus::State::prefill
                                          : SequenceStatus::State::decode;
  status.priority = sequence.request.priority;
  status.prompt_tokens = sequence.prompt_tokens;
  status.cached_tokens = sequence.prefix_hits;
  status.computed_tokens = sequence.cached_tokens;
  status.generated_tokens = sequence.generated();
  status.kv_blocks = static_cast<std::int32_t>(sequence.pages.blocks().size());
  status.age_seconds = active.at(sequence.id).age_seconds();
  return status;
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options) {
  check(parts.device != nullptr && parts.model != nullptr && parts.cache != nullptr && parts.pool != nullptr,
        "an engine needs device, model, cache and threads");
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Engine::State>(std::move(parts), options)));
}

std::string_view name(SequenceStatus::State state) {
  switch (state) {
    case SequenceStatus::State::waiting:
      return "waiting";
    case SequenceStatus::State::prefill:
      return "prefill";
    case SequenceStatus::State::decode:
      return "decode";
  }
  fail_check("unknown state");
}

RequestId Engine::submit(Request request) { return submit(std::move(request), 1).front(); }

std::vector<RequestId> Engine::submit(Request request, int count) {
  check(count >= 1, "a request has at least one answer");
  State& state = *state_;
  std::vector<RequestId> ids(static_cast<std::size_t>(count));
  std::ranges::generate(ids, [&] { return ++state.last_id; });
  if (const RequestRefusal refusal = state.refusal(request, count); refusal) {
    for (const RequestId id : ids) {
      state.ready.push_back({.id = id, .text = refusal.message, .finish = FinishReason::error, .error = refusal.error});
      state.store(id, {.prompt_tokens = static_cast<std::int32_t>(request.prompt.size())});
    }
    return ids;
  }
  for (const RequestId id : ids) {
    Request choice = request;
    if (id != ids.front()) {
      choice.prompt_logprobs = -1;
    }
    if (choice.sampling.seed) {
      *choice.sampling.seed += id - ids.front();
    }
    if (choice.deadline) {
      state.deadlines.emplace(*choice.deadline, id);
    }
    state.active.try_emplace(id, choice, state.parts.tokenizer);
    const RequestRefusal late = state.scheduler.submit(id, std::move(choice), id == ids.front() ? 0 : ids.front());
    check(!late, "what is not refused is taken");
  }
  return ids;
}

void Engine::cancel(RequestId id) { state_->end(id, FinishReason::cancelled); }

bool Engine::has_work() const { return !state_->ready.empty() || state_->scheduler.has_work(); }

std::vector<StepOutput> Engine::step() {
  State& state = *state_;
  const PausedAtEnd paused(state.masks);
  state.expire();
  state.forget_stats();
  std::vector<StepOutput> outputs = std::exchange(state.ready, {});
  const auto started = std::chrono::steady_clock::now();
  const std::vector<ScheduledChunk> step = state.take_step();
  if (step.empty()) {
    return outputs;
  }
  ++state.steps;
  state.step_tokens = std::accumulate(step.begin(), step.end(), 0, [](int sum, const auto& c) { return sum + c.count; });
  state.step_sequences = static_cast<std::int32_t>(step.size());
  const std::span<const ChunkResult> results = state.runner.results(step, !state.ahead.empty());
  state.masks.pause();
  state.take_time(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].sequence == nullptr) {
      continue;
    }
    if (std::optional<StepOutput> output = state.advance(step[i], results[i])) {
      outputs.push_back(*std::move(output));
    }
  }
  state.retire();
  return outputs;
}

RequestStats Engine::take_stats(RequestId id) {
  const auto found = state_->stats.find(id);
  check(found != state_->stats.end(), "the request has not finished or its statistics were taken");
  const RequestStats stats = found->second;
  state_->stats.erase(found);
  return stats;
}

EngineStatus Engine::status() const {
  const State& state = *state_;
  EngineStatus status;
  status.waiting = state.scheduler.num_waiting();
  status.running = state.scheduler.num_running();
  status.unread_stats = static_cast<std::int32_t>(state.stats.size());
  status.kv_blocks = state.allocator.num_blocks();
  status.free_blocks = state.allocator.num_free();
  if (state.prefix_cache) {
    status.prefix_blocks = state.prefix_cache->num_blocks();
    status.evictable_blocks = state.prefix_cache->num_evictable();
  }
  status.step_tokens = state.step_tokens;
  status.step_sequences = state.step_sequences;
  status.preemptions = state.scheduler.num_preemptions();
  status.steps = state.steps;
  status.prefix_queries = state.scheduler.prefix_queries();
  status.prefix_hits = state.scheduler.prefix_hits();
  return status;
}

std::vector<SequenceStatus> Engine::sequences() const {
  std::vector<SequenceStatus> sequences;
  for (const auto& sequence : state_->scheduler.running()) {
    sequences.push_back(state_->describe(*sequence, false));
  }
  for (const auto& sequence : state_->scheduler.waiting()) {
    sequences.push_back(state_->describe(*sequence, true));
  }
  return sequences;
}

const Model& Engine::model() const { return *state_->parts.model; }
Model& Engine::model() { return *state_->parts.model; }
Device& Engine::device() { return *state_->parts.device; }
const DeviceInfo& Engine::device_info() const { return state_->parts.device->info(); }
KvCache& Engine::cache() { return *state_->parts.cache; }
std::shared_ptr<const Tokenizer> Engine::tokenizer() const { return state_->parts.tokenizer; }
std::int32_t Engine::context_length() const { return state_->scheduler.limits().context_length; }
int Engine::threads() const { return state_->parts.pool->num_threads(); }

std::int64_t Engine::num_parameters() const {
  std::int64_t count = 0;
  if (state_->parts.file != nullptr) {
    for (const GgufTensor& tensor : state_->parts.file->tensors()) {
      count += tensor.tensor.shape.elems();
    }
  }
  return count;
}

std::uint64_t Engine::file_bytes() const { return state_->parts.file != nullptr ? state_->parts.file->file_bytes() : 0; }

const SamplingParams& Engine::sampling() const { return state_->parts.sampling; }

const GgufFile& Engine::file() const {
  check(state_->parts.file != nullptr, "the model comes from no file");
  return *state_->parts.file;
}

}  // namespace rocmforge
