#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "check/check_child.h"

namespace rocmforge::app {

/// A CheckPage in memory that a process shares with its children.
class SharedCheckPage {
 public:
  /// Throws Error where there is no memory.
  SharedCheckPage();
  ~SharedCheckPage();
  SharedCheckPage(const SharedCheckPage&) = delete;
  SharedCheckPage& operator=(const SharedCheckPage&) = delete;
  [[nodiscard]] CheckPage& operator*() const { return *page_; }

 private:
  void* memory_ = nullptr;
  CheckPage* page_ = nullptr;
};

/// A child process that runs run_check_child(), and whose lines are read. It is killed at the end, and with its parent.
class CheckProcess {
 public:
  /// Throws Error where there is no process.
  CheckProcess(const MakeCheckSetUp& make, const ChildTask& task, CheckPage& page);
  ~CheckProcess();
  CheckProcess(const CheckProcess&) = delete;
  CheckProcess& operator=(const CheckProcess&) = delete;

  /// Appends what arrives within `time`. False at the end of the pipe.
  bool read(std::chrono::milliseconds time);
  /// The next whole line; empty when there is none yet.
  std::optional<nlohmann::ordered_json> next_line();
  /// The status of a process that ends by itself within `time`.
  std::optional<int> wait(std::chrono::milliseconds time);
  /// Kills the process where it still runs. Returns its status; empty when the system does not end it.
  std::optional<int> kill();

 private:
  pid_t process_ = -1;
  int from_ = -1;
  std::string text_;
  std::optional<int> status_;
};

/// "signal 6 (Aborted)", "exit code 1"; empty: a process that can't be killed.
std::string end_text(std::optional<int> status);

}  // namespace rocmforge::app
