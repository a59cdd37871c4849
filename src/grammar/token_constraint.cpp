#include "grammar/token_constraint.h"

#include <limits>

#include "base/error.h"

namespace rocmforge {

void TokenConstraint::allowed(std::span<std::uint32_t> mask) {
  check(allowed_within(std::numeric_limits<std::uint64_t>::max(), mask), "work without an end suffices");
}

void TokenConstraint::accept(std::int32_t token) {
  advance(token);
  if (mark_ == nullptr) {
    return;
  }
  if (since_mark_.size() == most_draft_tokens) {
    mark_.reset();
    since_mark_.clear();
  } else {
    since_mark_.push_back(token);
  }
}

void TokenConstraint::checkpoint() {
  mark_ = clone();
  since_mark_.clear();
}

void TokenConstraint::rewind(std::size_t count) {
  check(count <= since_mark_.size(), "only tokens since the mark are taken back");
  if (count == 0) {
    return;
  }
  since_mark_.resize(since_mark_.size() - count);
  go_to(*mark_);
  for (const std::int32_t token : since_mark_) {
    advance(token);
  }
}

}  // namespace rocmforge
