#include "terminal/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace rocmforge::app {

using namespace std::chrono_literals;

Progress::Progress(std::string label)
    : label_(std::move(label)), thread_([this](const std::stop_token& stop) { show(stop); }) {}

Progress::~Progress() {
  thread_.request_stop();
  thread_.join();
}

void Progress::update(double fraction, std::string detail) {
  const std::scoped_lock lock(mutex_);
  fraction_ = fraction;
  detail_ = std::move(detail);
}

void Progress::show(const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, 1s, [] { return false; });
  if (stop.stop_requested()) {
    return;
  }
  if (!terminal) {
    fmt::print(stderr, "{} ...\n", label_);
    return;
  }
  while (!stop.stop_requested()) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const std::string share = fraction_ >= 0.0 ? fmt::format(" {:.0f} %", 100.0 * fraction_) : "";
    fmt::print(stderr, "\r\033[K{}{}{}{} ({:.0f} s)", label_, share, detail_.empty() ? "" : ", ", detail_, seconds);
    std::fflush(stderr);
    changed_.wait_for(lock, stop, 200ms, [] { return false; });
  }
  fmt::print(stderr, "\r\033[K");
}

}  // namespace rocmforge::app
