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
  /// Throws Error if no eventfd can be created.
  explicit InterruptScope(Second second);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Whether Ctrl-C was pressed since the scope began or since the last take(); resets the flag.
  static bool take();

  /// Waits until `file` has bytes or its end to read. Returns false if Ctrl-C is or was pressed before.
  static bool wait_readable(int file);

 private:
  struct sigaction previous_ = {};
};

}  // namespace rocmforge::app
