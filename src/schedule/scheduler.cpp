#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {

Sequence::Sequence(RequestId id_, Request request_, BlockAllocator& allocator, std::int32_t block_tokens)
    : id(id_),
      request(std::move(request_)),
      tokens(request.prompt),
      prompt_tokens(static_cast<std::int32_t>(tokens.size())),
      pages(allocator, block_tokens) {}

Scheduler::Scheduler(const SchedulerLimits& limits, BlockAllocator& allocator, PrefixCache* prefix_cache,
                     std::int32_t block_tokens)
    : limits_(limits), allocator_(&allocator), prefix_cache_(prefix_cache), block_tokens_(block_tokens) {
  check(limits.max_batch_tokens > 0 && limits.max_sequences > 0 && limits.context_length > 0, "every limit is at least 1");
  check(allocator.num_blocks() > 0 && block_tokens > 0, "a scheduler needs a cache");
  const std::int64_t cache_tokens = std::int64_t{allocator.num_blocks()} * block_tokens;
  limits_.context_length = static_cast<std::int32_t>(std::min<std::int64_t>(limits.context_length, cache_tokens));
  // Every running sequence can then decode in every step.
  limits_.max_sequences = std::min(limits.max_sequences, limits.max_batch_tokens);
}

std::string Scheduler::submit(RequestId id, Request request) {
  if (request.prompt.empty()) {
    return "the prompt is empty";
  }
  if (request.prompt.size() > static_cast<std::size_t>(limits_.context_length)) {
    return fmt::format("the prompt has {} tokens, the context holds {}", request.prompt.size(), limits_.context_length);
  }
  if (request.max_tokens != -1 && request.max_tokens < 1) {
    return fmt::format("max_tokens is {}, must be -1 (no limit) or at least 1", request.max_tokens);
  }
  if (request.keep < 0 || (request.context_policy == ContextPolicy::shift && request.keep >= limits_.context_length)) {
    return fmt::format("keep is {}, must be at least 0 and below the context of {} tokens", request.keep,
                       limits_.context_length);
  }
  if (std::string reason = request.sampling.validate(); !reason.empty()) {
    return reason;
  }
  waiting_.push_back(std::make_unique<Sequence>(id, std::move(request), *allocator_, block_tokens_));
  return {};
}

std::span<const ScheduledChunk> Scheduler::next_batch() {
  batch_.clear();
  budget_ = limits_.max_batch_tokens;
  const std::int64_t preemptions_before = num_preemptions_;
  make_room();
  for (const auto& sequence : running_) {
    if (sequence->pending() == 1) {
      schedule(*sequence, 1);
    }
  }
  for (const auto& sequence : running_) {
    if (sequence->pending() > 1 && budget_ > 0) {
      schedule(*sequence, std::min(sequence->pending(), budget_));
    }
  }
  // What has just been preempted would come straight back and be preempted again.
  while (budget_ > 0 && num_preemptions_ == preemptions_before && admit()) {
    schedule(*running_.back(), std::min(running_.back()->pending(), budget_));
  }
  check(!batch_.empty() || !has_work(), "work is left but nothing can be scheduled");
  return batch_;
}

void Scheduler::schedule(Sequence& sequence, std::int32_t count) {
  batch_.push_back({&sequence, sequence.cached_tokens, count, count == sequence.pending()});
  budget_ -= count;
}

// Runs before anything is put into the batch, so a victim is never part of it.
void Scheduler::make_room() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    while (i < running_.size() && !reserve(*running_[i])) {
      preempt_youngest();
    }
  }
}

bool Scheduler::reserve(Sequence& sequence) {
  const std::int32_t needed = sequence.pages.blocks_needed(sequence.length());
  if (prefix_cache_ != nullptr && !allocator_->can_allocate(needed)) {
    prefix_cache_->evict(needed);
  }
  return sequence.pages.reserve(sequence.length());
}

void Scheduler::preempt_youngest() {
  std::unique_ptr<Sequence> victim = std::move(running_.back());
  running_.pop_back();
  remember(*victim);  // as long as nobody needs the blocks, it finds them again
  victim->pages.clear();
  victim->cached_tokens = 0;
  waiting_.push_front(std::move(victim));
  ++num_preemptions_;
}

bool Scheduler::admit() {
  if (waiting_.empty() || num_running() >= limits_.max_sequences) {
    return false;
  }
  Sequence& sequence = *waiting_.front();
  if (prefix_cache_ != nullptr) {
    sequence.pages.adopt(prefix_cache_->match(sequence.tokens));
  }
  const std::int32_t hits = sequence.pages.capacity_tokens();
  // One block to spare for each running sequence: else the newcomer would be preempted as soon as one of them grows.
  const std::int32_t wanted = sequence.pages.blocks_needed(sequence.length()) + num_running();
  if (!allocator_->can_allocate(wanted)) {
    const std::int32_t evictable = prefix_cache_ != nullptr ? prefix_cache_->num_evictable() : 0;
    if (wanted > allocator_->num_free() + evictable) {
      sequence.pages.clear();
      return false;
    }
  }
  check(reserve(sequence), "an admitted sequence gets its blocks");
  sequence.cached_tokens = hits;
  if (!std::exchange(sequence.admitted, true)) {
    sequence.prefix_hits = hits;
  }
  running_.push_back(std::move(waiting_.front()));
  waiting_.pop_front();
  return true;
}

void Scheduler::commit(const ScheduledChunk& chunk, std::int32_t token) {
  Sequence& sequence = *chunk.sequence;
  if (sequence.finish != FinishReason::none) {
    return;
  }
  check(chunk.first == sequence.cached_tokens && chunk.count <= sequence.pending(), "the chunk is not the next one");
  check(token < 0 || chunk.wants_logits, "a token comes only from the last position");
  sequence.cached_tokens += chunk.count;
  if (chunk.count > 1) {
    remember(sequence);  // prompts that start alike find the blocks while this one still runs
  }
  if (token >= 0) {
    sequence.tokens.push_back(token);
  }
}

void Scheduler::remember(const Sequence& sequence) {
  if (prefix_cache_ != nullptr) {
    const std::span<const std::int32_t> tokens = sequence.tokens;
    prefix_cache_->insert(tokens.first(static_cast<std::size_t>(sequence.cached_tokens)), sequence.pages.blocks());
  }
}

void Scheduler::shift(Sequence& sequence) {
  const std::int32_t keep = std::min(sequence.request.keep, sequence.prompt_tokens);
  const std::int32_t dropped = (sequence.length() - keep) / 2;
  check(dropped > 0, "a shift needs at least two tokens after those it keeps");
  const auto first = sequence.tokens.begin() + keep;
  sequence.tokens.erase(first, first + dropped);
  sequence.dropped_tokens += dropped;
  // Whole blocks of the kept start stay; the next one may be shared, so it is not written again.
  sequence.cached_tokens = std::min(sequence.cached_tokens, keep / block_tokens_ * block_tokens_);
  sequence.pages.truncate(sequence.cached_tokens);
}

void Scheduler::finish(Sequence& sequence, FinishReason reason) {
  check(sequence.finish == FinishReason::none && reason != FinishReason::none, "a sequence finishes once");
  remember(sequence);
  sequence.pages.clear();
  sequence.finish = reason;
  const auto take_from = [&](auto& list) {
    const auto found = std::ranges::find(list, &sequence, &std::unique_ptr<Sequence>::get);
    if (found != list.end()) {
      finished_.push_back(std::move(*found));
      list.erase(found);
    }
  };
  take_from(running_);
  take_from(waiting_);
}

void Scheduler::cancel(RequestId id) {
  const auto cancel_in = [&](const auto& list) {
    const auto found = std::ranges::find(list, id, &Sequence::id);
    if (found != list.end()) {
      finish(**found, FinishReason::cancelled);
    }
  };
  cancel_in(running_);
  cancel_in(waiting_);
}

std::vector<std::unique_ptr<Sequence>> Scheduler::take_finished() { return std::exchange(finished_, {}); }

}  // namespace rocmforge
