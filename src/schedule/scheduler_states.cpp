// The scheduler's functions for recurrent state: slots beside blocks, and the states from which prefixes start.

#include <algorithm>

#include "schedule/scheduler.h"

namespace rocmforge {

std::int32_t Scheduler::slots_available() const {
  if (slots_ == nullptr) {
    return 0;
  }
  return slots_->num_free() + (prefix_cache_ != nullptr ? prefix_cache_->num_evictable_states() : 0);
}

bool Scheduler::free_slots(std::int32_t count) {
  if (prefix_cache_ != nullptr && !slots_->can_allocate(count)) {
    prefix_cache_->evict_states(count);
  }
  return slots_->can_allocate(count);
}

bool Scheduler::reserve_state(Sequence& sequence) {
  if (slots_ == nullptr || sequence.state.has_own()) {
    return true;
  }
  if (!free_slots(SequenceState::own_slots)) {
    return false;
  }
  sequence.state.reserve();
  return true;
}

void Scheduler::forget_computed(Sequence& sequence) {
  if (slots_ != nullptr || !windows_.empty()) {
    sequence.remembered = {};  // the kept states or window blocks of these positions may have been freed
  }
  sequence.clear_pages();
  sequence.state.clear();
  sequence.kept_tokens = 0;
  sequence.cached_tokens = 0;
}

// After the last whole block of a prompt chunk. In the last chunk at least one token remains after it, so that a sequence
// with the same prompt still has a token to compute.
std::int32_t Scheduler::positions_to_keep(const Sequence& sequence, const ScheduledChunk& chunk) {
  const std::int32_t end = std::min(chunk.first + chunk.count, sequence.length() - 1);
  const std::int32_t positions = end / block_tokens_ * block_tokens_;
  const bool wanted = prefix_cache_ != nullptr || sequence.has_followers;
  return wanted && chunk.count > 1 && positions > chunk.first && free_slots(1) ? positions : 0;
}

void Scheduler::keep_state(Sequence& sequence, const SequenceState::Step& computed) {
  if (computed.kept < 0) {
    return;
  }
  if (prefix_cache_ != nullptr) {
    remember(sequence, computed.kept_tokens);
    if (sequence.remembered.blocks == static_cast<std::size_t>(computed.kept_tokens / block_tokens_)) {
      prefix_cache_->keep_state(sequence.remembered, computed.kept);
    }
  }
  if (sequence.has_followers && computed.kept_tokens < sequence.prompt_tokens) {
    sequence.kept_tokens = computed.kept_tokens;
  } else {
    sequence.state.release_kept();
  }
}

}  // namespace rocmforge
