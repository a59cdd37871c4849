#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace rocmforge::app {

/// Sets the options of the command that `arguments` name; returns the action. Throws UsageError, in
/// one line that says where to read on.
std::function<int()> read_command_line(const Command& program, std::vector<std::string> arguments);

}  // namespace rocmforge::app
