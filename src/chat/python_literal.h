#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

/// The JSON text of a value that Python or JSON writes so: numbers, strings in either quotes, True, False, None, lists,
/// tuples and dictionaries of these. Empty for anything else.
std::optional<std::string> json_of_literal(std::string_view text);

/// A JSON text as Python writes it: True, False and None.
std::string python_of_json(std::string_view json);

}  // namespace rocmforge
