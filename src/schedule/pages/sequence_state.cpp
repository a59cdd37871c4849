#include "schedule/pages/sequence_state.h"

#include "base/error.h"

namespace rocmforge {

void SequenceState::reserve() {
  if (slots_ == nullptr || has_own()) {
    return;
  }
  for (SlotId& slot : own_) {
    slot = slots_->allocate();
  }
}

void SequenceState::start_from(SlotId slot) {
  if (slot >= 0) {
    slots_->retain(slot);
  }
  release(start_);
  start_ = slot;
  newest_ = -1;
}

SlotId SequenceState::restore() {
  check(has_own(), "a sequence has slots when its state is copied");
  release(start_);
  newest_ = own_[0];
  return newest_;
}

SequenceState::Step SequenceState::next(std::int32_t kept_tokens) {
  if (slots_ == nullptr) {
    return {};
  }
  check(has_own(), "a sequence that runs has its slots");
  Step step{.from = newest_ >= 0 ? newest_ : start_, .to = newest_ == own_[0] ? own_[1] : own_[0]};
  if (kept_tokens > 0) {
    release_kept();  // other sequences may read this slot, so it is not overwritten
    kept_ = slots_->allocate();
    step.kept = kept_;
    step.kept_tokens = kept_tokens;
  }
  return step;
}

SequenceState::Step SequenceState::after(const Step& computing) const {
  if (slots_ == nullptr) {
    return {};
  }
  return {.from = computing.to, .to = computing.to == own_[0] ? own_[1] : own_[0]};
}

bool SequenceState::advance(const Step& computed) {
  if (slots_ == nullptr) {
    return false;
  }
  newest_ = computed.to;
  return release(start_);
}

void SequenceState::release_kept() { release(kept_); }

void SequenceState::clear() {
  for (SlotId& slot : own_) {
    release(slot);
  }
  release(start_);
  release(kept_);
  newest_ = -1;
}

bool SequenceState::release(SlotId& slot) {
  if (slot < 0) {
    return false;
  }
  slots_->release(slot);
  slot = -1;
  return true;
}

}  // namespace rocmforge
