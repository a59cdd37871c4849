#pragma once

#include <string>
#include <string_view>

namespace rocmforge {

/// How vocabularies of SentencePiece's kind write a space.
inline constexpr std::string_view space_mark = "\u2581";

/// `text` with marks for its spaces.
void append_marked(std::string& to, std::string_view text);
/// The reverse, of a token.
std::string unmarked(std::string_view text);

/// The value of a "<0xHH>" token, or -1.
int byte_of(std::string_view text);

}  // namespace rocmforge
