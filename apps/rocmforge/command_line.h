#pragma once

#include <functional>
#include <string>
#include <vector>

#include "command.h"

namespace rocmforge::app {

/// Sets the options of the command that `arguments` name; returns its action. Throws UsageError with one line that refers to
/// the command's help.
std::function<int()> read_command_line(const Command& program, std::vector<std::string> arguments);

}  // namespace rocmforge::app
