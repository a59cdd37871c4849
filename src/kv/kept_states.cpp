#include "kv/kept_states.h"

#include "base/error.h"

namespace rocmforge {

KeptStates::KeptStates(BlockAllocator& slots, std::int32_t num_blocks)
    : slots_(&slots),
      slot_behind_(static_cast<std::size_t>(num_blocks), -1),
      of_slot_(static_cast<std::size_t>(slots.num_blocks())) {}

KeptStates::~KeptStates() {
  for (std::size_t slot = 0; slot < of_slot_.size(); ++slot) {
    if (of_slot_[slot].block >= 0) {
      slots_->watch(static_cast<SlotId>(slot), nullptr);
      slots_->release(static_cast<SlotId>(slot));
    }
  }
}

void KeptStates::put(BlockId block, SlotId slot) {
  check(behind(block) < 0, "there is one state behind a block");
  Slot& kept = of_slot_.at(static_cast<std::size_t>(slot));
  check(kept.block < 0, "a slot is kept for one block");
  kept.place = read_.insert(read_.end(), slot);
  slots_->retain(slot);
  slots_->watch(slot, this);
  kept.block = block;
  slot_behind_[static_cast<std::size_t>(block)] = slot;
  ++num_kept_;
}

void KeptStates::touch(BlockId block) {
  if (const SlotId slot = behind(block); slot >= 0) {
    if (const Slot& kept = of_slot_[static_cast<std::size_t>(slot)]; kept.idle) {
      idle_.splice(idle_.end(), idle_, kept.place);
    }
  }
}

void KeptStates::drop(BlockId block) {
  const SlotId slot = behind(block);
  if (slot < 0) {
    return;
  }
  Slot& kept = of_slot_[static_cast<std::size_t>(slot)];
  (kept.idle ? idle_ : read_).erase(kept.place);
  kept = {};
  slot_behind_[static_cast<std::size_t>(block)] = -1;
  --num_kept_;
  slots_->watch(slot, nullptr);
  slots_->release(slot);
}

void KeptStates::evict(std::int32_t count) {
  while (!slots_->can_allocate(count) && !idle_.empty()) {
    drop(of_slot_[static_cast<std::size_t>(idle_.front())].block);
  }
}

void KeptStates::gained_second_owner(SlotId slot) {
  Slot& kept = of_slot_[static_cast<std::size_t>(slot)];
  read_.splice(read_.end(), idle_, kept.place);
  kept.idle = false;
}

void KeptStates::left_with_one_owner(SlotId slot) {
  Slot& kept = of_slot_[static_cast<std::size_t>(slot)];
  idle_.splice(idle_.end(), read_, kept.place);
  kept.idle = true;
}

}  // namespace rocmforge
