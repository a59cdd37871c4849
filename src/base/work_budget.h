#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace rocmforge {

/// Work was stopped because its result is no longer wanted.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// An attempt at a task has used all its units.
class Postponed : public Error {
 public:
  using Error::Error;
};

/// A limit on the work of one task. The task spends units as it runs; a unit is some tens of nanoseconds. Any thread may
/// call stop(); one thread at a time may call the rest.
class WorkBudget {
 public:
  /// `what` names the task in messages: "compiling the grammar". The task may be part of a larger one: units are then also
  /// spent from its budget `whole`, which must outlive this one.
  WorkBudget(std::uint64_t units, std::string what, WorkBudget* whole = nullptr)
      : units_(units), attempt_(units), left_(units), what_(std::move(what)), whole_(whole) {}
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  /// Spends `units`. Throws Interrupted after stop(). Throws Error with the limit when fewer than `units` are left, or
  /// Postponed during an attempt; then no units are left.
  void spend(std::uint64_t units) {
    if (units > left_ || stopped_.load(std::memory_order_relaxed)) [[unlikely]] {
      fail();
    }
    left_ -= units;
    if (whole_ != nullptr) {
      whole_->spend(units);
    }
  }

  /// Begins the task, for the first time or again. If `units` are fewer than all units of the budget, this is an attempt:
  /// when they are used up, the task ends with Postponed and may begin again.
  void begin(std::uint64_t units) {
    attempt_ = left_ = units < units_ ? units : units_;
    is_postponed_ = false;
  }
  /// Whether the attempt has ended with Postponed, even if the exception was caught.
  [[nodiscard]] bool is_postponed() const { return is_postponed_; }

  /// Makes the next spend() throw. May be called from any thread.
  void stop() { stopped_.store(true, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t units() const { return units_; }
  [[nodiscard]] std::uint64_t spent() const { return attempt_ - left_; }
  [[nodiscard]] bool is_attempt() const { return attempt_ < units_; }

 private:
  [[noreturn]] void fail();

  std::uint64_t units_;
  std::uint64_t attempt_;
  std::uint64_t left_;
  bool is_postponed_ = false;
  std::string what_;
  WorkBudget* whole_;
  std::atomic<bool> stopped_{false};
};

/// Spends units of a task whose budget may be null.
inline void spend(WorkBudget* budget, std::uint64_t units) {
  if (budget != nullptr) {
    budget->spend(units);
  }
}

}  // namespace rocmforge
