#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rocmforge {

/// A text from outside, fit for one line of a terminal or a log: control characters, line ends, marks that turn the
/// direction of writing and what is no UTF-8 stand as escapes. What is behind `most` bytes is left out, which the end says.
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

/// Enough for any message; a file's own texts may be of any length.
constexpr std::size_t longest_line = 8000;

}  // namespace rocmforge
