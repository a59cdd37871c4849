#pragma once

#include <string>
#include <string_view>

namespace rocmforge::jinja {

enum class CharacterKind { printable, letter, digit, numeric, upper, lower };

/// Whether one UTF-8 character is of a kind, as Python's str.is... methods define it.
bool is_kind(CharacterKind kind, std::string_view character);

/// Maps each character by Unicode's simple case mapping, except that "ß" becomes "SS". Text that is not UTF-8 has only its
/// ASCII letters mapped.
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

}  // namespace rocmforge::jinja
