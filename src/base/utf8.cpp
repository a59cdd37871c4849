#include "base/utf8.h"

#include "base/error.h"

namespace rocmforge {
namespace {

struct Lead {
  std::size_t length;       // of the character; 0 when the byte can't begin one
  unsigned char low, high;  // bounds of the second byte; later bytes are 80 to BF
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

}  // namespace

Utf8Unit utf8_unit(std::string_view text, std::size_t position) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[position]));
  if (lead.length == 0) {
    return {Utf8Unit::Kind::invalid, 1};
  }
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (position + i == text.size()) {
      return {Utf8Unit::Kind::incomplete, i};
    }
    const auto byte = static_cast<unsigned char>(text[position + i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xBF)) {
      return {Utf8Unit::Kind::invalid, i};
    }
  }
  return {Utf8Unit::Kind::character, lead.length};
}

char32_t utf8_code_point(std::string_view character) {
  check(!character.empty(), "a character has at least one byte");
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) {
    return first;
  }
  char32_t code_point = first & (0x7Fu >> character.size());
  for (const char byte : character.substr(1)) {
    code_point = code_point << 6 | (static_cast<unsigned char>(byte) & 0x3Fu);
  }
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto add = [&text](char32_t byte) { text.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | code_point >> 6);
    add(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    add(0xE0 | code_point >> 12);
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  } else {
    add(0xF0 | code_point >> 18);
    add(0x80 | (code_point >> 12 & 0x3F));
    add(0x80 | (code_point >> 6 & 0x3F));
    add(0x80 | (code_point & 0x3F));
  }
}

std::string_view replace_invalid_utf8(std::string_view text, std::string& held) {
  std::size_t position = 0;
  while (position < text.size()) {
    const Utf8Unit unit = utf8_unit(text, position);
    if (unit.kind != Utf8Unit::Kind::character) {
      std::string rest(text.substr(position));
      held = text.substr(0, position);
      held += take_utf8(rest, /*last=*/true);
      return held;
    }
    position += unit.length;
  }
  return text;
}

std::string take_utf8(std::string& bytes, bool last) {
  std::string text;
  std::size_t position = 0;
  while (position < bytes.size()) {
    const Utf8Unit unit = utf8_unit(bytes, position);
    if (unit.kind == Utf8Unit::Kind::incomplete && !last) {
      break;
    }
    if (unit.kind == Utf8Unit::Kind::character) {
      text.append(bytes, position, unit.length);
    } else {
      append_utf8(text, U'\uFFFD');
    }
    position += unit.length;
  }
  bytes.erase(0, position);
  return text;
}

}  // namespace rocmforge
