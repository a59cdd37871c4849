#pragma once

#include "chat/jinja/operations.h"

namespace rocmforge::jinja {

/// Python's `format % arguments` with %s %r %d %i %x %X %o %f %e %g %c and %%.
Value format_percent(Interpreter& run, const Text& format, const Value& arguments);
/// str.format with {}, {0} and {name}; a conversion or a format after ':' is an error.
Value format_braces(Interpreter& run, const Text& format, const Arguments& arguments);
/// printf's flags, width and precision for a text: "%-10.3s".
void append_padded(Text& out, const Text& text, std::size_t width, bool left);

}  // namespace rocmforge::jinja
