#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/gguf_file.h"

namespace rocmforge {

// Conversions of metadata values. Each throws Error ("is a string, an integer was expected") for a value of another type.

std::int64_t to_integer(const GgufValue& value);
double to_number(const GgufValue& value);
bool to_boolean(const GgufValue& value);
const std::string& to_string(const GgufValue& value);
const std::vector<std::string>& to_strings(const GgufValue& value);
/// A scalar becomes one element. Booleans of an array become 0 and 1.
std::vector<std::int64_t> to_integers(const GgufValue& value);
std::vector<double> to_numbers(const GgufValue& value);

/// The type of a value in words: "a string", "an array of u32".
std::string describe(const GgufValue& value);

/// `text` in single quotes for one line of a message: control characters are escaped, and a long text is shortened.
std::string quote(std::string_view text);

}  // namespace rocmforge
