#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::app {

/// The parts of "a,b,c"; an empty text is one empty part.
std::vector<std::string> split_at_commas(std::string_view text);

}  // namespace rocmforge::app
