#include "hub/retry.h"

#include <algorithm>
#include <cmath>

namespace rocmforge::hub {

bool Retry::pause(const std::string& reason, int asked_seconds) {
  constexpr int most_at_first = 4;
  constexpr int most_later = 10;
  constexpr double shortest = 0.1;
  constexpr double longest = 15.0;
  constexpr int longest_asked = 120;
  if (++failures_ >= (has_begun_ ? most_later : most_at_first) || asked_seconds > longest_asked) {
    return false;
  }
  const double seconds = std::max<double>(asked_seconds, std::min(longest, std::ldexp(shortest, failures_)));
  if (on_wait_) {
    on_wait_(reason, seconds);
  }
  client_.sleep(seconds);
  return true;
}

bool may_pass(long status) { return status == 408 || status == 429 || (status >= 500 && status <= 599 && status != 501); }

}  // namespace rocmforge::hub
