#pragma once

#include <csignal>

namespace rocmforge::app {

/// While it lives, Ctrl-C sets a flag in place of ending the program, and blocking reads return with EINTR. One at a time.
class InterruptScope {
 public:
  enum class Second {
    also_flags,  ///< Ctrl-C never ends the program
    ends,        ///< a second Ctrl-C ends it
  };
  explicit InterruptScope(Second second);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Whether Ctrl-C was pressed since the scope began or since the last take().
  [[nodiscard]] static bool pending();
  /// As pending(), and forgets it.
  static bool take();

 private:
  struct sigaction previous_ = {};
};

}  // namespace rocmforge::app
