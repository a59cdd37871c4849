#include "comma_list.h"

#include "base/split.h"

namespace rocmforge::app {

std::vector<std::string> split_at_commas(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ',');
  return {parts.begin(), parts.end()};
}

}  // namespace rocmforge::app
