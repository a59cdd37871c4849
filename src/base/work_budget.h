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

/// A first attempt has taken more than it was allowed.
class Postponed : public Error {
 public:
  using Error::Error;
};

/// How much work one task may take. The task spends units as it goes (a unit is some tens of nanoseconds); another thread
/// may stop it. Everything else is for one thread at a time.
class WorkBudget {
 public:
  /// `what` names the task in messages: "compiling the grammar". It may be a part of a larger one, `whole`, which outlives
  /// it and whose units it spends as well.
  WorkBudget(std::uint64_t units, std::string what, WorkBudget* whole = nullptr)
      : units_(units), attempt_(units), left_(units), what_(std::move(what)), whole_(whole) {}
  WorkBudget(const WorkBudget&) = delete;
  WorkBudget& operator=(const WorkBudget&) = delete;

  /// Throws Interrupted once stop() was called, and Error with the limit when fewer than `units` are left, or Postponed in
  /// an attempt; from then on none are.
  void spend(std::uint64_t units) {
    if (units > left_ || stopped_.load(std::memory_order_relaxed)) [[unlikely]] {
      fail();
    }
    left_ -= units;
    if (whole_ != nullptr) {
      whole_->spend(units);
    }
  }

  /// The task begins, once more or for the first time. `units`, where they are fewer than all, are an attempt: if they do
  /// not suffice the task ends with Postponed and may begin again.
  void begin(std::uint64_t units) {
    attempt_ = left_ = units < units_ ? units : units_;
    is_postponed_ = false;
  }
  /// Whether the attempt has ended in this way, whatever came of the exception.
  [[nodiscard]] bool is_postponed() const { return is_postponed_; }

  /// Makes the next spend() throw. From any thread.
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

/// Of a task that may have no budget.
inline void spend(WorkBudget* budget, std::uint64_t units) {
  if (budget != nullptr) {
    budget->spend(units);
  }
}

}  // namespace rocmforge
