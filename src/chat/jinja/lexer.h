#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/template_error.h"

namespace rocmforge::jinja {

struct Token {
  enum class Kind { data, output_begin, output_end, block_begin, block_end, name, text, integer, real, symbol, end };
  Kind kind = Kind::end;
  std::string text;  ///< of data and texts the meaning, escapes resolved; of all others what the template says
  Position position;
};

/// A template's tokens, read as Jinja does with trim_blocks and lstrip_blocks on: the line end after a block tag goes away,
/// and so does the space before one that begins a line; '-' takes all white space on its side, '+' none. One line end at the
/// template's end goes away too. The last token is `end`. Throws TemplateError, also for more than `most` tokens.
std::vector<Token> tokenize(std::string_view source, std::size_t most);

/// "end of the template", "'name'" ...: what stands there, for messages.
std::string describe(const Token& token);

}  // namespace rocmforge::jinja
