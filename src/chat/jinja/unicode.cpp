#include "chat/jinja/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/ascii.h"
#include "base/error.h"

namespace rocmforge::jinja {
namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

using Code = std::unique_ptr<pcre2_code, Free>;

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

Code compile(std::string_view expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(
      pcre2_compile(units(expression), expression.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL, &error, &offset, nullptr));
  check(code != nullptr, "a character class does not compile");
  return code;
}

std::string_view expression_of(CharacterKind kind) {
  switch (kind) {
    case CharacterKind::printable:
      return R"([^\p{C}\p{Z}])";
    case CharacterKind::letter:
      return R"(\p{L})";
    case CharacterKind::digit:
      return R"(\p{Nd})";
    case CharacterKind::numeric:
      return R"(\p{N})";
    case CharacterKind::upper:
      return R"([\p{Lu}\p{Lt}])";
    case CharacterKind::lower:
      return R"(\p{Ll})";
  }
  throw LogicError("an unknown kind of character");
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_ascii_kind(CharacterKind kind, char c) {
  const bool is_upper = c >= 'A' && c <= 'Z';
  const bool is_lower = c >= 'a' && c <= 'z';
  switch (kind) {
    case CharacterKind::printable:
      return c > ' ' && c < 0x7F;
    case CharacterKind::letter:
      return is_upper || is_lower;
    case CharacterKind::digit:
    case CharacterKind::numeric:
      return c >= '0' && c <= '9';
    case CharacterKind::upper:
      return is_upper;
    case CharacterKind::lower:
      return is_lower;
  }
  throw LogicError("an unknown kind of character");
}

/// Maps the case of a text. `replacement` is "\U$0" or "\L$0". Empty when the text is not UTF-8.
std::string substitute(std::string_view text, std::string_view replacement) {
  const Code code = compile(".+");
  std::string out(text.size() * 3 + 16, '\0');  // a simple case mapping makes a character at most 3 times longer
  PCRE2_SIZE size = out.size();
  const int count =
      pcre2_substitute(code.get(), units(text), text.size(), 0, PCRE2_SUBSTITUTE_EXTENDED, nullptr, nullptr,
                       units(replacement), replacement.size(), reinterpret_cast<PCRE2_UCHAR*>(out.data()), &size);
  out.resize(count > 0 ? size : 0);
  return out;
}

std::string map_case(std::string_view text, char (*ascii)(char), std::string_view replacement) {
  std::string mapped = is_ascii(text) ? "" : substitute(text, replacement);
  if (mapped.empty()) {
    mapped = text;
    std::ranges::transform(mapped, mapped.begin(), ascii);
  }
  return mapped;
}

}  // namespace

bool is_kind(CharacterKind kind, std::string_view character) {
  if (is_ascii(character)) {
    return is_ascii_kind(kind, character.front());
  }
  constexpr std::size_t kinds = 6;
  static const std::array<Code, kinds> codes = [] {
    std::array<Code, kinds> made;
    for (std::size_t i = 0; i < kinds; ++i) {
      made[i] = compile(expression_of(static_cast<CharacterKind>(i)));
    }
    return made;
  }();
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  return pcre2_match(codes[static_cast<std::size_t>(kind)].get(), units(character), character.size(), 0, PCRE2_ANCHORED,
                     match.get(), nullptr) > 0;
}

std::string to_upper(std::string_view text) {
  constexpr std::string_view sharp_s = "\xC3\x9F";
  std::string out;
  for (std::size_t at = text.find(sharp_s); at != std::string_view::npos; at = text.find(sharp_s)) {
    out += map_case(text.substr(0, at), ascii_upper, R"(\U$0)") + "SS";
    text.remove_prefix(at + sharp_s.size());
  }
  return out + map_case(text, ascii_upper, R"(\U$0)");
}

std::string to_lower(std::string_view text) { return map_case(text, ascii_lower, R"(\L$0)"); }

}  // namespace rocmforge::jinja
