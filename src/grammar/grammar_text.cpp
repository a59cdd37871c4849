#include "grammar/grammar_text.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

std::string escaped(char32_t code_point, std::string_view special) {
  if (code_point == '\n') {
    return "\\n";
  }
  if (code_point < 0x20 || code_point == 0x7F) {
    return fmt::format("\\x{:02X}", static_cast<unsigned>(code_point));
  }
  std::string text;
  if (code_point < 0x80 && special.find(static_cast<char>(code_point)) != std::string_view::npos) {
    text = "\\";
  }
  // Characters beyond ASCII are written as numbers, because they may be invisible.
  if (code_point < 0x80) {
    return text += static_cast<char>(code_point);
  }
  return code_point < 0x10000 ? fmt::format("\\u{:04X}", static_cast<unsigned>(code_point))
                              : fmt::format("\\U{:08X}", static_cast<unsigned>(code_point));
}

}  // namespace

std::string GrammarText::reserve(std::string_view hint) {
  std::string name;
  for (const char c : hint.substr(0, 40)) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    name += fits ? c : '-';
  }
  return fmt::format("{}-{}", name.empty() ? "rule" : name, rules_++);  // searching for a free name could take long
}

void GrammarText::define(const std::string& name, std::string_view body) {
  if (text_.size() + body.size() > longest_grammar_bytes) {
    throw Error(fmt::format("json_schema: too large: it takes a grammar of more than {} bytes", longest_grammar_bytes));
  }
  text_ += fmt::format("{} ::= {}\n", name, body);
}

std::string GrammarText::add(std::string_view hint, std::string_view body) {
  std::string name = reserve(hint);
  define(name, body);
  return name;
}

std::string GrammarText::add_once(std::string_view hint, const std::string& body) {
  std::string& name = shared_[body];
  if (name.empty()) {
    name = add(hint, body);
  }
  return name;
}

std::string GrammarText::literal(std::string_view text) {
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_unit(text, i).length;
    const char32_t code_point = utf8_code_point(text.substr(i, length));
    if (code_point < 0x80) {
      quoted += escaped(code_point, "\"\\");
    } else {
      quoted += text.substr(i, length);
    }
    i += length;
  }
  return quoted += '"';
}

std::string GrammarText::characters(const std::vector<CodeRange>& ranges) {
  std::string text = "[";
  for (const CodeRange& range : ranges) {
    text += escaped(range.first, "\\]-^[");
    if (range.last > range.first) {
      text += '-';
      text += escaped(range.last, "\\]-^[");
    }
  }
  return text += ']';
}

std::string GrammarText::repetition(std::uint64_t minimum, std::uint64_t maximum) {
  const bool endless = maximum == GrammarExpression::unbounded;
  if (endless) {
    return minimum == 0 ? "*" : minimum == 1 ? "+" : fmt::format("{{{},}}", minimum);
  }
  if (minimum == maximum) {
    return minimum == 1 ? "" : fmt::format("{{{}}}", minimum);
  }
  return minimum == 0 && maximum == 1 ? "?" : fmt::format("{{{},{}}}", minimum, maximum);
}

std::string GrammarText::choice(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += (text.empty() ? "" : " | ") + part;
  }
  return text;
}

}  // namespace rocmforge
