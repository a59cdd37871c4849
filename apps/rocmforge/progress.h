#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rocmforge::app {

/// Says on standard error what is going on once it has taken a second: on a terminal one line that is rewritten and then
/// cleared, elsewhere one plain line. A thread of its own writes, so that one long step shows too.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The share that is done, 0 to 1, and what to show with it. Any thread may call it.
  void update(double fraction, std::string detail = {});

 private:
  void show(const std::stop_token& stop);

  std::string label_;
  std::string detail_;
  double fraction_ = -1.0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace rocmforge::app
