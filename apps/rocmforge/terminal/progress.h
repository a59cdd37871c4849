#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rocmforge::app {

/// Shows the progress of work that takes more than a second on standard error: on a terminal in one line that is rewritten
/// and then cleared, elsewhere in one plain line. A separate thread writes it, so that a single long step is shown too.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Sets the completed share, 0 to 1, and a text to show with it. Any thread may call it.
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
