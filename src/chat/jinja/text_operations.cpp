#include "chat/jinja/text_operations.h"

#include <algorithm>
#include <array>

#include "chat/jinja/unicode.h"

namespace rocmforge::jinja {
namespace {

Text map_runs(const Text& text, std::string (*map)(std::string_view)) {
  Text out;
  out.mark(text.is_markup());
  std::size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    out.append(map(std::string_view(text.bytes()).substr(begin, run.end - begin)), run.from_template);
    begin = run.end;
  }
  return out;
}

bool is_one_of(std::string_view character, std::optional<std::string_view> characters) {
  return characters.has_value() ? !character.empty() && characters->find(character) != std::string_view::npos
                                : is_space(character_at(character, 0));
}

/// The first byte of the character that ends at `end`.
std::size_t previous_character(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) {
    --begin;
  }
  return begin + character_bytes(text, begin) == end ? begin : end - 1;
}

}  // namespace

Text upper(const Text& text) { return map_runs(text, to_upper); }
Text lower(const Text& text) { return map_runs(text, to_lower); }

Text capitalize(const Text& text) {
  if (text.empty()) {
    return text;
  }
  const std::size_t first = character_bytes(text.bytes(), 0);
  Text out = upper(text.part(0, first));
  out.append(lower(text.part(first, text.size() - first)));
  return out;
}

Text escape(const Text& text) {
  if (text.is_markup()) {
    return text;
  }
  constexpr std::string_view marks = "&<>'\"";
  constexpr std::array<std::string_view, 5> names = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  Text out;
  out.mark(true);
  std::size_t begin = 0;
  const std::string_view bytes = text.bytes();
  for (std::size_t at = bytes.find_first_of(marks); at != std::string_view::npos; at = bytes.find_first_of(marks, begin)) {
    out.append(text, begin, at - begin);
    out.append(names[marks.find(bytes[at])], text.from_template(at));
    begin = at + 1;
  }
  out.append(text, begin, bytes.size() - begin);
  return out;
}

Text fitting(const Text& text, const Text& whole) { return whole.is_markup() ? escape(text) : text; }

Text strip(const Text& text, std::optional<std::string_view> characters, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (left && begin < end) {
    const std::size_t size = character_bytes(bytes, begin);
    if (!is_one_of(bytes.substr(begin, size), characters)) {
      break;
    }
    begin += size;
  }
  while (right && end > begin) {
    const std::size_t last = previous_character(bytes, end);
    if (!is_one_of(bytes.substr(last, end - last), characters)) {
      break;
    }
    end = last;
  }
  return text.part(begin, end - begin);
}

Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t limit) {
  const std::string_view bytes = text.bytes();
  Text out;
  std::size_t byte = 0;
  for (std::int64_t done = 0; limit < 0 || done < limit; ++done) {
    if (old.empty()) {
      out.append(with);
      if (byte == bytes.size()) {
        return out;
      }
      const std::size_t size = character_bytes(bytes, byte);
      out.append(text, byte, size);
      byte += size;
      continue;
    }
    const std::size_t found = bytes.find(old, byte);
    if (found == std::string_view::npos) {
      break;
    }
    out.append(text, byte, found - byte);
    out.append(with);
    byte = found + old.size();
  }
  out.append(text, byte, bytes.size() - byte);
  return out;
}

std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit, bool from_right) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> parts;
  if (!from_right) {
    std::size_t begin = 0;
    for (std::int64_t cuts = 0; limit < 0 || cuts < limit; ++cuts) {
      const std::size_t found = bytes.find(separator, begin);
      if (found == std::string_view::npos) {
        break;
      }
      parts.push_back(text.part(begin, found - begin));
      begin = found + separator.size();
    }
    parts.push_back(text.part(begin, bytes.size() - begin));
    return parts;
  }
  std::size_t end = bytes.size();
  for (std::int64_t cuts = 0; limit < 0 || cuts < limit; ++cuts) {
    const std::size_t found =
        end < separator.size() ? std::string_view::npos : bytes.rfind(separator, end - separator.size());
    if (found == std::string_view::npos) {
      break;
    }
    parts.push_back(text.part(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  parts.push_back(text.part(0, end));
  std::ranges::reverse(parts);
  return parts;
}

std::vector<Text> split_at_space(const Text& text, std::int64_t limit, bool from_right) {
  struct Word {
    std::size_t begin, end;
  };
  const std::string_view bytes = text.bytes();
  std::vector<Word> words;
  for (std::size_t byte = skip_space(bytes); byte < bytes.size();) {
    const std::size_t begin = byte;
    while (byte < bytes.size() && !is_space(character_at(bytes, byte))) {
      byte += character_bytes(bytes, byte);
    }
    words.push_back({begin, byte});
    byte = skip_space(bytes, byte);
  }
  if (limit >= 0 && words.size() > static_cast<std::size_t>(limit) + 1) {
    const auto kept = static_cast<std::ptrdiff_t>(limit);
    if (from_right) {  // the text left of the cuts is kept whole, without the white space at its end
      const std::size_t end = words[words.size() - static_cast<std::size_t>(limit) - 1].end;
      words.erase(words.begin(), words.end() - kept);
      words.insert(words.begin(), Word{0, end});
    } else {
      const std::size_t begin = words[static_cast<std::size_t>(limit)].begin;
      words.erase(words.begin() + kept, words.end());
      words.push_back({begin, bytes.size()});
    }
  }
  std::vector<Text> parts;
  for (const Word& word : words) {
    parts.push_back(text.part(word.begin, word.end - word.begin));
  }
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t byte = 0; byte < bytes.size();) {
    std::size_t size = character_bytes(bytes, byte);
    if (!is_line_end(character_at(bytes, byte))) {
      byte += size;
      continue;
    }
    if (bytes.substr(byte).starts_with("\r\n")) {
      size = 2;
    }
    lines.push_back(text.part(begin, byte - begin + (keep_ends ? size : 0)));
    byte += size;
    begin = byte;
  }
  if (begin < bytes.size()) {
    lines.push_back(text.part(begin, bytes.size() - begin));
  }
  return lines;
}

std::size_t count_words(std::string_view text) {
  std::size_t words = 0;
  bool inside = false;
  for (std::size_t byte = 0; byte < text.size(); byte += character_bytes(text, byte)) {
    const bool is_word = !is_space(character_at(text, byte));
    words += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return words;
}

std::size_t count_lines(std::string_view text) {
  std::size_t lines = 1;
  for (std::size_t byte = 0; byte < text.size(); byte += character_bytes(text, byte)) {
    lines += is_line_end(character_at(text, byte)) ? 1 : 0;
  }
  return lines;
}

std::size_t count(std::string_view text, std::string_view part) {
  if (part.empty()) {
    return count_characters(text) + 1;
  }
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

}  // namespace rocmforge::jinja
