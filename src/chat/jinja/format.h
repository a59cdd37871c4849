#pragma once

#include "chat/jinja/operations.h"

namespace rocmforge::jinja {

/// Python's `format % arguments` with %s %r %d %i %x %X %o %f %e %g %c and %%. Throws TemplateError for others.
Value format_percent(Interpreter& run, const Text& format, const Value& arguments);
/// Python's str.format with {}, {0} and {name}. Throws TemplateError for a conversion or a format after ':'.
Value format_braces(Interpreter& run, const Text& format, const Arguments& arguments);
/// Appends `text`, filled with spaces up to `width` characters. With `left` the spaces come after it.
void append_padded(Text& out, const Text& text, std::size_t width, bool left);

}  // namespace rocmforge::jinja
