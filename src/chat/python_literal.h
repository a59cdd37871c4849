#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

/// Converts a value in Python's or JSON's notation to JSON text: numbers, strings in either quotes, True, False, None, and
/// lists, tuples and dictionaries of these. Empty for anything else.
std::optional<std::string> json_of_literal(std::string_view text);

/// Converts JSON text to Python's notation: True, False and None.
std::string python_of_json(std::string_view json);

}  // namespace rocmforge
