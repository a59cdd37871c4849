#include "engine/step_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "device/launch_trace.h"

namespace rocmforge {
namespace {

constexpr std::size_t named_launches = 4;

std::string timeout_line(std::chrono::milliseconds limit) {
  const std::vector<std::string> names = launch_trace().last(named_launches);
  return fmt::format("a step has not ended in {:.1f} s; launched last: {}", static_cast<double>(limit.count()) / 1000.0,
                     names.empty() ? std::string("nothing") : fmt::format("{}", fmt::join(names, ", ")));
}

}  // namespace

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
      const std::string line = timeout_line(limit_);
      lock.unlock();
      on_timeout_(line);
      return;
    } else {
      const Clock::time_point known = *deadline_;
      changed_.wait_until(lock, known, [&] { return stopping_ || (deadline_ && *deadline_ < known); });
    }
  }
}

std::chrono::milliseconds step_time_bound(const StepWork& work) {
  const double flops = 2.0 * work.parameters * work.tokens + 4.0 * work.pairs * work.width;
  const double seconds = 30.0 + flops / (work.on_gpu ? 1e11 : 1e9) + work.bytes_to_read / 2e7;
  constexpr double longest = 1e6;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, longest) * 1000.0));
}

}  // namespace rocmforge
