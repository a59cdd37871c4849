#include "schedule/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace rocmforge {

namespace {

/// The number of prompts that may run while earlier prompts need more than one step, so that short prompts are not delayed.
constexpr std::int32_t max_started_prompts = 4;

/// The order in which sequences run.
auto rank(const Sequence& sequence) { return std::tuple(sequence.request.priority, sequence.turn, sequence.arrival); }

/// Lists are sorted by rank; no two sequences have the same rank.
template <class List>
auto place_of(List& list, const Sequence& sequence) {
  return std::ranges::lower_bound(list, rank(sequence), {}, [](const auto& other) { return rank(*other); });
}

/// If memory runs out, the list stays as it is.
template <class List>
void insert_by_rank(List& list, Sequence& sequence) {
  list.insert(place_of(list, sequence), &sequence);
}

template <class List>
void erase_from(List& list, const Sequence& sequence) {
  if (const auto found = place_of(list, sequence); found != list.end() && *found == &sequence) {
    list.erase(found);
  }
}

/// Chooses the running sequence that is preempted.
class Preemption {
 public:
  explicit Preemption(std::span<Sequence* const> running) : running_(running) {
    for (const Sequence* sequence : running) {
      most_ = std::max(most_, ++counts_[sequence->request.client]);
    }
  }

  /// The sequence to preempt for `sequence`; null if there is none. It is the last running one if its priority is worse.
  /// Otherwise it is the last one of the same priority whose client has at least twice as many as the client of `sequence`
  /// would then have. So a few answers need not wait for many of another client, and clients with about as many do not
  /// preempt each other.
  [[nodiscard]] const Sequence* to(const Sequence& sequence) const {
    if (!running_.empty() && running_.back()->request.priority > sequence.request.priority) {
      return running_.back();
    }
    const auto own = counts_.find(sequence.request.client);
    const int wanted = own == counts_.end() ? 1 : own->second + 1;
    if (2 * wanted > most_) {
      return nullptr;
    }
    for (std::size_t i = running_.size(); i-- > 0;) {
      const Request& request = running_[i]->request;
      if (request.priority == sequence.request.priority && counts_.at(request.client) >= 2 * wanted) {
        return running_[i];
      }
    }
    return nullptr;
  }

 private:
  std::span<Sequence* const> running_;
  std::map<std::uint64_t, int> counts_;  ///< by client
  int most_ = 0;                         ///< of one client
};

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, SequenceCache& cache) : limits_(limits), cache_(&cache) {
  check(limits.max_batch_tokens > 0 && limits.max_sequences > 0 && limits.context_length > 0 && limits.max_logit_rows > 0,
        "every limit is at least 1");
  check(limits.max_prefill_tokens >= 0 && limits.max_waiting >= -1, "limits are not negative");
  limits_.context_length = std::min(limits.context_length, cache.max_tokens());
  check(!limits.whole_prompts || limits_.context_length <= limits.max_batch_tokens, "a step holds the longest prompt");
  // So every running sequence can decode in every step, and one more still has a token and a row of logits.
  limits_.max_sequences =
      std::min({limits.max_sequences, limits.max_batch_tokens, limits.max_logit_rows, cache.max_sequences()});
  running_.reserve(static_cast<std::size_t>(limits_.max_sequences));  // so that admitting never fails for want of memory
}

RequestRefusal Scheduler::refusal(const Request& request, std::int32_t count) const {
  const auto invalid = [](std::string reason) { return RequestRefusal{RequestError::invalid, std::move(reason)}; };
  if (request.prompt.empty()) {
    return invalid("the prompt is empty");
  }
  if (request.prompt.size() > static_cast<std::size_t>(limits_.context_length)) {
    return {RequestError::too_long,
            fmt::format("the prompt has {} tokens, the context holds {}", request.prompt.size(), limits_.context_length)};
  }
  if (request.max_tokens < -1) {
    return invalid(fmt::format("max_tokens is {}, must be -1 (no limit), 0 (the prompt alone) or more", request.max_tokens));
  }
  if (request.keep < 0 || (request.context_policy == ContextPolicy::shift && request.keep >= limits_.context_length)) {
    return invalid(fmt::format("keep is {}, must be at least 0 and below the context of {} tokens", request.keep,
                               limits_.context_length));
  }
  for (const auto& [parameter, value] :
       {std::pair("logprobs", request.logprobs), std::pair("prompt_logprobs", request.prompt_logprobs)}) {
    if (value < -1 || value > max_logprobs) {
      return invalid(fmt::format("{} is {}, must be -1 (none) or 0 to {}", parameter, value, max_logprobs));
    }
  }
  if (request.embedding &&
      (count != 1 || request.constraint || request.logprobs >= 0 || request.logits || request.prompt_logprobs >= 0)) {
    return invalid("an embedding is one vector: no further answers, log probabilities or constraint");
  }
  if (std::string reason = span_refusal(request); !reason.empty()) {
    return invalid(std::move(reason));
  }
  if (std::string reason = request.sampling.validate(); !reason.empty()) {
    return invalid(std::move(reason));
  }
  const std::int64_t free_places = std::int64_t{limits_.max_sequences} + limits_.max_waiting - num_waiting() - num_running();
  if (limits_.max_waiting >= 0 && count > free_places) {
    return {RequestError::queue_full, fmt::format("the queue is full: {} requests run, {} wait and at most {} may",
                                                  num_running(), num_waiting(), limits_.max_waiting)};
  }
  return {};
}

std::string Scheduler::span_refusal(const Request& request) const {
  if (request.spans.empty()) {
    return {};
  }
  if (request.context_policy == ContextPolicy::shift || request.prompt_logprobs >= 0 || request.embedding) {
    return "a prompt with images can't be shifted, nor have log probabilities or an embedding";
  }
  // Besides a prompt every other sequence may decode a token in the step.
  const std::int32_t most = std::min(limits_.max_batch_tokens - limits_.max_sequences + 1, cache_->max_span());
  std::int64_t last_end = 0;
  for (const TokenSpan& span : request.spans) {
    const std::int64_t end = std::int64_t{span.first} + span.count;
    if (span.count <= 0 || span.first < last_end || end >= std::ssize(request.prompt)) {
      return fmt::format("an image has tokens {} to {} of {}: images ascend, and a token of text is behind the last one",
                         span.first, end - 1, request.prompt.size());
    }
    if (span.count > most) {
      return fmt::format("an image has {} tokens, a step has room for {}", span.count, most);
    }
    last_end = end;
  }
  return {};
}

void Scheduler::submit(Sequence& sequence, Sequence* leader) {
  if (leader != nullptr) {
    if (leader->shared_prompt == nullptr) {
      leader->shared_prompt = std::make_shared<SharedPrompt>(SharedPrompt{leader});
    }
    sequence.shared_prompt = leader->shared_prompt;
    leader->cache.awaited_tokens = leader->prompt_tokens;
  }
  sequence.turn = order_.enter(sequence.request.priority, sequence.request.client);
  sequence.arrival = ++num_submitted_;
  try {
    insert_by_rank(waiting_, sequence);
  } catch (const std::bad_alloc&) {
    sequence.arrival = 0;
    order_.leave(sequence.request.priority, sequence.request.client);
    throw;
  }
}

std::span<const ScheduledChunk> Scheduler::next_batch() {
  batch_.clear();
  tokens_left_ = limits_.max_batch_tokens;
  rows_left_ = limits_.max_logit_rows;
  const std::int64_t preemptions_before = num_preemptions_;
  make_room();
  if (num_preemptions_ == preemptions_before) {
    admit_waiting();  // otherwise the preempted sequence would be admitted and preempted again
  }
  if (limits_.whole_prompts) {
    schedule_whole_prompts();
  } else {
    schedule_decodes();
    schedule_prompts();
  }
  check(!batch_.empty() || !can_run(), "work is left but nothing can be scheduled");
  group_by_adapters();
  return batch_;
}

/// Rows with the same adapters are neighbours, so that each adapter's products are computed at once.
void Scheduler::group_by_adapters() {
  const auto adapters_of = [](const ScheduledChunk& chunk) -> const std::vector<AdapterScale>& {
    static const std::vector<AdapterScale> none;
    const auto& adapters = chunk.sequence->request.adapters;
    return adapters ? *adapters : none;
  };
  if (std::ranges::any_of(batch_, [&](const ScheduledChunk& chunk) { return !adapters_of(chunk).empty(); })) {
    std::ranges::stable_sort(batch_, {}, adapters_of);
  }
}

bool Scheduler::can_run_ahead(const ScheduledChunk& chunk) const {
  if (chunk.sequence == nullptr || chunk.draws != 1 || chunk.scored().count() > 0) {
    return false;
  }
  const Sequence& sequence = *chunk.sequence;
  const Request& request = sequence.request;
  const bool draws_freely = request.constraint == nullptr && !request.wants_raw_logits() && !request.sampling.looks_back();
  const bool goes_on = request.max_tokens < 0 || sequence.generated() + chunk.draws < request.max_tokens;
  return draws_freely && goes_on && sequence.length() + chunk.draws <= limits_.context_length &&
         sequence.cache.owns_from(sequence.length());
}

std::vector<ScheduledChunk> Scheduler::next_ahead(std::span<const ScheduledChunk> computing) {
  std::vector<ScheduledChunk> ahead;
  const bool all_run = waiting_.empty() && computing.size() == running_.size();
  if (!all_run || !std::ranges::all_of(computing, [this](const ScheduledChunk& chunk) { return can_run_ahead(chunk); })) {
    return ahead;
  }
  for (const ScheduledChunk& chunk : computing) {
    CachedSequence& cached = chunk.sequence->cache;
    if (!SequenceCache::reserve_free(cached, chunk.sequence->length() + chunk.draws)) {
      return {};  // next_batch finds blocks, and uses those allocated here
    }
    ahead.push_back({.sequence = chunk.sequence,
                     .first = chunk.first + chunk.count,
                     .count = chunk.draws,
                     .draws = chunk.draws,
                     .completes = true,
                     .state = cached.state.after(chunk.state)});
  }
  return ahead;
}

void Scheduler::make_room() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    while (i < running_.size() && !cache_->reserve(running_[i]->cache, running_[i]->length())) {
      preempt_last();
    }
  }
}

void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  victim.set_drafts({});
  insert_by_rank(waiting_, victim);
  running_.pop_back();
  cache_->release(victim.cache, victim.prefix_key());  // it finds the blocks again if no other sequence needed them
  victim.undone_tokens = 0;
  victim.phase = SequencePhase::waiting;
  ++num_preemptions_;
}

void Scheduler::admit_waiting() {
  const std::int64_t preemptions_before = num_preemptions_;
  do {
    std::int64_t pending = 0;
    std::int32_t prompts = 0;
    for (const auto& sequence : running_) {
      pending += sequence->pending();
      prompts += sequence->phase == SequencePhase::prefill ? 1 : 0;
    }
    if (pending >= limits_.max_batch_tokens && prompts >= max_started_prompts) {
      return;
    }
  } while (admit() && num_preemptions_ == preemptions_before);
}

bool Scheduler::can_run() const { return !running_.empty() || first_ready() != nullptr; }

Sequence* Scheduler::first_ready() const {
  const auto found = std::ranges::find_if(waiting_, [](const Sequence* sequence) { return !sequence->awaits(); });
  return found != waiting_.end() ? *found : nullptr;
}

void Scheduler::adopt_computed(Sequence& sequence) {
  cache_->release(sequence.cache);  // an earlier attempt may have run out of memory
  if (sequence.wants_prompt_rows()) {
    return;
  }
  const Sequence* leader = sequence.leader();
  const bool follows = leader != nullptr && leader->dropped_tokens == 0 && sequence.length() == sequence.prompt_tokens;
  if (!follows || !cache_->adopt(sequence.cache, leader->cache, sequence.prompt_tokens)) {
    cache_->adopt(sequence.cache, sequence.prefix_key());
  }
}

bool Scheduler::has_room_for(const Sequence& sequence) const {
  // One spare block for each running sequence: otherwise the new one would be preempted as soon as one of them grows.
  return num_running() < limits_.max_sequences &&
         cache_->has_room_for(sequence.cache, sequence.length(), /*spare=*/num_running());
}

bool Scheduler::still_no_room(const Sequence& sequence) const {
  return without_room_ == sequence.id && version_without_ == cache_->version();
}

bool Scheduler::admit() {
  Sequence* first = first_ready();
  if (first == nullptr) {
    return false;
  }
  const Preemption preemption(running_);
  const bool takes_place = preemption.to(*first) != nullptr;
  // The search for a prefix takes longer for longer prompts: skip it where it can't change anything.
  const bool may_fit = num_running() < limits_.max_sequences && !still_no_room(*first);
  if ((takes_place || may_fit) && start(*first)) {
    return true;
  }
  if (takes_place) {
    return false;
  }
  // A client with few running sequences may come later in the list, because it has had many turns. The search ends after
  // max_sequences entries.
  const auto count = std::min(waiting_.size(), static_cast<std::size_t>(limits_.max_sequences));
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  const auto found = std::find_if(
      waiting_.begin(), end, [&](const Sequence* other) { return !other->awaits() && preemption.to(*other) != nullptr; });
  return found != end && start(**found);
}

bool Scheduler::start(Sequence& sequence) {
  adopt_computed(sequence);
  while (!has_room_for(sequence)) {
    const Sequence* maker = Preemption(running_).to(sequence);
    if (maker == nullptr) {
      cache_->release(sequence.cache);
      without_room_ = sequence.id;
      version_without_ = cache_->version();
      return false;
    }
    if (maker->request.priority == sequence.request.priority) {  // moved to the end of the list and preempted
      const auto found = place_of(running_, *maker);
      std::rotate(found, found + 1, running_.end());
      Sequence& last =
          *running_.back();  // its new turn is after waiting ones; its old one would keep other clients from preempting too
      order_.leave(last.request.priority, last.request.client);
      last.turn = order_.enter(last.request.priority, last.request.client);
    }
    preempt_last();
  }
  const bool has_blocks = sequence.wants_prompt_rows()
                              ? cache_->reserve(sequence.cache, sequence.length())
                              : cache_->start(sequence.cache, sequence.length(), sequence.prefix_key());
  check(has_blocks, "an admitted sequence gets its blocks");
  if (!std::exchange(sequence.admitted, true)) {
    // A sequence that waits for its leader's prompt may be earlier in the list. Then the turn of `sequence` has not begun.
    const std::int32_t priority = sequence.request.priority;
    const auto first =
        std::ranges::find_if(waiting_, [&](const auto& other) { return other->request.priority == priority; });
    order_.started(priority, *first == &sequence ? sequence.turn : (*first)->turn - 1);
    sequence.prefix_hits = sequence.cache.computed_tokens;
    sequence.host_hits = sequence.cache.restored_tokens;
    if (cache_->prefixes() != nullptr) {
      prefix_queries_ += sequence.prompt_tokens;
      prefix_hits_ += sequence.prefix_hits;
      host_hits_ += sequence.host_hits;
    }
  }
  sequence.update_phase();
  insert_by_rank(running_, sequence);
  erase_from(waiting_, sequence);
  return true;
}

void Scheduler::schedule_whole_prompts() {
  for (Sequence* sequence : running_) {
    if (sequence->pending() <= tokens_left_) {
      schedule(*sequence, sequence->pending());
    }
  }
}

// A state has no way back over rejected drafts, so the tokens before them are computed once more. Every sequence must be
// able to do so in one step.
std::int32_t Scheduler::max_drafts(const Sequence& sequence) const {
  const bool waits_for_draw = sequence.request.sampling.learns();
  if (sequence.phase != SequencePhase::decode || !sequence.draws() || waits_for_draw) {
    return 0;
  }
  std::int32_t most = limits_.context_length - sequence.length();
  if (sequence.request.max_tokens >= 0) {
    most = std::min(most, sequence.request.max_tokens - sequence.generated() - 1);
  }
  if (cache_->slots() != nullptr) {
    most = std::min(most, limits_.max_batch_tokens / limits_.max_sequences - sequence.pending());
  }
  return std::max(most, 0);
}

void Scheduler::schedule_decodes() {
  std::int32_t tokens = 0;
  std::int32_t decodes = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->phase == SequencePhase::decode) {
      tokens += sequence->pending();
      ++decodes;
    }
  }
  std::int32_t drafts_left = std::min(tokens_left_ - tokens, rows_left_ - decodes) / 2;
  for (Sequence* sequence : running_) {
    if (sequence->phase == SequencePhase::decode) {
      drafts_left -= schedule_decode(*sequence, drafts_left);
    }
  }
}

std::int32_t Scheduler::schedule_decode(Sequence& sequence, std::int32_t most) {
  schedule(sequence, sequence.pending());
  if (batch_.empty() || batch_.back().sequence != &sequence || batch_.back().draws == 0) {
    return 0;
  }
  const std::int32_t wanted = std::min({sequence.drafts, most, max_drafts(sequence)});
  const std::int32_t drafts = cache_->extend_for_drafts(sequence.cache, sequence.length(), wanted);
  batch_.back().count += drafts;
  batch_.back().draws += drafts;
  tokens_left_ -= drafts;
  rows_left_ -= drafts;
  return drafts;
}

void Scheduler::schedule_prompts() {
  const auto is_prompt = [](const auto& sequence) { return sequence->phase == SequencePhase::prefill; };
  const auto first = std::ranges::find_if(running_, is_prompt);
  if (first == running_.end()) {
    return;
  }
  // The first prompt always goes on, by a whole span if one begins there.
  const std::int32_t least = (*first)->cache.least_next() - (*first)->cache.computed_tokens;
  std::int32_t left = tokens_left_;
  if (!batch_.empty() && limits_.max_prefill_tokens > 0) {
    left = std::min(left, std::max(limits_.max_prefill_tokens, least));
  }
  std::vector<Sequence*> longer;
  std::int32_t left_for_short = left / 2;
  if ((*first)->pending() > left_for_short) {
    left_for_short = std::min(left_for_short, left - least);
  }
  for (auto next = first; next != running_.end(); ++next) {
    Sequence& sequence = **next;
    if (!is_prompt(*next)) {
      continue;
    }
    const bool same_priority = sequence.request.priority == (*first)->request.priority;
    if (same_priority && sequence.pending() <= left_for_short) {
      const std::int32_t count = schedule(sequence, sequence.pending());
      left_for_short -= count;
      left -= count;
    } else {
      longer.push_back(&sequence);
    }
  }
  for (Sequence* sequence : longer) {
    left -= schedule(*sequence, std::min(sequence->pending(), left));
  }
}

std::int32_t Scheduler::schedule(Sequence& sequence, std::int32_t count) {
  ScheduledChunk chunk;
  chunk.sequence = &sequence;
  chunk.first = sequence.cache.computed_tokens;
  chunk.count = count;
  if (sequence.request.prompt_logprobs >= 0) {
    const std::int64_t seen = std::max(0, sequence.seen_tokens - chunk.first);
    chunk.count = static_cast<std::int32_t>(std::min<std::int64_t>(count, seen + rows_left_));
  } else if (sequence.draws() && rows_left_ == 0 && count == sequence.pending()) {
    --chunk.count;
  }
  const auto without_part_of_a_span = [&](std::int32_t tokens) {
    return cut_before(sequence.cache.spans, chunk.first + tokens) - chunk.first;
  };
  chunk.count = without_part_of_a_span(chunk.count);
  if (chunk.count <= 0) {
    return 0;
  }
  chunk.count = without_part_of_a_span(cache_->extend(sequence.cache, chunk.count));
  check(chunk.count > 0, "a sequence that runs has blocks for its next tokens");
  chunk.completes = chunk.count == sequence.pending();
  chunk.draws = chunk.completes && sequence.draws() ? 1 : 0;
  // A decode keeps no state, not even when it computes tokens behind rejected drafts once more.
  const std::int32_t to_keep_in = sequence.phase == SequencePhase::decode ? 1 : chunk.count;
  chunk.state = cache_->next_state(sequence.cache, to_keep_in, sequence.length());
  batch_.push_back(chunk);
  tokens_left_ -= chunk.count;
  rows_left_ -= chunk.scored().count() + chunk.draws;
  return chunk.count;
}

void Scheduler::commit(const ScheduledChunk& chunk, std::span<const std::int32_t> tokens) {
  Sequence& sequence = *chunk.sequence;
  if (sequence.finish != FinishReason::none) {
    return;
  }
  const std::int32_t computed = chunk.count - chunk.drafts();
  check(chunk.first == sequence.cache.computed_tokens && computed <= sequence.pending() && chunk.drafts() <= sequence.drafts,
        "the chunk is not the next one");
  check(std::ssize(tokens) <= chunk.draws, "tokens come only from the last positions");
  const std::int32_t accepted = std::max(static_cast<std::int32_t>(tokens.size()) - 1, 0);
  const std::int32_t rejected = chunk.drafts() - accepted;
  const auto drafts = std::span<const std::int32_t>(sequence.tokens).subspan(static_cast<std::size_t>(sequence.length()));
  check(
      std::ranges::equal(tokens.first(static_cast<std::size_t>(accepted)), drafts.first(static_cast<std::size_t>(accepted))),
      "all tokens but the last one are accepted drafts");
  sequence.set_drafts({});
  sequence.tokens.insert(sequence.tokens.end(), tokens.begin(), tokens.end());
  const bool loses_state = rejected > 0 && cache_->slots() != nullptr;
  if (!loses_state) {
    cache_->commit(sequence.cache, computed + accepted, chunk.state, sequence.prefix_key());
  }
  if (rejected > 0) {
    cache_->drop_behind(sequence.cache, sequence.length());
  }
  sequence.undone_tokens = loses_state ? sequence.pending() - 1 : 0;
  sequence.seen_tokens = std::max(sequence.seen_tokens, sequence.cache.computed_tokens);
  sequence.update_phase();
}

void Scheduler::shift(Sequence& sequence) {
  const std::int32_t keep = std::min(sequence.request.keep, sequence.prompt_tokens);
  const std::int32_t dropped = (sequence.length() - keep) / 2;
  check(dropped > 0 && sequence.drafts == 0, "a shift needs at least two tokens after those it keeps, and no drafts");
  sequence.drop(keep, dropped);
  // Whole blocks of the kept start are unchanged.
  const std::int32_t kept = std::min(keep / cache_->block_tokens() * cache_->block_tokens(), sequence.cache.computed_tokens);
  cache_->truncate(sequence.cache, cache_->truncate_refusal(sequence.cache, kept).empty() ? kept : 0);
  sequence.undone_tokens = 0;
  sequence.update_phase();
}

void Scheduler::finish(Sequence& sequence, FinishReason reason) {
  check(sequence.finish == FinishReason::none && reason != FinishReason::none, "a sequence finishes once");
  cache_->release(sequence.cache, sequence.prefix_key());
  sequence.set_drafts({});
  sequence.finish = reason;
  if (sequence.shared_prompt != nullptr && sequence.shared_prompt->leader == &sequence) {
    sequence.shared_prompt->leader = nullptr;
  }
  order_.leave(sequence.request.priority, sequence.request.client);
  erase_from(running_, sequence);
  erase_from(waiting_, sequence);
}

}  // namespace rocmforge
