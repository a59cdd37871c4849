#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/step_watch.h"

namespace rocmforge::test {

/// Ends the program with exit code 3 where a case does not end in its time, and names the case and what was launched last.
class CaseWatch : public testing::EmptyTestEventListener {
 public:
  static constexpr int exit_code = 3;

  explicit CaseWatch(std::chrono::seconds limit) : limit_(limit), watch_([this](const std::string& line) { end(line); }) {}

  void OnTestStart(const testing::TestInfo& test) override {
    name_ = std::string(test.test_suite_name()) + "." + test.name();
    watch_.begin(limit_);
  }
  void OnTestEnd(const testing::TestInfo&) override { watch_.end(); }

 private:
  /// The thread of the case waits for the kernel: nothing else can end the program.
  [[noreturn]] void end(const std::string& line) const {
    std::printf("HANGS: %s: %s\n", name_.c_str(), line.c_str());
    std::fflush(stdout);
    std::_Exit(exit_code);
  }

  const std::chrono::milliseconds limit_;
  std::string name_;  ///< of the running case; written before the watch begins
  StepWatch watch_;
};

}  // namespace rocmforge::test
