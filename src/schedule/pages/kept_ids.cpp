#include "schedule/pages/kept_ids.h"

#include "base/error.h"

namespace rocmforge {

KeptIds::KeptIds(BlockAllocator& allocator, std::int32_t num_blocks)
    : allocator_(&allocator),
      kept_of_(static_cast<std::size_t>(num_blocks), -1),
      of_id_(static_cast<std::size_t>(allocator.num_blocks())) {}

KeptIds::~KeptIds() {
  for (std::size_t id = 0; id < of_id_.size(); ++id) {
    if (of_id_[id].block >= 0) {
      allocator_->watch(static_cast<BlockId>(id), nullptr);
      allocator_->release(static_cast<BlockId>(id));
    }
  }
}

void KeptIds::put(BlockId block, BlockId id) {
  check(of(block) < 0, "one id is kept with a block");
  Kept& kept = of_id_.at(static_cast<std::size_t>(id));
  check(kept.block < 0, "an id is kept with one block");
  kept.place = read_.insert(read_.end(), id);
  allocator_->retain(id);
  allocator_->watch(id, this);
  kept.block = block;
  kept_of_[static_cast<std::size_t>(block)] = id;
  ++num_kept_;
}

void KeptIds::touch(BlockId block) {
  if (const BlockId id = of(block); id >= 0) {
    if (const Kept& kept = of_id_[static_cast<std::size_t>(id)]; kept.idle) {
      idle_.splice(idle_.end(), idle_, kept.place);
    }
  }
}

void KeptIds::drop(BlockId block) {
  const BlockId id = of(block);
  if (id < 0) {
    return;
  }
  Kept& kept = of_id_[static_cast<std::size_t>(id)];
  (kept.idle ? idle_ : read_).erase(kept.place);
  kept = {};
  kept_of_[static_cast<std::size_t>(block)] = -1;
  --num_kept_;
  allocator_->watch(id, nullptr);
  allocator_->release(id);
}

void KeptIds::gained_second_owner(BlockId id) {
  Kept& kept = of_id_[static_cast<std::size_t>(id)];
  read_.splice(read_.end(), idle_, kept.place);
  kept.idle = false;
}

void KeptIds::left_with_one_owner(BlockId id) {
  Kept& kept = of_id_[static_cast<std::size_t>(id)];
  idle_.splice(idle_.end(), read_, kept.place);
  kept.idle = true;
}

}  // namespace rocmforge
