#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

namespace rocmforge {

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    stops_.emplace_back(text);
  }
}

std::string StopStrings::add(std::string_view text) {
  if (stopped_) {
    return {};
  }
  for (const char byte : text) {
    held_.push_back(byte);
    for (TextMatch& stop : stops_) {
      if (stop.add(byte)) {
        seen_ = stop.matched() > seen_.size() ? stop.text() : seen_;
        stopped_ = true;
      }
    }
    if (stopped_) {
      held_.resize(held_.size() - seen_.size());
      return std::exchange(held_, {});
    }
  }
  std::size_t kept = 0;
  for (const TextMatch& stop : stops_) {
    kept = std::max(kept, stop.matched());
  }
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace rocmforge
