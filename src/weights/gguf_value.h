#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

// Conversions of metadata values. Each throws Error ("is a string, an integer was expected") for a value of another kind.

std::int64_t to_integer(const GgufValue& value);
double to_number(const GgufValue& value);
bool to_boolean(const GgufValue& value);
const std::string& to_string(const GgufValue& value);
const std::vector<std::string>& to_strings(const GgufValue& value);
/// A scalar gives one element; booleans in an array count as 0 and 1.
std::vector<std::int64_t> to_integers(const GgufValue& value);
std::vector<double> to_numbers(const GgufValue& value);

/// "a string", "an array of u32"
std::string describe(const GgufValue& value);

/// `text` in single quotes, fit for one line of a message: control characters escaped, shortened when long.
std::string quote(std::string_view text);

}  // namespace rocmforge
