#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "engine/answer.h"
#include "engine/engine_parts.h"
#include "engine/model_runner.h"

namespace rocmforge {

namespace {
constexpr std::size_t max_unread_stats = 1024;
}

struct Engine::State {
  State(EngineParts engine_parts, const EngineOptions& options);

  /// "" or one line that says why the request can't run.
  [[nodiscard]] std::string refusal(const Request& request) const;
  /// Takes the token drawn for a sequence and decides whether it goes on.
  StepOutput advance(const ScheduledChunk& chunk, std::int32_t token);
  [[nodiscard]] FinishReason finish_after(const Sequence& sequence, bool stopped) const;
  /// Moves what finished from the active requests to the statistics.
  void retire();
  void store(RequestId id, const RequestStats& request_stats);

  EngineParts parts;
  BlockAllocator allocator;
  std::optional<PrefixCache> prefix_cache;
  Scheduler scheduler;
  ModelRunner runner;
  std::unordered_map<RequestId, Answer> active;
  std::map<RequestId, RequestStats> stats;  ///< ordered: the oldest go first
  std::vector<StepOutput> ready;            ///< delivered by the next step
  RequestId last_id = 0;
};

namespace {

SchedulerLimits scheduler_limits(const EngineParts& parts, const EngineOptions& options) {
  return {options.max_batch_tokens, options.max_sequences, context_length(options, parts.model->config())};
}

}  // namespace

Engine::State::State(EngineParts engine_parts, const EngineOptions& options)
    : parts(std::move(engine_parts)),
      allocator(parts.cache->num_blocks()),
      scheduler(scheduler_limits(parts, options), allocator,
                options.prefix_cache ? &prefix_cache.emplace(allocator, parts.cache->layout().block_tokens) : nullptr,
                parts.cache->layout().block_tokens),
      runner(*parts.model, *parts.cache) {}

std::string Engine::State::refusal(const Request& request) const {
  const std::int32_t vocab = parts.model->config().vocab;
  const auto outside = [vocab](std::int32_t token) { return token < 0 || token >= vocab; };
  if (const auto token = std::ranges::find_if(request.prompt, outside); token != request.prompt.end()) {
    return fmt::format("the prompt's token {} is {}, the vocabulary has {} tokens", token - request.prompt.begin(), *token,
                       vocab);
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (outside(token)) {
      return fmt::format("logit_bias names token {}, the vocabulary has {} tokens", token, vocab);
    }
  }
  if (std::ranges::any_of(request.stop, &std::string::empty)) {
    return "a stop string is empty";
  }
  return {};
}

StepOutput Engine::State::advance(const ScheduledChunk& chunk, std::int32_t token) {
  Sequence& sequence = *chunk.sequence;
  Answer& answer = active.at(sequence.id);
  StepOutput output;
  output.id = sequence.id;
  output.token = token;
  answer.drawn();
  scheduler.commit(chunk, output.token);
  if (output.token < 0) {
    output.finish = FinishReason::error;
    output.text = "no token can be drawn: all are forbidden or their logits are not numbers";
    scheduler.finish(sequence, output.finish);
    return output;
  }
  const bool ends =
      !sequence.request.ignore_eos && parts.tokenizer != nullptr && parts.tokenizer->is_end_of_generation(output.token);
  if (!ends) {
    output.text = answer.add(output.token);
  }
  output.finish = finish_after(sequence, ends || answer.stopped());
  if (output.finish != FinishReason::none) {
    output.text += answer.finish();
    scheduler.finish(sequence, output.finish);
  } else if (sequence.length() > scheduler.limits().context_length) {
    scheduler.shift(sequence);
    output.shifted = true;
  }
  return output;
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

void Engine::State::retire() {
  for (const auto& sequence : scheduler.take_finished()) {
    const auto answer = active.extract(sequence->id);
    store(sequence->id, {.prompt_tokens = sequence->prompt_tokens,
                         .cached_tokens = sequence->prefix_hits,
                         .generated_tokens = sequence->generated(),
                         .prompt_seconds = answer.mapped().prompt_seconds(),
                         .decode_seconds = answer.mapped().decode_seconds()});
  }
}

void Engine::State::store(RequestId id, const RequestStats& request_stats) {
  stats[id] = request_stats;
  if (stats.size() > max_unread_stats) {
    stats.erase(stats.begin());
  }
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

std::vector<RequestId> Engine::submit(Request request, int count) {
  std::vector<RequestId> ids;
  for (int index = 0; index < count; ++index) {
    Request choice = request;
    if (choice.sampling.seed) {
      *choice.sampling.seed += static_cast<std::uint64_t>(index);
    }
    ids.push_back(submit(std::move(choice)));
  }
  return ids;
}

RequestId Engine::submit(Request request) {
  State& state = *state_;
  const RequestId id = ++state.last_id;
  const auto prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  std::string reason = state.refusal(request);
  if (reason.empty()) {
    Answer answer(request, state.parts.tokenizer);
    reason = state.scheduler.submit(id, std::move(request));
    if (reason.empty()) {
      state.active.emplace(id, std::move(answer));
      return id;
    }
  }
  state.ready.push_back({id, -1, std::move(reason), FinishReason::error, false});
  state.store(id, {.prompt_tokens = prompt_tokens});
  return id;
}

void Engine::cancel(RequestId id) {
  State& state = *state_;
  const auto found = state.active.find(id);
  if (found == state.active.end()) {
    return;
  }
  state.ready.push_back({id, -1, found->second.finish(), FinishReason::cancelled, false});
  state.scheduler.cancel(id);
  state.retire();
}

bool Engine::has_work() const { return !state_->ready.empty() || state_->scheduler.has_work(); }

std::vector<StepOutput> Engine::step() {
  State& state = *state_;
  std::vector<StepOutput> outputs = std::exchange(state.ready, {});
  const std::span<const ScheduledChunk> batch = state.scheduler.next_batch();
  if (batch.empty()) {
    return outputs;
  }
  const std::span<const std::int32_t> drawn = state.runner.run(batch, [&](const ScheduledChunk& chunk, auto& adjustments) {
    return state.active.at(chunk.sequence->id).next(chunk.sequence->tokens, adjustments);
  });
  auto token = drawn.begin();
  for (const ScheduledChunk& chunk : batch) {
    if (chunk.wants_logits) {
      outputs.push_back(state.advance(chunk, *token++));
    } else {
      state.scheduler.commit(chunk, -1);
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
  status.preemptions = state.scheduler.num_preemptions();
  return status;
}

const Model& Engine::model() const { return *state_->parts.model; }
Model& Engine::model() { return *state_->parts.model; }
Device& Engine::device() { return *state_->parts.device; }
const DeviceInfo& Engine::device_info() const { return state_->parts.device->info(); }
KvCache& Engine::cache() { return *state_->parts.cache; }
std::shared_ptr<const Tokenizer> Engine::tokenizer() const { return state_->parts.tokenizer; }
std::int32_t Engine::context_length() const { return state_->scheduler.limits().context_length; }
int Engine::threads() const { return state_->parts.pool->num_threads(); }

const GgufFile& Engine::file() const {
  check(state_->parts.file != nullptr, "the model comes from no file");
  return *state_->parts.file;
}

}  // namespace rocmforge
