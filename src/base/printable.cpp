#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace rocmforge {
namespace {

struct Character {
  std::size_t size = 0;  ///< bytes; 0 where no character of UTF-8 begins
  std::uint32_t code = 0;
};

Character character_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    return {1, first};
  }
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) {
    return {};
  }
  std::uint32_t code = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0u) != 0x80u) {
      return {};
    }
    code = code << 6 | (next & 0x3fu);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return overlong || surrogate || code > 0x10ffff ? Character{} : Character{length, code};
}

/// Characters that move what stands around them, or nothing can be seen of.
bool is_harmful(std::uint32_t code) {
  const bool is_control = code < 0x20 || (code >= 0x7f && code <= 0x9f);
  const bool turns = code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  return is_control || turns || ends_line || code == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) {
      return out + fmt::format("... ({} more bytes)", text.size());
    }
    const Character character = character_at(text);
    if (character.size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (character.code == '\n' || character.code == '\t') {
      out += character.code == '\n' ? "\\n" : "\\t";
    } else if (is_harmful(character.code)) {
      out += character.code < 0x80 ? fmt::format("\\x{:02x}", character.code) : fmt::format("\\u{:04x}", character.code);
    } else {
      out += text.substr(0, character.size);
    }
    text.remove_prefix(std::max<std::size_t>(character.size, 1));
  }
  return out;
}

}  // namespace rocmforge
