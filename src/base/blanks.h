#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace rocmforge {

/// White space of ASCII.
constexpr std::string_view blanks = " \t\r\n";

inline bool is_blank(std::string_view text) { return text.find_first_not_of(blanks) == std::string_view::npos; }

/// `text` without `characters` at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view characters = blanks) {
  const std::size_t begin = std::min(text.find_first_not_of(characters), text.size());
  return text.substr(begin, text.find_last_not_of(characters) + 1 - begin);
}

}  // namespace rocmforge
