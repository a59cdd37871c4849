#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rocmforge {

/// Reports a step that does not end in its time. A thread of its own looks at the clock, since the thread of the step may
/// wait for a kernel for ever.
class StepWatch {
 public:
  /// Called once, by the watch's thread, with a line that names the time and the last launches.
  using OnTimeout = std::function<void(const std::string& line)>;

  explicit StepWatch(OnTimeout on_timeout);
  ~StepWatch();
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  /// A step, or its next part, has to end within `limit` from now.
  void begin(std::chrono::milliseconds limit);
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();

  OnTimeout on_timeout_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Clock::time_point> deadline_;
  std::chrono::milliseconds limit_{0};
  bool stopping_ = false;
  bool sleeping_ = false;  ///< until there is a deadline
  std::thread thread_;
};

}  // namespace rocmforge
