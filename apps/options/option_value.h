#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace rocmforge::app {

/// Gives the option's target what the command line says; of a repeated option with one value the last counts. Throws
/// UsageError for a value that it does not take: "--batch is 0, must be 1 to 65536".
void assign(const Option& option, const std::vector<std::string>& texts);

/// What the option takes, in words: "1 to 65536", "text or json"; "" for anything.
std::string describe_values(const Option& option);

/// The target's value as it would be written; "" where there is none to speak of.
std::string default_text(const Option& option);

/// How help calls the value: "N", "TEXT".
std::string value_name(const Option& option);

/// Whether its value is a whole number, any number, text, or several texts.
enum class ValueKind { flag, integer, number, text, texts };
ValueKind value_kind(const Option& option);

}  // namespace rocmforge::app
