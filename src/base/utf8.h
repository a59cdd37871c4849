#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocmforge {

/// The unit at one position of a byte string, by the Unicode standard's table of well-formed UTF-8.
struct Utf8Unit {
  enum class Kind {
    character,   ///< one whole character of `length` bytes
    invalid,     ///< `length` bytes that are not the beginning of a character: the longest sequence that one U+FFFD replaces
    incomplete,  ///< the string ends inside a character, after `length` of its bytes
  };
  Kind kind = Kind::character;
  std::size_t length = 1;
};

/// The unit at `position`, which must be inside the text.
Utf8Unit utf8_unit(std::string_view text, std::size_t position);

/// The code point of one whole character. Throws LogicError for an empty text.
char32_t utf8_code_point(std::string_view character);

void append_utf8(std::string& text, char32_t code_point);

/// The text with U+FFFD in place of each invalid sequence, as many as Python's errors="replace" writes. A valid text is
/// returned unchanged; otherwise `held` owns the result.
std::string_view replace_invalid_utf8(std::string_view text, std::string& held);

/// Removes the text at the start of `bytes` and returns it, with U+FFFD in place of invalid bytes. Up to three bytes that
/// may still become a character remain in `bytes`, unless `last`.
std::string take_utf8(std::string& bytes, bool last);

}  // namespace rocmforge
