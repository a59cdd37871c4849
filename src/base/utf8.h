#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocmforge {

/// What stands at a place of a byte string, by the Unicode standard's table of well-formed UTF-8.
struct Utf8Unit {
  enum class Kind {
    character,   ///< a whole character of `length` bytes
    invalid,     ///< `length` bytes that can't begin a character (the longest such stretch that one U+FFFD replaces)
    incomplete,  ///< the string ends inside a character, of which `length` bytes are there
  };
  Kind kind = Kind::character;
  std::size_t length = 1;
};

/// `position` must lie inside the text.
Utf8Unit utf8_unit(std::string_view text, std::size_t position);

/// The code point of a whole character.
char32_t utf8_code_point(std::string_view character);

void append_utf8(std::string& text, char32_t code_point);

/// The text with one U+FFFD for each stretch that is no UTF-8, as many as Python's errors="replace" gives. A text that is
/// UTF-8 comes back as it is; else `held` keeps the result.
std::string_view replace_invalid_utf8(std::string_view text, std::string& held);

/// Takes the leading bytes that form text out of `bytes`; invalid ones come back as U+FFFD. Up to three bytes that may
/// still become a character stay behind, unless `last`.
std::string take_utf8(std::string& bytes, bool last);

}  // namespace rocmforge
