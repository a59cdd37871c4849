#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace rocmforge {
namespace {

/// Whether a character is invisible or changes how the text around it is displayed.
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
    const Utf8Unit unit = utf8_unit(text, 0);
    if (unit.kind != Utf8Unit::Kind::character) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, unit.length);
    const std::uint32_t code = utf8_code_point(character);
    if (code == '\n' || code == '\t') {
      out += code == '\n' ? "\\n" : "\\t";
    } else if (is_harmful(code)) {
      out += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    } else {
      out += character;
    }
    text.remove_prefix(unit.length);
  }
  return out;
}

}  // namespace rocmforge
