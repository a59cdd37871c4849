#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine_state.h"

namespace rocmforge {
namespace {

/// Steps with fewer prompt tokens are not used to estimate the time of prompts, and the limit of time never allows fewer.
constexpr std::int32_t least_timed_tokens = 16;

/// Pauses the mask thread at the end of a step, also after an exception, so that only the engine's thread uses answers.
class PausedAtEnd {
 public:
  explicit PausedAtEnd(MaskWork& masks) : masks_(masks) {}
  PausedAtEnd(const PausedAtEnd&) = delete;
  PausedAtEnd& operator=(const PausedAtEnd&) = delete;
  ~PausedAtEnd() { masks_.pause(); }

 private:
  MaskWork& masks_;
};

/// Ends the watch of a step, also after an exception.
class WatchedStep {
 public:
  explicit WatchedStep(StepWatch* watch) : watch_(watch) {}
  WatchedStep(const WatchedStep&) = delete;
  WatchedStep& operator=(const WatchedStep&) = delete;
  ~WatchedStep() {
    if (watch_ != nullptr) {
      watch_->end();
    }
  }

 private:
  StepWatch* watch_;
};

}  // namespace

// The work for a row grows with the vocabulary, and the step waits for all rows. So the rows are spread over all threads.
void Engine::State::find_logprobs(std::span<const ChunkResult> results) {
  scored.clear();
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].sequence != nullptr && step[i].sequence->request.logprobs >= 0 && !results[i].logits.empty()) {
      for (std::size_t draw = 0; draw < results[i].tokens.size(); ++draw) {
        logprobs[scored.size()] = {};
        scored.push_back({i, draw});
      }
    }
  }
  if (scored.empty()) {
    return;
  }
  try {
    parts.pool->parallel_for(std::ssize(scored), 1, [&](std::int64_t first, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
        try {
          const auto& [chunk, draw] = scored[i];
          const Request& request = step[chunk].sequence->request;
          const std::size_t vocab = results[chunk].logits.size() / static_cast<std::size_t>(step[chunk].draws);
          logprobs[i] = token_logprobs(results[chunk].logits.subspan(draw * vocab, vocab), results[chunk].tokens[draw],
                                       request.logprobs, request.logprobs_of);
        } catch (const std::bad_alloc&) {  // this row's sequence ends
        }
      }
    });
  } catch (const std::bad_alloc&) {  // all sequences whose row was not computed end
  }
}

std::optional<StepOutput> Engine::State::advance(std::size_t index, const ChunkResult& result) {
  const ScheduledChunk chunk = step[index];
  Running& running = Running::of(*chunk.sequence);
  running.answer.take_prompt(chunk, result, *parts.pool);
  if (!chunk.completes) {
    scheduler.commit(chunk, {});
    return std::nullopt;
  }
  StepOutput output;
  output.id = running.id;
  output.prompt_logprobs = running.answer.prompt_logprobs();
  if (chunk.draws > 0) {
    take_tokens(index, result, output);
  } else {
    scheduler.commit(chunk, {});
    running.answer.computed();
    output.embedding = running.answer.embedding();
    output.finish = running.request.embedding ? FinishReason::stop : FinishReason::length;
  }
  if (output.finish != FinishReason::none) {
    finish(running, output.finish, output);
  } else if (running.length() > scheduler.limits().context_length) {
    scheduler.shift(running);
    running.set_adapters();
    output.shifted = true;
  }
  return output;
}

std::span<TokenLogprobs> Engine::State::logprobs_of(std::size_t index) {
  const auto first = std::ranges::lower_bound(scored, index, {}, &ScoredDraw::chunk);
  const auto end = std::ranges::lower_bound(scored, index + 1, {}, &ScoredDraw::chunk);
  return std::span(logprobs).subspan(static_cast<std::size_t>(first - scored.begin()),
                                     static_cast<std::size_t>(end - first));
}

void Engine::State::take_tokens(std::size_t index, const ChunkResult& result, StepOutput& output) {
  const ScheduledChunk& chunk = step[index];
  Running& running = Running::of(*chunk.sequence);
  Answer& answer = running.answer;
  answer.computed();
  if (answer.lacks_memory()) {
    throw std::bad_alloc();
  }
  const auto fail = [&](std::string reason) {
    output.finish = FinishReason::error;
    output.text = std::move(reason);
  };
  std::size_t taken = 0;
  bool ends = false;
  if (!answer.failure().empty()) {
    output.error = RequestError::invalid;  // the constraint came with the request
    fail(answer.failure());
  } else if (result.tokens.empty()) {
    fail("no token can be drawn: all are forbidden or their logits are not numbers");
  } else {
    const std::span<TokenLogprobs> found = logprobs_of(index);
    while (taken < result.tokens.size() && !ends && answer.failure().empty()) {
      ends = take_token(running, result.tokens[taken], found.empty() ? nullptr : &found[taken], output);
      ++taken;
    }
  }
  if (running.request.logits) {
    const std::size_t vocab = result.logits.size() / static_cast<std::size_t>(chunk.draws);
    output.logits.assign(result.logits.begin(), result.logits.begin() + static_cast<std::ptrdiff_t>(taken * vocab));
  }
  answer.settle(static_cast<std::size_t>(chunk.draws), taken, result.probability);
  drafts.take(running, chunk, std::max(static_cast<std::int32_t>(taken) - 1, 0));
  scheduler.commit(chunk, result.tokens.first(taken));
  if (output.finish == FinishReason::none && !answer.failure().empty()) {
    fail(answer.failure());
  }
  if (output.finish == FinishReason::none) {
    output.finish = finish_after(running, ends);
    if (output.finish != FinishReason::none) {
      output.text += answer.finish();
      output.stop = answer.stop_string();
    }
  }
}

bool Engine::State::take_token(Running& running, std::int32_t token, TokenLogprobs* found, StepOutput& output) {
  Answer& answer = running.answer;
  output.tokens.push_back(token);
  if (running.request.deadline_is_for_first_token) {
    forget_deadline(running);
  }
  if (running.request.logprobs >= 0) {
    if (found == nullptr || found->token < 0) {
      throw std::bad_alloc();
    }
    output.logprobs.push_back(std::move(*found));
  }
  const bool may_end = !running.request.ignore_eos || running.request.constraint != nullptr;
  const bool ends = (may_end && parts.tokenizer != nullptr && parts.tokenizer->is_end_of_generation(token)) ||
                    std::ranges::find(running.request.stop_tokens, token) != running.request.stop_tokens.end();
  if (!ends) {
    output.text += answer.add(token);
    if (answer.lacks_memory()) {
      throw std::bad_alloc();
    }
  }
  output.by_token = ends;
  return ends || answer.stopped();
}

FinishReason Engine::State::finish_after(const Sequence& sequence, bool stopped) const {
  if (stopped) {
    return FinishReason::stop;
  }
  if (sequence.generated() == sequence.request.max_tokens) {
    return FinishReason::length;
  }
  // The newest token enters the cache only when another one follows, so a full context still allows one more token.
  if (sequence.length() > scheduler.limits().context_length && sequence.request.context_policy == ContextPolicy::stop) {
    return FinishReason::context;
  }
  return FinishReason::none;
}

std::span<const ChunkResult> Engine::State::compute() {
  for (;;) {
    try {
      take_step();
      if (step.empty()) {
        return {};
      }
      const std::span<const ChunkResult> results = runner.results(step, !ahead.empty());
      recovery.succeeded();
      if (ahead.empty()) {
        drafts.take_step(runner.newest(), step, results);
      }
      drawn.erase(drawn.begin(), drawn.end() - static_cast<std::ptrdiff_t>(ahead.size()));
      return results;
    } catch (const std::bad_alloc&) {
      if (!ahead.empty()) {  // reading the tokens of the earlier step allocates nothing
        throw;
      }
      recover();
    }
  }
}

void Engine::State::recover() {
  masks.pause();
  parts.model->wait();  // part of the step may be running
  draw_again(0);
  const std::optional<RequestId> blamed = recovery.failed(step);
  if (!blamed) {
    return;
  }
  if (*blamed == 0 && !scheduler.has_work()) {
    throw std::bad_alloc();
  }
  // If the sequence at fault is not known, the last one ends.
  Running& ends = *blamed != 0                  ? requests.at(*blamed)
                  : scheduler.num_running() > 0 ? Running::of(*scheduler.running().back())
                                                : Running::of(*scheduler.waiting().back());
  ready.push_back(without_memory(ends));
}

void Engine::State::draw_again(std::size_t first) {
  for (std::size_t i = first; i < drawn.size(); ++i) {
    if (drawn[i] != nullptr) {
      drawn[i]->answer.draw_again();
    }
  }
  drawn.resize(first);
}

StepOutput Engine::State::without_memory(Running& running) {
  StepOutput output;
  output.id = running.id;
  output.text = Answer::no_memory;
  output.error = RequestError::no_memory;
  finish(running, FinishReason::error, output);
  return output;
}

std::optional<StepOutput> Engine::State::advance_alone(std::size_t index, const ChunkResult& result) {
  try {
    return advance(index, result);
  } catch (const std::bad_alloc&) {
    return without_memory(Running::of(*step[index].sequence));
  }
}

void Engine::State::take_read_prompts() {
  while (const auto loaded = disk->take_read(/*may_wait=*/!scheduler.can_run())) {
    Running& running = requests.at(loaded->id);
    running.disk_tokens = loaded->tokens;
    running.awaits_files = false;
  }
}

void Engine::State::choose_step() {
  step.clear();
  if (disk) {
    take_read_prompts();
  }
  drafts.propose(scheduler);
  const std::span<const ScheduledChunk> batch = scheduler.next_batch();
  step.assign(batch.begin(), batch.end());
}

ModelRunner::NextDraw Engine::State::next_draw() {
  return [this](const ScheduledChunk& chunk, BatchPlan& plan) {
    Running& running = Running::of(*chunk.sequence);
    drawn.push_back(&running);
    return running.answer.next(running, parts.model->config().vocab, plan);
  };
}

// Once: a copy that is repeated may copy what came after it.
void Engine::State::copy() {
  runner.copy(cache.copies());
  cache.copies_made();
}

void Engine::State::take_step() {
  step.swap(ahead);
  ahead.clear();
  if (std::ranges::all_of(step, [](const ScheduledChunk& chunk) { return chunk.sequence == nullptr; })) {
    choose_step();
    recovery.narrow(step);
    if (step.empty()) {
      return;
    }
    for (const ScheduledChunk& chunk : step) {
      Running::of(*chunk.sequence).answer.started();
    }
    leave_out_late();
    drawn.clear();
    watch_work(step);
    const auto to_or_from_host = [](const BlockCopy& copy) { return copy.kind != CopyKind::on_device; };
    step_copies = std::ranges::any_of(cache.copies(), to_or_from_host);
    copy();
    runner.start(step, next_draw());
  }
  if (parts.model->runs_ahead()) {
    start_ahead();
  }
}

void Engine::State::start_ahead() {
  const std::size_t drawn_before = drawn.size();
  try {
    if (drafts.are_likely(step, scheduler)) {
      return;
    }
    ahead = scheduler.next_ahead(step);
    if (!ahead.empty()) {
      drafts.follow(runner.newest(), step);
      runner.start_ahead(ahead, next_draw());
    }
  } catch (const std::bad_alloc&) {  // the step is started later, when the running one has been read
    parts.model->wait();
    ahead.clear();
    draw_again(drawn_before);
  }
}

void Engine::State::leave_out_late() {
  constrained.clear();
  for (const ScheduledChunk& chunk : step) {
    if (chunk.draws > 0 && chunk.sequence->request.constraint != nullptr) {
      constrained.push_back(&Running::of(*chunk.sequence).answer);
    }
  }
  if (constrained.empty()) {
    return;
  }
  const std::int32_t vocab = parts.model->config().vocab;
  masks.prepare(constrained, vocab);
  std::erase_if(step, [&](const ScheduledChunk& chunk) {
    return chunk.draws > 0 && !Running::of(*chunk.sequence).answer.mask_is_settled();
  });
  if (!step.empty()) {
    masks.resume();  // while the device computes
  }
}

void Engine::State::watch_work(std::span<const ScheduledChunk> chunks) {
  if (watch == nullptr) {
    return;
  }
  StepWork work = model_work;
  for (const ScheduledChunk& chunk : chunks) {
    work.tokens += chunk.count;
    work.pairs += static_cast<double>(chunk.count) * (static_cast<double>(chunk.first) + chunk.count);
    if (chunk.sequence != nullptr) {
      work.image_flops += runner.image_flops(chunk);
    }
  }
  watch->begin(step_seconds ? std::chrono::milliseconds(static_cast<std::int64_t>(*step_seconds * 1000.0))
                            : step_time_bound(work));
}

void Engine::State::take_time(double seconds) {
  if (std::exchange(step_copies, false)) {
    return;  // the time is not that of the tokens
  }
  drafts.take_time(step, seconds);
  const std::int32_t drawn_rows = std::accumulate(
      step.begin(), step.end(), 0, [](int sum, const ScheduledChunk& chunk) { return sum + std::max(chunk.draws, 1); });
  if (max_prefill_seconds <= 0.0 || step_tokens - drawn_rows < least_timed_tokens) {
    return;
  }
  const double now = seconds / step_tokens;
  seconds_per_prompt_token = seconds_per_prompt_token > 0.0 ? 0.5 * (seconds_per_prompt_token + now) : now;
  const double fitting = std::min(max_prefill_seconds / seconds_per_prompt_token, 1e6);
  const auto count = std::max(least_timed_tokens, static_cast<std::int32_t>(fitting));
  scheduler.set_max_prefill_tokens(max_prefill_tokens > 0 ? std::min(max_prefill_tokens, count) : count);
}

std::vector<StepOutput>& Engine::step() {
  State& state = *state_;
  const PausedAtEnd paused(state.masks);
  const WatchedStep watched(state.watch.get());
  state.watch_work(state.ahead);
  state.expire();
  state.free_adapters();
  const auto started = std::chrono::steady_clock::now();
  const std::span<const ChunkResult> results = state.compute();
  const std::vector<ScheduledChunk>& step = state.step;
  if (!step.empty()) {
    ++state.steps;
    state.step_tokens = std::accumulate(step.begin(), step.end(), 0, [](int sum, const auto& c) { return sum + c.count; });
    state.step_sequences = static_cast<std::int32_t>(step.size());
    state.masks.pause();
    state.take_time(std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  }
  state.find_logprobs(results);
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i].sequence == nullptr) {
      continue;
    }
    if (std::optional<StepOutput> output = state.advance_alone(i, results[i])) {
      state.ready.push_back(*std::move(output));
    }
  }
  state.given.clear();
  state.given.swap(state.ready);
  return state.given;
}

}  // namespace rocmforge
