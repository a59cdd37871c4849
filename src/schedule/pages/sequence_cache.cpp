#include "schedule/pages/sequence_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/error.h"

namespace rocmforge {

SequenceCache::SequenceCache(const Size& size) : block_tokens_(size.block_tokens), blocks_(size.blocks) {
  check(size.blocks > 0 && size.block_tokens > 0, "a cache has blocks");
  for (const Window& window : size.windows) {
    check(window.window > 0 && window.blocks > 0, "a group with a window has blocks");
    windows_.push_back({&window_blocks_.emplace_back(window.blocks), window.window});
  }
  if (size.slots > 0) {  // a sequence that starts from a kept prefix also holds the slot of that prefix's state
    check(size.slots > SequenceState::own_slots, "a sequence has slots of its own and one that it starts from");
    slots_.emplace(size.slots);
  }
  if (size.prefixes) {
    prefixes_.emplace(blocks_, block_tokens_, PrefixCache::hash_block, slots_ ? &*slots_ : nullptr, windows_);
    if (!size.host.empty()) {
      prefixes_->keep_on_host(size.host, copies_);
    }
  }
}

std::int32_t SequenceCache::max_tokens() const {
  std::int64_t tokens = std::int64_t{blocks_.num_blocks()} * block_tokens_;
  for (const WindowGroup& window : windows_) {
    const std::int32_t blocks = window.allocator->num_blocks();
    if (blocks < most_blocks_seen(window.window, block_tokens_)) {  // it must hold all positions then
      tokens = std::min(tokens, std::int64_t{blocks} * block_tokens_);
    }
  }
  return static_cast<std::int32_t>(std::min<std::int64_t>(tokens, std::numeric_limits<std::int32_t>::max()));
}

std::int32_t SequenceCache::max_sequences() const {
  return slots_ ? (slots_->num_blocks() - 1) / SequenceState::own_slots : std::numeric_limits<std::int32_t>::max();
}

std::int32_t SequenceCache::max_span() const {
  std::int64_t tokens = max_tokens();
  for (const WindowGroup& window : windows_) {
    // A sequence holds its window's blocks, and the first and the last block of the span are not full.
    const std::int64_t blocks = window.allocator->num_blocks() - most_blocks_seen(window.window, block_tokens_) - 1;
    tokens = std::min(tokens, std::max(blocks, std::int64_t{0}) * block_tokens_);
  }
  return static_cast<std::int32_t>(tokens);
}

CachedSequence SequenceCache::make_sequence() { return {blocks_, block_tokens_, slots_ ? &*slots_ : nullptr, windows_}; }

std::int32_t SequenceCache::blocks_available() const {
  return blocks_.num_free() + (prefixes_ ? prefixes_->num_evictable() : 0);
}

std::int32_t SequenceCache::window_blocks_available(std::size_t window) const {
  return windows_[window].allocator->num_free() + (prefixes_ ? prefixes_->num_evictable(window) : 0);
}

std::int32_t SequenceCache::slots_available() const {
  return slots_ ? slots_->num_free() + (prefixes_ ? prefixes_->num_evictable_states() : 0) : 0;
}

std::uint64_t SequenceCache::version() const { return version_ + (prefixes_ ? prefixes_->num_inserted() : 0); }

std::int32_t SequenceCache::blocks_wanted(const CachedSequence& sequence, std::int32_t tokens) {
  return sequence.pages.blocks_needed(tokens) + sequence.pages.shared_blocks(sequence.computed_tokens);
}

std::int32_t SequenceCache::window_blocks_wanted(const WindowPages& window, const CachedSequence& sequence,
                                                 std::int32_t tokens) {
  return window.pages.blocks_needed(sequence.tokens_to_hold(window, tokens)) +
         window.pages.shared_blocks(sequence.computed_tokens);
}

bool SequenceCache::has_room_for(const CachedSequence& sequence, std::int32_t tokens, std::int32_t spare) const {
  if ((slots_ && slots_available() < SequenceState::own_slots) ||
      blocks_wanted(sequence, tokens) + spare > blocks_available()) {
    return false;
  }
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    if (window_blocks_wanted(sequence.windows[i], sequence, tokens) + spare > window_blocks_available(i)) {
      return false;
    }
  }
  return true;
}

// Each sequence computes the last token of a prompt itself: the first token is drawn from its logits.
bool SequenceCache::adopt(CachedSequence& sequence, const CachedSequence& leader, std::int32_t prompt_tokens) {
  const std::int32_t shared = slots_ ? leader.kept_tokens : prompt_tokens - 1;
  if (shared <= 0 || leader.computed_tokens <= shared || !leader.has_windows_before(shared)) {
    return false;
  }
  const auto blocks = static_cast<std::size_t>((shared + block_tokens_ - 1) / block_tokens_);
  sequence.pages.adopt(leader.pages.blocks().first(blocks));
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    const auto first = static_cast<std::size_t>(window.first_block(shared));
    window.pages.adopt(leader.windows[i].pages.blocks().first(blocks), first);
  }
  sequence.computed_tokens = shared;
  if (slots_) {
    sequence.state.start_from(leader.state.kept());
  }
  return true;
}

void SequenceCache::adopt(CachedSequence& sequence, const PrefixKey& key) {
  if (!prefixes_) {
    return;
  }
  const std::vector<BlockId> blocks = prefixes_->match(key.tokens, key.salt, sequence.spans);
  sequence.pages.adopt(blocks);
  adopt_windows(sequence, blocks);
  sequence.computed_tokens = sequence.pages.capacity_tokens();
  if (slots_ && !blocks.empty()) {
    sequence.state.start_from(prefixes_->state_behind(blocks.back()));
  }
}

void SequenceCache::adopt_windows(CachedSequence& sequence, std::span<const BlockId> blocks) {
  const auto position = static_cast<std::int32_t>(blocks.size()) * block_tokens_;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    std::vector<BlockId> own(blocks.size(), -1);
    const auto first = static_cast<std::size_t>(sequence.windows[i].first_block(position));
    for (std::size_t b = first; b < blocks.size(); ++b) {
      own[b] = prefixes_->window_block(i, blocks[b]);
    }
    sequence.windows[i].pages.adopt(own, std::min(first, blocks.size()));
  }
}

bool SequenceCache::free_slots(std::int32_t count) {
  if (prefixes_ && !slots_->can_allocate(count)) {
    prefixes_->evict_states(count);
  }
  return slots_->can_allocate(count);
}

bool SequenceCache::reserve_state(CachedSequence& sequence) {
  if (!slots_ || sequence.state.has_own()) {
    return true;
  }
  if (!free_slots(SequenceState::own_slots)) {
    return false;
  }
  sequence.state.reserve();
  return true;
}

bool SequenceCache::free_window_blocks(std::size_t window, std::int32_t count) {
  const BlockAllocator& allocator = *windows_[window].allocator;
  if (prefixes_ && !allocator.can_allocate(count)) {
    prefixes_->evict_window(window, count);
  }
  return allocator.can_allocate(count);
}

bool SequenceCache::free_for_windows(CachedSequence& sequence, std::int32_t tokens) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    if (!free_window_blocks(i, window_blocks_wanted(window, sequence, tokens))) {
      // Kept only so that other sequences could start from these.
      window.pages.give_up_before(first_seen(window.window, sequence.computed_tokens));
      ++version_;
      if (!free_window_blocks(i, window_blocks_wanted(window, sequence, tokens))) {
        return false;
      }
    }
  }
  return true;
}

void SequenceCache::reserve_windows(CachedSequence& sequence, std::int32_t tokens) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowPages& window = sequence.windows[i];
    const std::int32_t copied = window.pages.shared_blocks(sequence.computed_tokens);
    copies_.reserve(copies_.size() + static_cast<std::size_t>(copied));  // each allocated block has its copy
    const auto group = static_cast<std::int32_t>(i) + 1;
    const bool own = window.pages.make_writable(sequence.computed_tokens, copies_, group) &&
                     window.pages.reserve(sequence.tokens_to_hold(window, tokens));
    check(own, "blocks that are free are taken");
  }
}

bool SequenceCache::start(CachedSequence& sequence, std::int32_t tokens, const PrefixKey& key) {
  sequence.restored_tokens = 0;
  const bool may_restore = prefixes_ && prefixes_->has_copies() && sequence.computed_tokens % block_tokens_ == 0;
  return (may_restore && restore(sequence, tokens, key)) || reserve(sequence, tokens);
}

SequenceCache::Start SequenceCache::start_of(const CachedSequence& sequence) {
  Start start{.blocks = {sequence.pages.blocks().begin(), sequence.pages.blocks().end()},
              .state = sequence.state.start(),
              .computed_tokens = sequence.computed_tokens};
  for (const WindowPages& window : sequence.windows) {
    start.windows.emplace_back(window.pages.blocks().begin(), window.pages.blocks().end());
  }
  return start;
}

void SequenceCache::start_with(CachedSequence& sequence, const Start& start) {
  sequence.pages.clear();
  sequence.pages.adopt(start.blocks);
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const std::vector<BlockId>& blocks = start.windows[i];
    const auto held = std::ranges::find_if(blocks, [](BlockId block) { return block >= 0; });
    sequence.windows[i].pages.clear();
    sequence.windows[i].pages.adopt(blocks, static_cast<std::size_t>(held - blocks.begin()));
  }
  sequence.state.start_from(start.state);
  sequence.computed_tokens = start.computed_tokens;
}

// What the sequence has adopted has other owners, so that it can be taken over again as long as nothing was freed. Blocks of
// windows are copied also where the device has them: they are few, and those before them need not be there then.
bool SequenceCache::restore(CachedSequence& sequence, std::int32_t tokens, const PrefixKey& key) {
  const std::int32_t adopted = sequence.computed_tokens;
  const PrefixCache::Held held = prefixes_->hold(key.tokens, key.salt, sequence.spans);
  const auto position = static_cast<std::int32_t>(held.num_blocks()) * block_tokens_;
  if (position <= adopted) {
    return false;
  }
  const Start before = start_of(sequence);
  Start known{.blocks = held.start_on_device(), .state = held.state_on_device(), .computed_tokens = position};
  for (const WindowPages& window : sequence.windows) {
    known.windows.emplace_back(std::min(static_cast<std::size_t>(window.first_block(position)), held.num_blocks()), -1);
  }
  start_with(sequence, known);
  if (!has_room_for(sequence, tokens, 0)) {
    start_with(sequence, before);
    return false;
  }
  check(reserve(sequence, tokens), "a sequence gets what there is room for");
  std::vector<std::span<const BlockId>> windows;
  for (const WindowPages& window : sequence.windows) {
    windows.push_back(window.pages.blocks());
  }
  const bool copies_state = slots_ && known.state < 0;
  prefixes_->restore(held, {.first = known.blocks.size(),
                            .blocks = sequence.pages.blocks(),
                            .windows = windows,
                            .state = copies_state ? sequence.state.restore() : -1});
  sequence.restored_tokens = position - adopted;
  return true;
}

bool SequenceCache::reserve(CachedSequence& sequence, std::int32_t tokens) {
  if (!reserve_state(sequence) || !free_for_windows(sequence, tokens)) {
    return false;
  }
  const std::int32_t wanted = blocks_wanted(sequence, tokens);
  if (wanted > 0 && prefixes_ && !blocks_.can_allocate(wanted)) {
    prefixes_->evict(wanted);
  }
  if (!blocks_.can_allocate(wanted)) {
    return false;
  }
  reserve_windows(sequence, tokens);
  if (wanted == 0) {
    return true;  // most steps write into an existing block
  }
  copies_.reserve(copies_.size() + static_cast<std::size_t>(wanted));  // each allocated block has its copy
  return sequence.pages.make_writable(sequence.computed_tokens, copies_) && sequence.pages.reserve(tokens);
}

bool SequenceCache::reserve_free(CachedSequence& sequence, std::int32_t tokens) {
  return sequence.pages.reserve(tokens) &&
         std::ranges::all_of(sequence.windows, [&](WindowPages& window) { return window.pages.reserve(tokens); });
}

std::int32_t SequenceCache::extend(CachedSequence& sequence, std::int32_t count) {
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const PageTable& pages = sequence.windows[i].pages;
    const std::int32_t needed = pages.blocks_needed(sequence.computed_tokens + count);
    if (!free_window_blocks(i, needed)) {
      const std::int64_t room = pages.capacity_tokens() + std::int64_t{windows_[i].allocator->num_free()} * block_tokens_;
      count = static_cast<std::int32_t>(std::min<std::int64_t>(count, room - sequence.computed_tokens));
    }
  }
  check(count > 0, "a sequence that runs has blocks for its next token");
  for (WindowPages& window : sequence.windows) {
    check(window.pages.reserve(sequence.computed_tokens + count), "blocks that are free are taken");
  }
  return count;
}

std::int32_t SequenceCache::extend_for_drafts(CachedSequence& sequence, std::int32_t length, std::int32_t count) {
  const auto fit = [&](const PageTable& pages, const BlockAllocator& allocator) {
    const std::int64_t room = pages.capacity_tokens() + std::int64_t{allocator.num_free()} * block_tokens_;
    count = static_cast<std::int32_t>(std::clamp<std::int64_t>(room - length, 0, count));
  };
  if (const std::int32_t needed = sequence.pages.blocks_needed(length + count); prefixes_ && !blocks_.can_allocate(needed)) {
    prefixes_->evict(needed);
  }
  fit(sequence.pages, blocks_);
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    free_window_blocks(i, sequence.windows[i].pages.blocks_needed(length + count));
    fit(sequence.windows[i].pages, *windows_[i].allocator);
  }
  if (count > 0) {
    check(reserve_free(sequence, length + count), "blocks that are free are taken");
  }
  return count;
}

std::int32_t SequenceCache::extend_ahead(CachedSequence& sequence, std::int32_t count, std::int32_t spare) {
  const std::int32_t computed = sequence.computed_tokens;
  if (!sequence.owns_from(computed)) {
    return 0;
  }
  const auto limit = [&](const PageTable& pages, std::int32_t available) {
    if (pages.blocks_needed(computed + count) + spare > available) {
      count = std::clamp(pages.capacity_tokens() - computed, 0, count);
    }
  };
  limit(sequence.pages, blocks_available());
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    limit(sequence.windows[i].pages, window_blocks_available(i));
  }
  return extend_for_drafts(sequence, computed, count);
}

void SequenceCache::drop_behind(CachedSequence& sequence, std::int32_t length) {
  check(length >= sequence.computed_tokens, "computed positions stay");
  sequence.pages.truncate(length);
  for (WindowPages& window : sequence.windows) {
    window.pages.truncate(length);
  }
  ++version_;
}

// A state is kept after the last whole block of a prompt chunk. In the last chunk at least one token remains after it, so
// that a sequence with the same prompt still has a token to compute. No sequence starts inside of a span.
SequenceState::Step SequenceCache::next_state(CachedSequence& sequence, std::int32_t count, std::int32_t length) {
  if (!slots_) {
    return {};
  }
  const std::int32_t end = std::min(sequence.computed_tokens + count, length - 1);
  std::int32_t positions = end / block_tokens_ * block_tokens_;
  for (std::int32_t cut = cut_before(sequence.spans, positions); cut != positions;
       cut = cut_before(sequence.spans, positions)) {
    positions = cut / block_tokens_ * block_tokens_;
  }
  const bool wanted = prefixes_ || sequence.awaited_tokens > 0;
  const bool keeps = wanted && count > 1 && positions > sequence.computed_tokens && free_slots(1);
  const SequenceState::Step step = sequence.state.next(keeps ? positions : 0);
  sequence.kept_tokens = step.kept >= 0 ? 0 : sequence.kept_tokens;
  return step;
}

void SequenceCache::commit(CachedSequence& sequence, std::int32_t count, const SequenceState::Step& state,
                           const PrefixKey& key) {
  sequence.computed_tokens += count;
  const bool leaves_start = sequence.state.advance(state);
  keep_state(sequence, state, key);
  if (count > 1) {
    insert(sequence, sequence.computed_tokens, key);
  }
  const bool gives_up = give_up_behind_windows(sequence);
  const bool is_awaited = sequence.computed_tokens - count < sequence.awaited_tokens;
  version_ += leaves_start || state.kept >= 0 || gives_up || is_awaited ? 1 : 0;
}

void SequenceCache::keep_state(CachedSequence& sequence, const SequenceState::Step& computed, const PrefixKey& key) {
  if (computed.kept < 0) {
    return;
  }
  if (prefixes_) {
    insert(sequence, computed.kept_tokens, key);
    if (sequence.inserted.blocks == static_cast<std::size_t>(computed.kept_tokens / block_tokens_)) {
      prefixes_->keep_state(sequence.inserted, computed.kept);
    }
  }
  if (computed.kept_tokens < sequence.awaited_tokens) {
    sequence.kept_tokens = computed.kept_tokens;
  } else {
    sequence.state.release_kept();
  }
}

// Sequences that wait for a prompt that was just computed start one position before its end.
bool SequenceCache::give_up_behind_windows(CachedSequence& sequence) {
  const bool awaited = sequence.computed_tokens == sequence.awaited_tokens;
  bool gives_up = false;
  for (WindowPages& window : sequence.windows) {
    gives_up |= window.pages.give_up_before(window.first_held(sequence.computed_tokens - (awaited ? 1 : 0)));
  }
  return gives_up;
}

void SequenceCache::insert(CachedSequence& sequence, std::int32_t count, const PrefixKey& key) {
  if (!prefixes_) {
    return;
  }
  try {
    std::vector<std::span<const BlockId>> windows;
    for (const WindowPages& window : sequence.windows) {
      windows.push_back(window.pages.blocks());
    }
    prefixes_->insert(key.tokens.first(static_cast<std::size_t>(count)), sequence.pages.blocks(), sequence.inserted, windows,
                      key.salt, sequence.spans);
  } catch (const std::bad_alloc&) {  // the sequences that wait for them compute them again
  }
}

std::string SequenceCache::truncate_refusal(const CachedSequence& sequence, std::int32_t tokens) const {
  if (tokens < 0 || tokens > sequence.computed_tokens) {
    return fmt::format("{} of {} computed positions can't be kept", tokens, sequence.computed_tokens);
  }
  if (tokens == 0 || tokens == sequence.computed_tokens) {
    return {};
  }
  if (slots_) {
    return fmt::format("a recurrent state can't be rolled back from position {} to {}", sequence.computed_tokens, tokens);
  }
  if (!sequence.has_windows_before(tokens)) {
    return fmt::format("positions that position {} sees through its window were given up", tokens);
  }
  return {};
}

void SequenceCache::truncate(CachedSequence& sequence, std::int32_t tokens) {
  const std::string refusal = truncate_refusal(sequence, tokens);
  check(refusal.empty(), refusal);
  sequence.pages.truncate(tokens);
  for (WindowPages& window : sequence.windows) {
    window.pages.truncate(tokens);
  }
  if (tokens < sequence.computed_tokens) {
    sequence.state.start_from(-1);
    sequence.state.release_kept();
    sequence.kept_tokens = 0;
  }
  if (sequence.inserted.blocks > static_cast<std::size_t>(tokens / block_tokens_)) {
    sequence.inserted = {};  // the blocks behind will hold other tokens
  }
  sequence.computed_tokens = tokens;
  ++version_;
}

void SequenceCache::release(CachedSequence& sequence, const PrefixKey& key) {
  insert_computed(sequence, key);
  release(sequence);
}

void SequenceCache::release(CachedSequence& sequence) {
  if (slots_ || !windows_.empty()) {
    sequence.inserted = {};  // the kept states or window blocks of these positions may have been freed
  }
  sequence.pages.clear();
  for (WindowPages& window : sequence.windows) {
    window.pages.clear();
  }
  sequence.state.clear();
  sequence.kept_tokens = 0;
  sequence.computed_tokens = 0;
  sequence.restored_tokens = 0;
  ++version_;
}

}  // namespace rocmforge
