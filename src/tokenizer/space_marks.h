#pragma once

#include <string>
#include <string_view>

namespace rocmforge {

/// The character that replaces a space in vocabularies of SentencePiece's kind.
inline constexpr std::string_view space_mark = "\u2581";

/// Appends `text` with marks in place of its spaces.
void append_marked(std::string& to, std::string_view text);
/// The text of a token with spaces in place of its marks.
std::string unmarked(std::string_view text);

/// The byte of a token "<0xHH>", or -1.
int byte_of(std::string_view text);

}  // namespace rocmforge
