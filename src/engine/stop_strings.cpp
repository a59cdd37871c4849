#include "engine/stop_strings.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    check(!text.empty(), "a stop string is empty");
    Stop stop{text, std::vector<std::size_t>(text.size(), 0), 0};
    for (std::size_t i = 1; i < text.size(); ++i) {
      stop.borders[i] = advance(stop, stop.borders[i - 1], text[i]);
    }
    stops_.push_back(std::move(stop));
  }
}

std::size_t StopStrings::advance(const Stop& stop, std::size_t matched, char byte) {
  while (matched > 0 && stop.text[matched] != byte) {
    matched = stop.borders[matched - 1];
  }
  return stop.text[matched] == byte ? matched + 1 : 0;
}

std::string StopStrings::add(std::string_view text) {
  if (stopped_) {
    return {};
  }
  for (const char byte : text) {
    held_.push_back(byte);
    for (Stop& stop : stops_) {
      stop.matched = advance(stop, stop.matched, byte);
      if (stop.matched == stop.text.size()) {
        seen_ = stop.matched > seen_.size() ? stop.text : seen_;
        stopped_ = true;
      }
    }
    if (stopped_) {
      held_.resize(held_.size() - seen_.size());
      return std::exchange(held_, {});
    }
  }
  std::size_t kept = 0;
  for (const Stop& stop : stops_) {
    kept = std::max(kept, stop.matched);
  }
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace rocmforge
