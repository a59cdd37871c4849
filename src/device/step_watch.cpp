#include "device/step_watch.h"

#include <fmt/format.h>

#include <utility>

#include "device/launch_trace.h"

namespace rocmforge {

StepWatch::StepWatch(OnTimeout on_timeout) : on_timeout_(std::move(on_timeout)) {
  thread_ = std::thread([this] { watch(); });
}

StepWatch::~StepWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// The watch sleeps until the deadline that it knows, also when that step has ended before. So a step wakes it only once in a
// long time, and costs no switch of threads.
void StepWatch::begin(std::chrono::milliseconds limit) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    wake = sleeping_ || limit < limit_;
    deadline_ = Clock::now() + limit;
    limit_ = limit;
  }
  if (wake) {
    changed_.notify_all();
  }
}

void StepWatch::end() {
  const std::lock_guard lock(mutex_);
  deadline_.reset();
}

void StepWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!deadline_) {
      sleeping_ = true;
      changed_.wait(lock, [this] { return stopping_ || deadline_.has_value(); });
      sleeping_ = false;
    } else if (Clock::now() >= *deadline_) {
      deadline_.reset();
      const double seconds = static_cast<double>(limit_.count()) / 1000.0;
      const std::string line = fmt::format("a step has not ended in {:.1f} s; {}", seconds, launched_last());
      lock.unlock();
      on_timeout_(line);
      return;
    } else {
      const Clock::time_point known = *deadline_;
      changed_.wait_until(lock, known, [&] { return stopping_ || (deadline_ && *deadline_ < known); });
    }
  }
}

}  // namespace rocmforge
