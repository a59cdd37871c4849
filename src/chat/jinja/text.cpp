#include "chat/jinja/text.h"

#include <algorithm>

#include "base/utf8.h"

namespace rocmforge::jinja {

bool Text::from_template(std::size_t byte) const {
  const auto run = std::ranges::upper_bound(runs_, byte, {}, &Run::end);
  return run != runs_.end() && run->from_template;
}

void Text::append(std::string_view bytes, bool from_template) {
  if (bytes.empty()) {
    return;
  }
  bytes_ += bytes;
  if (runs_.empty() || runs_.back().from_template != from_template) {
    runs_.push_back({bytes_.size(), from_template});
  } else {
    runs_.back().end = bytes_.size();
  }
}

void Text::append(const Text& text, std::size_t begin, std::size_t size) {
  const std::size_t end = begin + size;
  auto run = std::ranges::upper_bound(text.runs_, begin, {}, &Run::end);
  while (begin < end) {
    const std::size_t stop = std::min(run->end, end);
    append(std::string_view(text.bytes_).substr(begin, stop - begin), run->from_template);
    begin = stop;
    ++run;
  }
}

Text Text::part(std::size_t begin, std::size_t size) const {
  Text part;
  part.is_markup_ = is_markup_;
  part.append(*this, begin, size);
  return part;
}

std::size_t character_bytes(std::string_view text, std::size_t byte) {
  if (static_cast<unsigned char>(text[byte]) < 0x80) {
    return 1;
  }
  const Utf8Unit unit = utf8_unit(text, byte);
  return unit.kind == Utf8Unit::Kind::character ? unit.length : 1;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t byte = 0; byte < text.size(); byte += character_bytes(text, byte)) {
    ++count;
  }
  return count;
}

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  std::size_t byte = 0;
  for (; index > 0 && byte < text.size(); --index) {
    byte += character_bytes(text, byte);
  }
  return byte;
}

char32_t character_at(std::string_view text, std::size_t byte) {
  const std::size_t length = character_bytes(text, byte);
  const auto first = static_cast<unsigned char>(text[byte]);
  return length == 1 ? (first < 0x80 ? char32_t{first} : char32_t{0xFFFD}) : utf8_code_point(text.substr(byte, length));
}

bool is_space(char32_t character) {
  switch (character) {
    case 0x20:
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return (character >= 0x09 && character <= 0x0D) || (character >= 0x1C && character <= 0x1F) ||
             (character >= 0x2000 && character <= 0x200A);
  }
}

bool is_line_end(char32_t character) {
  return (character >= 0x0A && character <= 0x0D) || (character >= 0x1C && character <= 0x1E) || character == 0x85 ||
         character == 0x2028 || character == 0x2029;
}

std::size_t skip_space(std::string_view text, std::size_t byte) {
  while (byte < text.size() && is_space(character_at(text, byte))) {
    byte += character_bytes(text, byte);
  }
  return byte;
}

std::size_t end_without_space(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
      --begin;
    }
    if (begin + character_bytes(text, begin) != end || !is_space(character_at(text, begin))) {
      break;
    }
    end = begin;
  }
  return end;
}

}  // namespace rocmforge::jinja
