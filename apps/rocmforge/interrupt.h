#pragma once

#include <csignal>

namespace rocmforge::app {

/// During its lifetime Ctrl-C sets a flag in place of ending the program. One at a time.
class InterruptScope {
 public:
  enum class Second {
    also_flags,  ///< Ctrl-C never ends the program
    ends,        ///< a second Ctrl-C ends it
  };
  /// Throws Error when the system gives no event to wait for.
  explicit InterruptScope(Second second);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Whether Ctrl-C was pressed since the scope began or since the last take(); resets the flag.
  static bool take();

  /// Waits until there is something to read (or the end) at `file`. False when Ctrl-C comes, or came, first.
  static bool wait_readable(int file);

 private:
  struct sigaction previous_ = {};
};

}  // namespace rocmforge::app
