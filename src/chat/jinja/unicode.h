#pragma once

#include <string>
#include <string_view>

namespace rocmforge::jinja {

enum class CharacterKind { printable, letter, digit, numeric, upper, lower };

/// Whether a whole UTF-8 character is of a kind, as Python's str.is... methods see it.
bool is_kind(CharacterKind kind, std::string_view character);

/// One to one by Unicode's simple mappings, except that "ß" becomes "SS". Bytes that are not UTF-8 stay.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

}  // namespace rocmforge::jinja
