#include "cluster/replica.h"

#include <stdexcept>

namespace rocmforge::cluster {

Replica::Replica(const ReplicaSize& size, const StepCost& cost)
    : cost_(cost),
      cache_({.blocks = size.cache_tokens / size.block_tokens, .block_tokens = size.block_tokens, .prefixes = true}),
      scheduler_(size.limits, cache_) {}

void Replica::submit(RequestId id, TraceRequest request) { arrived_.emplace_back(id, std::move(request)); }

void Replica::take_arrived() {
  for (auto& [id, arrived] : arrived_) {
    Request request;
    request.prompt = std::move(arrived.prompt);
    request.max_tokens = arrived.answer_tokens;
    request.priority = arrived.priority;
    if (const RequestRefusal refusal = scheduler_.refusal(request)) {
      throw std::invalid_argument(refusal.message);
    }
    const auto sequence = sequences_.emplace(id, std::make_unique<Sequence>(id, std::move(request), cache_)).first;
    scheduler_.submit(*sequence->second);
  }
  arrived_.clear();
}

double Replica::begin_step() {
  take_arrived();
  const std::span<const ScheduledChunk> batch = scheduler_.next_batch();
  step_.assign(batch.begin(), batch.end());
  cache_.copies_made();
  double seconds = cost_.step;
  for (const ScheduledChunk& chunk : step_) {
    const bool is_prompt = chunk.sequence->phase == SequencePhase::prefill;
    seconds += is_prompt ? chunk.count * cost_.prompt_token : 0.0;
    seconds += chunk.draws * cost_.sequence + chunk.first * cost_.cached_token;
  }
  return seconds;
}

ReplicaEvents Replica::end_step() {
  ReplicaEvents events;
  for (const ScheduledChunk& chunk : step_) {
    Sequence& sequence = *chunk.sequence;
    const auto token = static_cast<std::int32_t>((sequence.id * 31 + static_cast<RequestId>(sequence.length())) % 32000);
    scheduler_.commit(chunk, std::span(&token, static_cast<std::size_t>(chunk.draws)));
    if (chunk.draws == 0) {
      continue;
    }
    if (sequence.generated() == 1) {
      events.first_tokens.push_back(sequence.id);
    }
    if (sequence.generated() == sequence.request.max_tokens) {
      scheduler_.finish(sequence, FinishReason::length);
      events.answers.push_back({sequence.id, std::move(sequence.tokens)});
      sequences_.erase(sequence.id);
    }
  }
  step_.clear();
  return events;
}

std::int32_t Replica::available_blocks() const { return cache_.blocks().num_free() + cache_.prefixes()->num_evictable(); }

}  // namespace rocmforge::cluster
