#include "chat/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

/// The source with "\n" as line ends and without the one at its end.
std::string normalize(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) {
    out.pop_back();
  }
  return out;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_begin(c) || is_digit(c); }

int digit_value(char c) {
  if (is_digit(c)) {
    return c - '0';
  }
  const char small = static_cast<char>(c | 0x20);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : 99;
}

class Lexer {
 public:
  Lexer(std::string source, std::size_t most) : source_(std::move(source)), most_(most) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      read_data();
    }
    emit(Token::Kind::end, "", at_);
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(at_); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  Position position(std::size_t byte) {
    while (counted_ < byte) {
      const std::size_t size = character_bytes(source_, counted_);
      const bool ends_line = source_[counted_] == '\n';
      place_ = ends_line ? Position{place_.line + 1, 1} : Position{place_.line, place_.column + 1};
      counted_ += size;
    }
    return place_;
  }

  void emit(Token::Kind kind, std::string text, std::size_t byte) {
    if (tokens_.size() >= most_) {
      fail(byte, fmt::format("a template of more than {} tokens", most_));
    }
    tokens_.push_back({kind, std::move(text), position(byte)});
  }
  [[noreturn]] void fail(std::size_t byte, const std::string& message) { throw TemplateError(position(byte), message); }

  void read_data();
  void emit_data(std::size_t begin, std::size_t end, char sign, bool is_block);
  void skip_comment(std::size_t begin);
  bool read_raw(std::size_t begin);
  void read_tag(bool is_output);
  bool read_tag_end(bool is_output);
  void read_token();
  void read_number();
  void read_text();
  void read_symbol();
  std::string unescape(std::string_view raw, std::size_t byte);
  void skip_space_here() { at_ = skip_space(source_, at_); }

  const std::string source_;
  const std::size_t most_;
  std::vector<Token> tokens_;
  std::vector<char> open_;  // the closing brackets that must still come
  std::size_t at_ = 0;
  std::size_t counted_ = 0;
  Position place_;
  bool line_begins_ = true;  // the last text that was read ended a line
};

void Lexer::read_data() {
  std::size_t begin = at_;
  while (true) {
    begin = source_.find('{', begin);
    if (begin == std::string::npos) {
      emit_data(at_, source_.size(), '+', true);
      at_ = source_.size();
      return;
    }
    const char kind = begin + 1 < source_.size() ? source_[begin + 1] : '\0';
    if (kind == '{' || kind == '%' || kind == '#') {
      break;
    }
    ++begin;
  }
  const char kind = source_[begin + 1];
  const std::size_t after = begin + 2;
  const char sign = after < source_.size() && (source_[after] == '-' || source_[after] == '+') ? source_[after] : ' ';
  emit_data(at_, begin, sign, kind != '{');
  at_ = after + (sign == ' ' ? 0 : 1);
  line_begins_ = false;
  if (kind == '#') {
    skip_comment(begin);
  } else if (kind == '{' || !read_raw(begin)) {
    emit(kind == '{' ? Token::Kind::output_begin : Token::Kind::block_begin, std::string(source_.substr(begin, 2)), begin);
    read_tag(kind == '{');
  }
}

void Lexer::emit_data(std::size_t begin, std::size_t end, char sign, bool is_block) {
  std::string_view data = std::string_view(source_).substr(begin, end - begin);
  if (sign == '-') {
    data = data.substr(0, end_without_space(data));
  } else if (sign != '+' && is_block) {
    const std::size_t line = data.rfind('\n') + 1;  // 0 when there is none
    if ((line > 0 || line_begins_) && skip_space(data, line) == data.size()) {
      data = data.substr(0, line);
    }
  }
  if (!data.empty()) {
    emit(Token::Kind::data, std::string(data), begin);
  }
}

void Lexer::skip_comment(std::size_t begin) {
  const std::size_t end = source_.find("#}", at_);
  if (end == std::string::npos) {
    fail(begin, "the comment does not end");
  }
  const char sign = end > at_ ? source_[end - 1] : ' ';
  at_ = end + 2;
  if (sign == '-') {
    skip_space_here();
  } else if (sign != '+' && peek() == '\n') {
    ++at_;
  }
  line_begins_ = source_[at_ - 1] == '\n';
}

/// Reads a raw block if the current tag begins one.
bool Lexer::read_raw(std::size_t begin) {
  std::size_t byte = skip_space(source_, at_);
  const std::string_view source = source_;
  if (!source.substr(byte).starts_with("raw")) {
    return false;
  }
  byte = skip_space(source, byte + 3);
  const bool strips = source.substr(byte).starts_with("-%}");
  if (!strips && !source.substr(byte).starts_with("%}")) {
    return false;
  }
  at_ = byte + (strips ? 3 : 2);
  if (strips) {
    skip_space_here();
  }
  line_begins_ = source_[at_ - 1] == '\n';
  for (std::size_t end = source.find("{%", at_); end != std::string_view::npos; end = source.find("{%", end + 1)) {
    std::size_t after = end + 2;
    const char sign = after < source.size() && (source[after] == '-' || source[after] == '+') ? source[after++] : ' ';
    after = skip_space(source, after);
    if (!source.substr(after).starts_with("endraw")) {
      continue;
    }
    after = skip_space(source, after + 6);
    const char closing = after < source.size() && (source[after] == '-' || source[after] == '+') ? source[after++] : ' ';
    if (!source.substr(after).starts_with("%}")) {
      continue;
    }
    emit_data(at_, end, sign, true);
    at_ = after + 2;
    if (closing == '-') {
      skip_space_here();
    } else if (closing == ' ' && peek() == '\n') {
      ++at_;
    }
    line_begins_ = source_[at_ - 1] == '\n';
    return true;
  }
  fail(begin, "the raw block does not end");
}

void Lexer::read_tag(bool is_output) {
  const std::size_t begin = at_;
  open_.clear();
  while (true) {
    skip_space_here();
    if (at_ >= source_.size()) {
      fail(begin, is_output ? "the expression does not end with '}}'" : "the tag does not end with '%}'");
    }
    if (open_.empty() && read_tag_end(is_output)) {
      return;
    }
    read_token();
  }
}

bool Lexer::read_tag_end(bool is_output) {
  const std::size_t begin = at_;
  const char sign = peek() == '-' || (peek() == '+' && !is_output) ? peek() : ' ';
  const std::size_t mark = at_ + (sign == ' ' ? 0 : 1);
  if (!std::string_view(source_).substr(mark).starts_with(is_output ? "}}" : "%}")) {
    return false;
  }
  at_ = mark + 2;
  if (sign == '-') {
    skip_space_here();
  } else if (!is_output && sign == ' ' && peek() == '\n') {
    ++at_;
  }
  line_begins_ = source_[at_ - 1] == '\n';
  emit(is_output ? Token::Kind::output_end : Token::Kind::block_end, is_output ? "}}" : "%}", begin);
  return true;
}

void Lexer::read_token() {
  const std::size_t begin = at_;
  const char c = peek();
  if (is_digit(c)) {
    read_number();
  } else if (is_name_begin(c)) {
    while (is_name_part(peek())) {
      ++at_;
    }
    emit(Token::Kind::name, std::string(source_.substr(begin, at_ - begin)), begin);
  } else if (c == '\'' || c == '"') {
    read_text();
  } else {
    read_symbol();
  }
}

void Lexer::read_number() {
  const std::size_t begin = at_;
  const auto skip_digits = [&](int base) {
    while (digit_value(peek()) < base || (peek() == '_' && digit_value(peek(1)) < base)) {
      ++at_;
    }
  };
  const bool after_dot = begin > 0 && source_[begin - 1] == '.';
  const char prefix = peek() == '0' ? static_cast<char>(peek(1) | 0x20) : ' ';
  const int base = prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 10));
  bool is_real = false;
  if (base != 10) {
    at_ += 2;
    skip_digits(base);
  } else {
    skip_digits(10);
    if (!after_dot && peek() == '.' && is_digit(peek(1))) {
      is_real = true;
      ++at_;
      skip_digits(10);
    }
    const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if (!after_dot && (peek() | 0x20) == 'e' && is_digit(peek(sign))) {
      is_real = true;
      at_ += sign;
      skip_digits(10);
    }
  }
  std::string digits(source_.substr(begin, at_ - begin));
  std::erase(digits, '_');
  emit(is_real ? Token::Kind::real : Token::Kind::integer, std::move(digits), begin);
}

void Lexer::read_text() {
  const std::size_t begin = at_;
  const char quote = source_[at_++];
  while (at_ < source_.size() && source_[at_] != quote) {
    at_ += source_[at_] == '\\' ? 2 : 1;
  }
  if (at_ >= source_.size()) {
    fail(begin, "the text does not end");
  }
  ++at_;
  const std::string_view raw = std::string_view(source_).substr(begin + 1, at_ - begin - 2);
  emit(Token::Kind::text, raw.find('\\') == std::string_view::npos ? std::string(raw) : unescape(raw, begin), begin);
}

/// Replaces Python's escapes in a text. Unknown escapes are kept.
std::string Lexer::unescape(std::string_view raw, std::size_t byte) {
  constexpr std::string_view letters = "abfnrtv\\'\"";
  constexpr std::string_view meanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    const char kind = raw[++i];
    const std::size_t named = letters.find(kind);
    const std::size_t hex_digits = kind == 'x' ? 2 : (kind == 'u' ? 4 : (kind == 'U' ? 8 : 0));
    if (named != std::string_view::npos) {
      out += meanings[named];
    } else if (kind == '\n') {
      continue;
    } else if (hex_digits > 0 || (kind >= '0' && kind <= '7')) {
      const int base = hex_digits > 0 ? 16 : 8;
      const std::size_t most = hex_digits > 0 ? hex_digits : 3;
      std::size_t next = hex_digits > 0 ? i + 1 : i;
      const std::size_t first = next;
      std::uint32_t code = 0;
      while (next < raw.size() && next - first < most && digit_value(raw[next]) < base) {
        code = code * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit_value(raw[next++]));
      }
      if ((hex_digits > 0 && next - first < hex_digits) || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        fail(byte, "an escape in the text is not a character");
      }
      append_utf8(out, code);
      i = next - 1;
    } else if (kind == 'N') {
      fail(byte, "characters by name (\\N) are not supported");
    } else {
      out += '\\';
      out += kind;
    }
  }
  return out;
}

void Lexer::read_symbol() {
  constexpr std::array<std::string_view, 6> pairs = {"//", "**", "==", "!=", ">=", "<="};
  constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
  const std::size_t begin = at_;
  const auto pair = std::ranges::find_if(pairs, [&](std::string_view each) { return rest().starts_with(each); });
  if (pair == pairs.end() && singles.find(peek()) == std::string_view::npos) {
    fail(begin, fmt::format("unexpected '{}'", rest().substr(0, character_bytes(rest(), 0))));
  }
  const std::string symbol(pair != pairs.end() ? *pair : rest().substr(0, 1));
  constexpr std::string_view openers = "([{";
  constexpr std::string_view closers = ")]}";
  if (const std::size_t kind = openers.find(symbol[0]); kind != std::string_view::npos) {
    open_.push_back(closers[kind]);
  } else if (closers.find(symbol[0]) != std::string_view::npos) {
    if (open_.empty() || open_.back() != symbol[0]) {
      fail(begin, fmt::format("unexpected '{}'{}", symbol, open_.empty() ? "" : fmt::format(", '{}' is due", open_.back())));
    }
    open_.pop_back();
  }
  at_ += symbol.size();
  emit(Token::Kind::symbol, symbol, begin);
}

}  // namespace

std::vector<Token> tokenize(std::string_view source, std::size_t most) { return Lexer(normalize(source), most).run(); }

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the template";
    case Token::Kind::data:
      return "text outside of tags";
    case Token::Kind::text:
      return "a text";
    default:
      return fmt::format("'{}'", token.text);
  }
}

}  // namespace rocmforge::jinja
