#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace rocmforge::app {

/// Whether text to this stream may be coloured: a terminal that is not dumb, and NO_COLOR is not set.
bool has_colour(std::FILE* stream);

/// Columns of the stream's terminal; `otherwise` without one.
std::size_t terminal_width(std::FILE* stream, std::size_t otherwise);

enum class Style { plain, bold, dim, red, green };

/// `text` in a style, if the stream takes colours.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Columns of UTF-8 text on a terminal: two for wide characters, none for combining marks.
std::size_t column_width(std::string_view text);

/// `text` in lines of at most `width` columns, broken between words; lines after the first begin with `indent` blanks.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace rocmforge::app
