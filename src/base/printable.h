#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocmforge {

/// Untrusted text in a form that is safe in one line of a terminal or a log. Control characters, line ends, marks that
/// change the direction of writing and bytes that are not UTF-8 become escapes. After `most` bytes the rest is left out, and
/// the result ends with the number of missing bytes.
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

/// The limit for messages: a text from a file may be of any length.
constexpr std::size_t longest_line = 8000;

}  // namespace rocmforge
