#include "tokenizer/space_marks.h"

namespace rocmforge {

void append_marked(std::string& to, std::string_view text) {
  to.reserve(to.size() + text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      to.append(space_mark);
    } else {
      to.push_back(c);
    }
  }
}

std::string unmarked(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_space = text.substr(i).starts_with(space_mark);
    bytes.push_back(is_space ? ' ' : text[i]);
    i += is_space ? space_mark.size() : 1;
  }
  return bytes;
}

int byte_of(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') {
    return -1;
  }
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool is_digit = c >= '0' && c <= '9', is_letter = (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
    if (!is_digit && !is_letter) {
      return -1;
    }
    value = value * 16 + (is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

}  // namespace rocmforge
