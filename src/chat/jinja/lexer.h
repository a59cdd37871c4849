#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/template_error.h"

namespace rocmforge::jinja {

struct Token {
  enum class Kind { data, output_begin, output_end, block_begin, block_end, name, text, integer, real, symbol, end };
  Kind kind = Kind::end;
  std::string text;  ///< data and texts: their content without escapes; others: as in the template
  Position position;
};

/// The tokens of a template, read like Jinja with trim_blocks and lstrip_blocks. The line end after a block tag is removed,
/// and so are the spaces before a block tag that is the first in its line. '-' removes all white space on its side, and '+'
/// keeps it. One line end at the end of the template is removed. The last token is `end`. Throws TemplateError, also for
/// more than `most` tokens.
std::vector<Token> tokenize(std::string_view source, std::size_t most);

/// The token's name in messages: "end of the template", "'name'" ...
std::string describe(const Token& token);

}  // namespace rocmforge::jinja
