#include "service/request_memory.h"

#include <fmt/format.h>

#include <new>

namespace rocmforge {

bool MemoryClaim::move(FairShares& to, std::int64_t bytes) {
  try {
    if (!to.take(client_, bytes)) {
      return false;
    }
  } catch (const std::bad_alloc&) {  // for the client's entry: set() to a smaller amount must not throw
    return false;
  }
  if (part_ != nullptr) {
    part_->give_back(client_, bytes_);
  }
  part_ = &to;
  bytes_ = bytes;
  return true;
}

bool MemoryClaim::set(std::int64_t bytes) {
  if (memory_ == nullptr) {
    bytes_ = bytes;
    return true;
  }
  FairShares& small = memory_->small_;
  FairShares& large = memory_->large_;
  if (part_ != &small && bytes > 0 && bytes <= RequestMemory::small_bytes && move(small, bytes)) {
    return true;  // the claim was empty, or has become small again
  }
  if (part_ != nullptr && bytes <= bytes_) {
    part_->give_back(client_, bytes_ - bytes);
  } else if (part_ == &large || (part_ == &small && bytes <= RequestMemory::small_bytes)) {
    if (!part_->take(client_, bytes - bytes_)) {
      return part_ == &small && move(large, bytes);
    }
  } else {
    return bytes == 0 || move(large, bytes);
  }
  bytes_ = bytes;
  part_ = bytes > 0 ? part_ : nullptr;
  return true;
}

std::string no_memory_text(const RequestMemory& memory) {
  constexpr int mib = 20;
  return fmt::format("there is no memory for this request beside the others: {} of {} MiB are taken", memory.used() >> mib,
                     memory.capacity() >> mib);
}

}  // namespace rocmforge
