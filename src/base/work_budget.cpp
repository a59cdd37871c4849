#include "base/work_budget.h"

namespace rocmforge {

void WorkBudget::fail() {
  if (stopped_.load(std::memory_order_relaxed)) {
    throw Interrupted(what_ + " was stopped");
  }
  left_ = 0;
  if (is_attempt()) {
    is_postponed_ = true;
    throw Postponed(what_ + " takes long");
  }
  throw Error(what_ + " takes more than the " + std::to_string(units_) + " units of work that are allowed");
}

}  // namespace rocmforge
