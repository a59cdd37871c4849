#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace rocmforge::app {

/// Sets the option's target. If an option with one value is repeated, the last value counts. Throws UsageError for a value
/// that the option does not take: "--batch is 0, must be 1 to 65536".
void assign(const Option& option, const std::vector<std::string>& texts);

/// A description of the option's values: "1 to 65536", "text or json"; "" for any value.
std::string describe_values(const Option& option);

/// The target's number or text, as text; "" for targets of other types.
std::string default_text(const Option& option);

/// The value's name in help: "N", "TEXT".
std::string value_name(const Option& option);

/// Whether its value is a whole number, any number, text, or several texts.
enum class ValueKind { flag, integer, number, text, texts };
ValueKind value_kind(const Option& option);

}  // namespace rocmforge::app
