#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "command.h"

namespace rocmforge::app {

/// What --help prints. `full_name` is "rocmforge bench matmul".
std::string help_text(const Command& command, const std::string& full_name, std::size_t width);

/// The same for programs: names, meanings, defaults, limits, and the commands below.
nlohmann::ordered_json help_json(const Command& command);

}  // namespace rocmforge::app
