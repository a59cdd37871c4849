#include "schedule/pages/host_blocks.h"

#include "base/error.h"

namespace rocmforge {

bool HostBlocks::make_free() {
  if (free_.empty()) {
    const std::int32_t total = source_->grow();
    free_.reserve(static_cast<std::size_t>(total));  // so that giving back allocates nothing
    const HostId first = num_blocks();
    places_.resize(static_cast<std::size_t>(total) + 1);
    for (HostId block = total; block-- > first;) {
      free_.push_back(block);
    }
  }
  return !free_.empty();
}

HostId HostBlocks::take() {
  check(!free_.empty(), "no block of host memory is free");
  const HostId block = free_.back();
  free_.pop_back();
  make_newest(block);
  ++num_used_;
  return block;
}

void HostBlocks::give_back(HostId block) {
  unlink(block);
  free_.push_back(block);
  --num_used_;
}

void HostBlocks::touch(HostId block) {
  unlink(block);
  make_newest(block);
}

HostId HostBlocks::oldest() const {
  const HostId block = at(-1).newer;
  return block >= 0 && at(block).last_use < held_from_ ? block : -1;
}

void HostBlocks::unlink(HostId block) {
  Place& place = at(block);
  check(place.last_use > 0, "the block of host memory is not in use");
  at(place.older).newer = place.newer;
  at(place.newer).older = place.older;
  place.last_use = 0;
}

void HostBlocks::make_newest(HostId block) {
  Place& end = at(-1);
  at(block) = {.older = end.older, .newer = -1, .last_use = ++clock_};
  at(end.older).newer = block;
  end.older = block;
}

}  // namespace rocmforge
