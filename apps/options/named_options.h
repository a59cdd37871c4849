#pragma once

#include <span>
#include <string>

#include "command.h"

namespace rocmforge::app {

/// Gives the command's options what texts such as "context=4096" and "greedy" say: their names on the command line without
/// the dashes, '_' as good as '-' within. A flag takes no value, or true or false; a list takes all its repetitions. What an
/// option given here excludes, and the option that excludes it, lose what they were given before. With `environment` options
/// that are not given take the values of their variables. Throws UsageError in the words of the command line.
void read_named_options(Command& command, std::span<const std::string> texts, bool environment);

}  // namespace rocmforge::app
