#pragma once

#include <chrono>

namespace rocmforge::app {

/// Seconds since a run began.
class LoadClock {
 public:
  using Base = std::chrono::steady_clock;

  [[nodiscard]] double now() const { return std::chrono::duration<double>(Base::now() - begin_).count(); }
  [[nodiscard]] Base::time_point at(double seconds) const {
    return begin_ + std::chrono::duration_cast<Base::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  Base::time_point begin_ = Base::now();
};

}  // namespace rocmforge::app
