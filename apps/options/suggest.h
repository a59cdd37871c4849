#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command.h"

namespace rocmforge::app {

/// The one of `known` that is most similar to `word`; "" if none is similar enough.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// "there is no option --contxt; did you mean --context? (see rocmforge run --help)". `full_name`: "rocmforge run".
std::string unknown_option(const Command& command, const std::string& full_name, const std::string& text);

}  // namespace rocmforge::app
