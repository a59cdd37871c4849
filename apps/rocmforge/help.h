#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "command.h"

namespace rocmforge::app {

/// The text of --help. `full_name` is "rocmforge bench matmul".
std::string help_text(const Command& command, const std::string& full_name, std::size_t width);

/// The same as JSON: names, meanings, defaults, limits, and the subcommands.
nlohmann::ordered_json help_json(const Command& command);

}  // namespace rocmforge::app
