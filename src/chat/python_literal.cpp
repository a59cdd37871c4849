#include "chat/python_literal.h"

#include <cctype>
#include <utility>

#include "base/blanks.h"
#include "base/json.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The value of `count` hexadecimal digits at `begin`; empty when there are fewer.
std::optional<char32_t> hex_number(std::string_view text, std::size_t begin, std::size_t count) {
  if (begin + count > text.size()) {
    return std::nullopt;
  }
  char32_t value = 0;
  for (const char c : text.substr(begin, count)) {
    constexpr std::string_view digits = "0123456789abcdef";
    const std::size_t digit = digits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    value = value * 16 + static_cast<char32_t>(digit);
  }
  return value;
}

class Converter {
 public:
  explicit Converter(std::string_view text) : text_(text) {}

  std::optional<std::string> convert() {
    while (at_ < text_.size()) {
      if (!step()) {
        return std::nullopt;
      }
    }
    return nlohmann::json::accept(out_) ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  bool step() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      return add_string(c);
    }
    if (is_word(c) || c == '-' || c == '+' || c == '.') {
      return add_word();
    }
    const bool closes = c == ')' || c == ']' || c == '}';
    const std::size_t last = out_.find_last_not_of(blanks);
    if (closes && last != std::string::npos && out_[last] == ',') {
      out_.resize(last);
    }
    out_ += c == '(' ? '[' : (c == ')' ? ']' : c);
    ++at_;
    return true;
  }

  bool add_word() {
    std::size_t end = at_;
    while (end < text_.size() && (is_word(text_[end]) || text_[end] == '-' || text_[end] == '+' || text_[end] == '.')) {
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    out_ += word == "True" ? "true" : (word == "False" ? "false" : (word == "None" ? "null" : word));
    return true;
  }

  bool add_string(char quote) {
    std::string held;
    for (++at_; at_ < text_.size() && text_[at_] != quote;) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        add_escape(held);
      } else {
        held += text_[at_++];
      }
    }
    if (at_ == text_.size()) {
      return false;
    }
    ++at_;
    out_ += nlohmann::json(held).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return true;
  }

  /// Adds the character of an escape. An unknown escape is kept, as in Python.
  void add_escape(std::string& held) {
    constexpr std::string_view names = "nrtbfav0\\'\"/";
    constexpr std::string_view meanings("\n\r\t\b\f\a\v\0\\'\"/", names.size());
    const char c = text_[at_ + 1];
    const std::size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    auto code = digits > 0 ? hex_number(text_, at_ + 2, digits) : std::nullopt;
    if (!code) {
      const std::size_t known = names.find(c);
      held += known == std::string_view::npos ? text_.substr(at_, 2) : meanings.substr(known, 1);
      at_ += 2;
      return;
    }
    at_ += 2 + digits;
    const bool is_high = *code >= 0xd800 && *code < 0xdc00;
    if (is_high && text_.substr(at_, 2) == "\\u") {  // JSON writes a character beyond 16 bits as two escapes
      const auto low = hex_number(text_, at_ + 2, 4);
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((*code - 0xd800) << 10U) + (*low - 0xdc00);
        at_ += 6;
      }
    }
    const bool is_character = *code <= 0x10ffff && (*code < 0xd800 || *code >= 0xe000);
    append_utf8(held, is_character ? *code : U'\uFFFD');
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::optional<std::string> json_of_literal(std::string_view text) {
  text = trimmed(text);
  if (text.empty()) {
    return std::nullopt;
  }
  return nlohmann::json::accept(text) ? std::optional(std::string(text)) : Converter(text).convert();
}

std::string python_of_json(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size();) {
    if (!in_string && is_word(json[i])) {
      std::size_t end = i;
      while (end < json.size() && is_word(json[end])) {
        ++end;
      }
      const std::string_view word = json.substr(i, end - i);
      out += word == "true" ? "True" : (word == "false" ? "False" : (word == "null" ? "None" : word));
      i = end;
      continue;
    }
    const std::size_t size = in_string && json[i] == '\\' ? 2 : 1;
    in_string = json[i] == '"' ? !in_string : in_string;
    out += json.substr(i, size);
    i += size;
  }
  return out;
}

}  // namespace rocmforge
