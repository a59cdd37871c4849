#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rocmforge::test {

/// Ends the program with exit code 3 where a case does not end in its time, and names the case and what was launched last.
class CaseWatch : public testing::EmptyTestEventListener {
 public:
  static constexpr int exit_code = 3;

  explicit CaseWatch(std::chrono::seconds limit) : limit_(limit), thread_([this] { watch(); }) {}
  ~CaseWatch() override;
  CaseWatch(const CaseWatch&) = delete;
  CaseWatch& operator=(const CaseWatch&) = delete;

  void OnTestStart(const testing::TestInfo& test) override;
  void OnTestEnd(const testing::TestInfo& test) override;

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  void set(std::string name);

  const std::chrono::seconds limit_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::string name_;  ///< of the running case; empty between cases
  Clock::time_point started_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rocmforge::test
