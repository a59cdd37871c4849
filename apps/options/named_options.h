#pragma once

#include <span>
#include <string>

#include "command.h"

namespace rocmforge::app {

/// Sets the command's options from texts such as "context=4096" and "greedy": their names on the command line without the
/// dashes; '_' may replace '-' in a name. A flag takes no value, or true or false; a list takes all its repetitions. An
/// option given here resets the options that it excludes or that exclude it. With `environment`, options that are not given
/// take the values of their environment variables. Throws UsageError with the messages of the command line.
void read_named_options(Command& command, std::span<const std::string> texts, bool environment);

}  // namespace rocmforge::app
