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

/// If memory runs out, the list and the sequence stay as they are.
template <class List>
void insert_by_rank(List& list, std::unique_ptr<Sequence>&& sequence) {
  const auto place = place_of(list, *sequence);
  *list.insert(place, nullptr) = std::move(sequence);
}

/// The sequence if it is in the list, otherwise null.
template <class List>
std::unique_ptr<Sequence> take(List& list, const Sequence& sequence) {
  const auto found = place_of(list, sequence);
  if (found == list.end() || found->get() != &sequence) {
    return nullptr;
  }
  std::unique_ptr<Sequence> taken = std::move(*found);
  list.erase(found);
  return taken;
}

/// Chooses the running sequence that is preempted.
class MakingWay {
 public:
  explicit MakingWay(std::span<const std::unique_ptr<Sequence>> running) : running_(running) {
    for (const auto& sequence : running) {
      most_ = std::max(most_, ++counts_[sequence->request.client]);
    }
  }

  /// The sequence to preempt for `sequence`; null if there is none. It is the last running one if its priority is worse.
  /// Otherwise it is the last one of the same priority whose client has at least twice as many as the client of `sequence`
  /// would then have. So a few answers need not wait for many of another client, and clients with about as many do not
  /// preempt each other.
  [[nodiscard]] const Sequence* to(const Sequence& sequence) const {
    if (!running_.empty() && running_.back()->request.priority > sequence.request.priority) {
      return running_.back().get();
    }
    const auto own = counts_.find(sequence.request.client);
    const int wanted = own == counts_.end() ? 1 : own->second + 1;
    if (2 * wanted > most_) {
      return nullptr;
    }
    for (std::size_t i = running_.size(); i-- > 0;) {
      const Request& request = running_[i]->request;
      if (request.priority == sequence.request.priority && counts_.at(request.client) >= 2 * wanted) {
        return running_[i].get();
      }
    }
    return nullptr;
  }

 private:
  std::span<const std::unique_ptr<Sequence>> running_;
  std::map<std::uint64_t, int> counts_;  ///< by client
  int most_ = 0;                         ///< of one client
};

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits, BlockAllocator& allocator, PrefixCache* prefix_cache,
                     std::int32_t block_tokens, BlockAllocator* slots, std::span<const WindowGroup> windows)
    : limits_(limits),
      allocator_(&allocator),
      prefix_cache_(prefix_cache),
      block_tokens_(block_tokens),
      slots_(slots),
      windows_(windows.begin(), windows.end()) {
  check(limits.max_batch_tokens > 0 && limits.max_sequences > 0 && limits.context_length > 0 && limits.max_logit_rows > 0,
        "every limit is at least 1");
  check(limits.max_prefill_tokens >= 0 && limits.max_waiting >= -1, "limits are not negative");
  check(allocator.num_blocks() > 0 && block_tokens > 0, "a scheduler needs a cache");
  std::int64_t cache_tokens = std::int64_t{allocator.num_blocks()} * block_tokens;
  for (const WindowGroup& window : windows) {
    check(window.window > 0 && window.allocator->num_blocks() > 0, "a group with a window has blocks");
    if (window.allocator->num_blocks() < most_blocks_seen(window.window, block_tokens)) {  // it must hold all positions then
      cache_tokens = std::min(cache_tokens, std::int64_t{window.allocator->num_blocks()} * block_tokens);
    }
  }
  limits_.context_length = static_cast<std::int32_t>(std::min<std::int64_t>(limits.context_length, cache_tokens));
  // So every running sequence can decode in every step, and one more still has a token and a row of logits.
  limits_.max_sequences = std::min({limits.max_sequences, limits.max_batch_tokens, limits.max_logit_rows});
  if (slots != nullptr) {  // a sequence that starts from a kept prefix also holds the slot of that prefix's state
    check(slots->num_blocks() > SequenceState::own_slots, "a sequence has slots of its own and one that it starts from");
    limits_.max_sequences = std::min(limits_.max_sequences, (slots->num_blocks() - 1) / SequenceState::own_slots);
  }
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

RequestRefusal Scheduler::submit(RequestId id, Request request, RequestId leader) {
  if (RequestRefusal reason = refusal(request); reason) {
    return reason;
  }
  auto sequence = std::make_unique<Sequence>(id, std::move(request), *allocator_, block_tokens_, slots_, windows_);
  const std::size_t most_finished = finished_.size() + unfinished_.size() + 1;
  if (finished_.capacity() < most_finished) {
    finished_.reserve(2 * most_finished);  // so that finishing allocates nothing
  }
  sequence->arrival = ++num_submitted_;
  sequence->leader = leader;
  if (const auto found = unfinished_.find(leader); found != unfinished_.end()) {
    found->second->has_followers = true;
  }
  const auto known = unfinished_.emplace(id, sequence.get()).first;
  const std::int32_t priority = sequence->request.priority;
  const std::uint64_t client = sequence->request.client;
  bool entered = false;
  try {
    sequence->turn = order_.enter(priority, client);
    entered = true;
    insert_by_rank(waiting_, std::move(sequence));
  } catch (const std::bad_alloc&) {
    unfinished_.erase(known);
    if (entered) {
      order_.leave(priority, client);
    }
    throw;
  }
  return {};
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
  schedule_decodes();
  schedule_prompts();
  check(!batch_.empty() || !has_work(), "work is left but nothing can be scheduled");
  return batch_;
}

bool Scheduler::can_run_ahead(const ScheduledChunk& chunk) const {
  if (chunk.sequence == nullptr || !chunk.wants_logits || chunk.scored().count() > 0) {
    return false;
  }
  const Sequence& sequence = *chunk.sequence;
  const Request& request = sequence.request;
  const bool draws_freely = request.constraint == nullptr && !request.wants_raw_logits() && !request.sampling.penalises();
  const bool goes_on = request.max_tokens < 0 || sequence.generated() + 1 < request.max_tokens;
  return draws_freely && goes_on && sequence.length() + 1 <= limits_.context_length &&
         sequence.pages.shared_blocks(sequence.length()) == 0 &&
         std::ranges::all_of(sequence.windows,
                             [&](const WindowPages& window) { return window.pages.shared_blocks(sequence.length()) == 0; });
}

std::vector<ScheduledChunk> Scheduler::next_ahead(std::span<const ScheduledChunk> computing) {
  std::vector<ScheduledChunk> ahead;
  const bool all_run = waiting_.empty() && computing.size() == running_.size();
  if (!all_run || !std::ranges::all_of(computing, [this](const ScheduledChunk& chunk) { return can_run_ahead(chunk); })) {
    return ahead;
  }
  for (const ScheduledChunk& chunk : computing) {
    Sequence& sequence = *chunk.sequence;
    const std::int32_t tokens = sequence.length() + 1;
    if (!sequence.pages.reserve(tokens) ||
        !std::ranges::all_of(sequence.windows, [&](WindowPages& window) { return window.pages.reserve(tokens); })) {
      return {};  // next_batch finds blocks, and uses those allocated here
    }
    ahead.push_back({.sequence = chunk.sequence,
                     .first = chunk.first + chunk.count,
                     .count = 1,
                     .completes = true,
                     .wants_logits = true,
                     .state = chunk.sequence->state.after(chunk.state)});
  }
  return ahead;
}

void Scheduler::make_room() {
  for (std::size_t i = 0; i < running_.size(); ++i) {
    while (i < running_.size() && !reserve(*running_[i])) {
      preempt_last();
    }
  }
}

std::int32_t Scheduler::blocks_wanted(const Sequence& sequence) const {
  return sequence.pages.blocks_needed(sequence.length()) + sequence.pages.shared_blocks(sequence.cached_tokens);
}

bool Scheduler::reserve(Sequence& sequence) {
  if (!reserve_state(sequence)) {
    return false;
  }
  if (!free_for_windows(sequence)) {
    return false;
  }
  const std::int32_t wanted = blocks_wanted(sequence);
  if (wanted > 0 && prefix_cache_ != nullptr && !allocator_->can_allocate(wanted)) {
    prefix_cache_->evict(wanted);
  }
  if (!allocator_->can_allocate(wanted)) {
    return false;
  }
  reserve_windows(sequence);
  if (wanted == 0) {
    return true;  // most steps write into an existing block
  }
  copies_.reserve(copies_.size() + static_cast<std::size_t>(wanted));  // each allocated block has its copy
  return sequence.pages.make_writable(sequence.cached_tokens, copies_) && sequence.pages.reserve(sequence.length());
}

void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  remember(victim, victim.cached_tokens);  // it finds the blocks again if no other sequence needed them
  insert_by_rank(waiting_, std::move(running_.back()));
  running_.pop_back();
  forget_computed(victim);
  ++num_preemptions_;
}

void Scheduler::admit_waiting() {
  const std::int64_t preemptions_before = num_preemptions_;
  do {
    std::int64_t pending = 0;
    std::int32_t prompts = 0;
    for (const auto& sequence : running_) {
      pending += sequence->pending();
      prompts += sequence->pending() > 1 ? 1 : 0;
    }
    if (pending >= limits_.max_batch_tokens && prompts >= max_started_prompts) {
      return;
    }
  } while (admit() && num_preemptions_ == preemptions_before);
}

const Sequence* Scheduler::leader_of(const Sequence& sequence) const {
  const auto found = sequence.leader != 0 ? unfinished_.find(sequence.leader) : unfinished_.end();
  return found != unfinished_.end() ? found->second : nullptr;
}

Sequence* Scheduler::first_ready() const {
  for (const auto& sequence : waiting_) {
    const Sequence* leader = leader_of(*sequence);
    if (leader == nullptr || leader->seen_tokens >= leader->prompt_tokens) {
      return sequence.get();
    }
  }
  return nullptr;
}

// Each sequence computes the last token of a prompt itself: the first token is drawn from its logits.
void Scheduler::adopt_computed(Sequence& sequence) {
  forget_computed(sequence);  // an earlier attempt may have run out of memory
  if (sequence.wants_prompt_rows()) {
    return;
  }
  const Sequence* leader = leader_of(sequence);
  const bool with_state = slots_ != nullptr;
  const std::int32_t shared = with_state && leader != nullptr ? leader->kept_tokens : sequence.prompt_tokens - 1;
  if (leader != nullptr && leader->dropped_tokens == 0 && leader->cached_tokens > shared && shared > 0 &&
      sequence.length() == sequence.prompt_tokens && has_windows_before(*leader, shared)) {
    const std::int32_t blocks = (shared + block_tokens_ - 1) / block_tokens_;
    sequence.pages.adopt(leader->pages.blocks().first(static_cast<std::size_t>(blocks)));
    adopt_windows(sequence, *leader, shared);
    sequence.cached_tokens = shared;
    if (with_state) {
      sequence.state.start_from(leader->state.kept());
    }
  } else if (prefix_cache_ != nullptr) {
    const std::vector<BlockId> blocks = prefix_cache_->match(sequence.tokens, sequence.request.cache_salt);
    sequence.pages.adopt(blocks);
    adopt_windows(sequence, blocks);
    sequence.cached_tokens = sequence.pages.capacity_tokens();
    if (with_state && !blocks.empty()) {
      sequence.state.start_from(prefix_cache_->state_behind(blocks.back()));
    }
  }
}

bool Scheduler::has_room_for(const Sequence& sequence) const {
  if (num_running() >= limits_.max_sequences || (slots_ != nullptr && slots_available() < SequenceState::own_slots)) {
    return false;
  }
  // One spare block for each running sequence: otherwise the new one would be preempted as soon as one of them grows.
  return blocks_wanted(sequence) + num_running() <= blocks_available() && has_window_room_for(sequence);
}

std::int32_t Scheduler::blocks_available() const {
  return allocator_->num_free() + (prefix_cache_ != nullptr ? prefix_cache_->num_evictable() : 0);
}

bool Scheduler::still_no_room(const Sequence& sequence) const {
  return no_room_.id == sequence.id && num_running() >= no_room_.running && blocks_available() <= no_room_.available &&
         slots_available() <= no_room_.slots && all_window_blocks_available() <= no_room_.window_blocks &&
         (prefix_cache_ == nullptr || prefix_cache_->num_inserted() == no_room_.known_blocks);
}

bool Scheduler::admit() {
  Sequence* sequence = first_ready();
  if (sequence == nullptr) {
    return false;
  }
  const MakingWay making_way(running_);
  // The search for a prefix takes longer for longer prompts: skip it where it can't change anything.
  if ((num_running() >= limits_.max_sequences || still_no_room(*sequence)) && making_way.to(*sequence) == nullptr) {
    // A client with few running sequences may come later in the list, because it has had many turns. The search ends after
    // max_sequences entries.
    const auto count = std::min(waiting_.size(), static_cast<std::size_t>(limits_.max_sequences));
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    const auto found = std::find_if(waiting_.begin(), end, [&](const auto& other) {
      const Sequence* leader = leader_of(*other);
      return (leader == nullptr || leader->seen_tokens >= leader->prompt_tokens) && making_way.to(*other) != nullptr;
    });
    if (found == end) {
      return false;
    }
    sequence = found->get();
  }
  adopt_computed(*sequence);
  while (!has_room_for(*sequence)) {
    const Sequence* maker = MakingWay(running_).to(*sequence);
    if (maker == nullptr) {
      forget_computed(*sequence);
      no_room_ = {.id = sequence->id,
                  .available = blocks_available(),
                  .slots = slots_available(),
                  .window_blocks = all_window_blocks_available(),
                  .running = num_running(),
                  .known_blocks = prefix_cache_ != nullptr ? prefix_cache_->num_inserted() : 0};
      return false;
    }
    if (maker->request.priority == sequence->request.priority) {  // moved to the end of the list and preempted
      const auto found = place_of(running_, *maker);
      std::rotate(found, found + 1, running_.end());
      Sequence& last =
          *running_.back();  // its new turn is after waiting ones; its old one would keep other clients from preempting too
      order_.leave(last.request.priority, last.request.client);
      last.turn = order_.enter(last.request.priority, last.request.client);
    }
    preempt_last();
  }
  check(reserve(*sequence), "an admitted sequence gets its blocks");
  if (!std::exchange(sequence->admitted, true)) {
    // A sequence that waits for its leader's prompt may be earlier in the list. Then the turn of `sequence` has not begun.
    const std::int32_t priority = sequence->request.priority;
    const auto first =
        std::ranges::find_if(waiting_, [&](const auto& other) { return other->request.priority == priority; });
    order_.started(priority, first->get() == sequence ? sequence->turn : (*first)->turn - 1);
    sequence->prefix_hits = sequence->cached_tokens;
    if (prefix_cache_ != nullptr) {
      prefix_queries_ += sequence->prompt_tokens;
      prefix_hits_ += sequence->cached_tokens;
    }
  }
  insert_by_rank(running_, take(waiting_, *sequence));
  return true;
}

void Scheduler::schedule_decodes() {
  for (const auto& sequence : running_) {
    if (sequence->pending() == 1) {
      schedule(*sequence, 1);
    }
  }
}

void Scheduler::schedule_prompts() {
  const auto first = std::ranges::find_if(running_, [](const auto& sequence) { return sequence->pending() > 1; });
  if (first == running_.end()) {
    return;
  }
  std::int32_t left = tokens_left_;
  if (!batch_.empty() && limits_.max_prefill_tokens > 0) {
    left = std::min(left, limits_.max_prefill_tokens);
  }
  std::vector<Sequence*> longer;
  std::int32_t left_for_short = left / 2;
  for (auto next = first; next != running_.end(); ++next) {
    Sequence& sequence = **next;
    const bool same_priority = sequence.request.priority == (*first)->request.priority;
    if (same_priority && sequence.pending() > 1 && sequence.pending() <= left_for_short) {
      const std::int32_t count = schedule(sequence, sequence.pending());
      left_for_short -= count;
      left -= count;
    } else if (sequence.pending() > 1) {
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
  chunk.first = sequence.cached_tokens;
  chunk.count = count;
  if (sequence.request.prompt_logprobs >= 0) {
    const std::int64_t seen = std::max(0, sequence.seen_tokens - chunk.first);
    chunk.count = static_cast<std::int32_t>(std::min<std::int64_t>(count, seen + rows_left_));
  } else if (sequence.draws() && rows_left_ == 0 && count == sequence.pending()) {
    --chunk.count;
  }
  if (chunk.count <= 0) {
    return 0;
  }
  chunk.count = extend_windows(sequence, chunk.count);
  chunk.completes = chunk.count == sequence.pending();
  chunk.wants_logits = chunk.completes && sequence.draws();
  if (slots_ != nullptr) {
    chunk.state = sequence.state.next(positions_to_keep(sequence, chunk));
    sequence.kept_tokens = chunk.state.kept >= 0 ? 0 : sequence.kept_tokens;
  }
  batch_.push_back(chunk);
  tokens_left_ -= chunk.count;
  rows_left_ -= chunk.scored().count() + (chunk.wants_logits ? 1 : 0);
  return chunk.count;
}

void Scheduler::commit(const ScheduledChunk& chunk, std::int32_t token) {
  Sequence& sequence = *chunk.sequence;
  if (sequence.finish != FinishReason::none) {
    return;
  }
  check(chunk.first == sequence.cached_tokens && chunk.count <= sequence.pending(), "the chunk is not the next one");
  check(token < 0 || chunk.wants_logits, "a token comes only from the last position");
  sequence.cached_tokens += chunk.count;
  sequence.state.advance(chunk.state);
  keep_state(sequence, chunk.state);
  sequence.seen_tokens = std::max(sequence.seen_tokens, sequence.cached_tokens);
  if (chunk.count > 1) {
    remember(sequence,
             sequence.cached_tokens);  // so that prompts with the same prefix find the blocks while this sequence runs
  }
  give_up_behind_windows(sequence);
  if (token >= 0) {
    sequence.tokens.push_back(token);
  }
}

void Scheduler::remember(Sequence& sequence, std::int32_t count) {
  if (prefix_cache_ == nullptr) {
    return;
  }
  try {
    const std::span<const std::int32_t> tokens = sequence.tokens;
    std::vector<std::span<const BlockId>> windows;
    for (const WindowPages& window : sequence.windows) {
      windows.push_back(window.pages.blocks());
    }
    prefix_cache_->insert(tokens.first(static_cast<std::size_t>(count)), sequence.pages.blocks(), sequence.remembered,
                          windows, sequence.request.cache_salt);
  } catch (const std::bad_alloc&) {  // the sequences that wait for them compute them again
  }
}

void Scheduler::shift(Sequence& sequence) {
  const std::int32_t keep = std::min(sequence.request.keep, sequence.prompt_tokens);
  const std::int32_t dropped = (sequence.length() - keep) / 2;
  check(dropped > 0, "a shift needs at least two tokens after those it keeps");
  const auto first = sequence.tokens.begin() + keep;
  sequence.tokens.erase(first, first + dropped);
  sequence.dropped_tokens += dropped;
  sequence.remembered = {};  // blocks after the kept start will hold other tokens
  // Whole blocks of the kept start are unchanged.
  const std::int32_t kept = keep / block_tokens_ * block_tokens_;
  const bool goes_on = slots_ == nullptr && has_windows_before(sequence, kept);
  sequence.cached_tokens = goes_on ? std::min(sequence.cached_tokens, kept) : 0;
  sequence.pages.truncate(sequence.cached_tokens);
  for (WindowPages& window : sequence.windows) {
    window.pages.truncate(sequence.cached_tokens);
  }
  sequence.state.start_from(-1);
  sequence.state.release_kept();
  sequence.kept_tokens = 0;
}

void Scheduler::finish(Sequence& sequence, FinishReason reason) {
  check(sequence.finish == FinishReason::none && reason != FinishReason::none, "a sequence finishes once");
  remember(sequence, sequence.cached_tokens);
  sequence.clear_pages();
  sequence.state.clear();
  sequence.finish = reason;
  unfinished_.erase(sequence.id);
  order_.leave(sequence.request.priority, sequence.request.client);
  std::unique_ptr<Sequence> taken = take(running_, sequence);
  finished_.push_back(taken != nullptr ? std::move(taken) : take(waiting_, sequence));
}

void Scheduler::cancel(RequestId id, FinishReason reason) {
  if (const auto found = unfinished_.find(id); found != unfinished_.end()) {
    finish(*found->second, reason);
  }
}

}  // namespace rocmforge
