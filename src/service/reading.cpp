#include "service/reading.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

#include "service/service_error.h"

namespace rocmforge {
namespace {

ServiceError no_memory_for_it(const RequestMemory& memory) {
  return ServiceError(ServiceError::Kind::no_memory, no_memory_text(memory));
}

}  // namespace

void Reading::hold(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!claim_->grow(bytes)) {
    throw no_memory_for_it(*memory_);
  }
}

void Reading::hold_to_end(std::int64_t bytes) {
  hold(bytes);
  to_end_ += bytes;
}

void Reading::keep(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::int64_t before = claim_->amount();
  if (bytes > before && !claim_->set(bytes)) {
    throw no_memory_for_it(*memory_);
  }
  surplus_ = std::max<std::int64_t>(before - bytes, 0);
}

void Reading::release() {
  constexpr std::int64_t large = std::int64_t{4} << 20;
  const std::lock_guard lock(mutex_);
#ifdef __GLIBC__
  if (surplus_ >= large) {
    malloc_trim(0);  // else the freed memory would stay in this thread's heap, though others may claim the bytes
  }
#endif
  claim_->set(claim_->amount() - std::exchange(surplus_, 0));
}

void Reading::begin_again() {
  budget.begin(budget.units());
  to_end_ = 0;
  keep(0);
  release();
}

}  // namespace rocmforge
