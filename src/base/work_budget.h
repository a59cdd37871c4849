#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace rocmforge {

/// Work was given up because nobody wants its result any more.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// How much work one task may take. The task spends units as it goes (a unit is some tens of nanoseconds); another thread
/// may stop it. Spending is for one thread at a time.
class WorkBudget {
 public:
  /// `what` names the task in messages: "compiling the grammar".
  WorkBudget(std::uint64_t units, std::string what) : units_(units), left_(units), what_(std::move(what)) {}
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  /// Throws Interrupted once stop() was called, and Error with the limit when fewer than `units` are left; from then on
  /// none are.
  void spend(std::uint64_t units) {
    if (units > left_ || stopped_.load(std::memory_order_relaxed)) [[unlikely]] {
      fail();
    }
    left_ -= units;
  }

  /// Makes the next spend() throw. From any thread.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t units() const { return units_; }
  [[nodiscard]] std::uint64_t spent() const { return units_ - left_; }

 private:
  [[noreturn]] void fail();

  std::uint64_t units_;
  std::uint64_t left_;
  std::string what_;
  std::atomic<bool> stopped_{false};
};

/// Of a task that may have no budget.
inline void spend(WorkBudget* budget, std::uint64_t units) {
  if (budget != nullptr) {
    budget->spend(units);
  }
}

}  // namespace rocmforge
