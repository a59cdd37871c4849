#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace rocmforge::test {

/// Strings of every kind of text, the same as those of tools/goldens/tokenizer_golden.py: string number i is a function of i
/// alone. Numbers come from splitmix64 started at i * 0xD1B54A32D192ED03 + 0x526F434D (not splitmix64's own increment,
/// because the strings would overlap); below(n) is (next() >> 33) % n.
class RandomText {
 public:
  explicit RandomText(std::uint64_t index) : state_(index * 0xD1B54A32D192ED03u + 0x526F434Du) {}

  std::string make() {
    const std::uint64_t segments = 1 + below(12);
    for (std::uint64_t i = 0; i < segments; ++i) {
      if (below(2) == 0) {
        text_ += ' ';
      }
      add_segment();
    }
    return text_;
  }

 private:
  struct Range {
    char32_t first, last;
  };

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t count) { return (next() >> 33) % count; }

  /// One character: a range, then a place in it.
  void add_from(std::span<const Range> ranges) {
    const Range& range = ranges[below(ranges.size())];
    append_utf8(text_, range.first + static_cast<char32_t>(below(range.last - range.first + 1)));
  }
  void add_run(std::span<const Range> ranges, std::uint64_t longest) {
    const std::uint64_t count = 1 + below(longest);
    for (std::uint64_t i = 0; i < count; ++i) {
      add_from(ranges);
    }
  }

  void add_word() {
    static constexpr std::string_view common = "etaoinshrdlucmfwypvbgkqjxz";
    const std::uint64_t count = 1 + below(10), shape = below(4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t a = below(26), b = below(26);
      const char letter = common[a < b ? a : b];
      const bool upper = shape == 0 || (shape == 1 && i == 0);
      text_ += upper ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
  }
  void add_space() {
    static constexpr std::array<char32_t, 20> spaces = {' ',    ' ',    ' ',    ' ',    ' ',    ' ',   '\t',
                                                        '\t',   '\n',   '\n',   '\n',   '\r',   0x0B,  0x0C,
                                                        0x00A0, 0x0085, 0x2003, 0x2028, 0x3000, 0x180E};
    const std::uint64_t count = 1 + below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      append_utf8(text_, spaces[below(spaces.size())]);
    }
  }
  void add_contraction() {
    static constexpr std::array<std::string_view, 16> endings = {
        "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'vE", "'LL", "'x", "n't", "''", "\u2019s", "'\u017F"};
    add_word();
    text_ += endings[below(endings.size())];
  }
  void add_emoji() {
    static constexpr std::array<Range, 3> faces = {{{0x1F300, 0x1F64F}, {0x2600, 0x26FF}, {0x1F680, 0x1F6C5}}};
    const std::uint64_t count = 1 + below(4);
    for (std::uint64_t i = 0; i < count; ++i) {
      add_from(faces);
      switch (below(5)) {
        case 0:
          append_utf8(text_, 0x200D);
          break;
        case 1:
          append_utf8(text_, 0xFE0F);
          break;
        case 2:
          append_utf8(text_, 0x1F3FB + static_cast<char32_t>(below(5)));
          break;
        default:
          break;
      }
    }
  }
  void add_combining() {
    const std::uint64_t count = 1 + below(5);
    for (std::uint64_t i = 0; i < count; ++i) {
      append_utf8(text_, 'a' + static_cast<char32_t>(below(26)));
      append_utf8(text_, 0x0300 + static_cast<char32_t>(below(0x6F)));
    }
  }

  void add_segment() {
    static constexpr std::array<Range, 1> digits = {{{'0', '9'}}};
    static constexpr std::array<Range, 4> punctuation = {{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}};
    static constexpr std::array<Range, 3> latin = {{{0xC0, 0xFF}, {0x100, 0x24F}, {0x1E00, 0x1EFF}}};
    static constexpr std::array<Range, 2> han = {{{0x4E00, 0x9FA5}, {0x3400, 0x4DB5}}};
    static constexpr std::array<Range, 2> kana = {{{0x3041, 0x3096}, {0x30A1, 0x30FA}}};
    static constexpr std::array<Range, 1> hangul = {{{0xAC00, 0xD7A3}}};
    static constexpr std::array<Range, 3> slavic = {{{0x410, 0x44F}, {0x400, 0x45F}, {0x3B1, 0x3C9}}};
    static constexpr std::array<Range, 5> arabic = {
        {{0x621, 0x63A}, {0x641, 0x64A}, {0x64B, 0x652}, {0x660, 0x669}, {0x5D0, 0x5EA}}};
    static constexpr std::array<Range, 4> indic = {{{0x904, 0x939}, {0x93E, 0x94D}, {0x966, 0x96F}, {0xE01, 0xE3A}}};
    static constexpr std::array<Range, 2> control = {{{0x00, 0x1F}, {0x7F, 0x9F}}};
    static constexpr std::array<Range, 9> rare = {{{0x10330, 0x1034A},
                                                   {0x10400, 0x1044F},
                                                   {0x1D400, 0x1D454},
                                                   {0x20000, 0x2A6D6},
                                                   {0x10000, 0x1000B},
                                                   {0xE0020, 0xE007F},
                                                   {0xE000, 0xE0FF},
                                                   {0xF0000, 0xF0010},
                                                   {0xFF01, 0xFF5E}}};
    static constexpr std::array<Range, 10> symbols = {{{0xA1, 0xBF},
                                                       {0x2010, 0x2027},
                                                       {0x20A0, 0x20BF},
                                                       {0x2150, 0x2188},
                                                       {0x2190, 0x22FF},
                                                       {0x2460, 0x249B},
                                                       {0x3001, 0x3020},
                                                       {0x2581, 0x2581},
                                                       {0x1C4, 0x1CC},
                                                       {0x2070, 0x2071}}};
    switch (below(24)) {
      default:
        add_word();
        break;
      case 6:
      case 7:
        add_run(digits, 8);
        break;
      case 8:
      case 9:
        add_run(punctuation, 4);
        break;
      case 10:
      case 11:
        add_space();
        break;
      case 12:
        add_contraction();
        break;
      case 13:
        add_run(latin, 6);
        break;
      case 14:
        add_run(han, 6);
        break;
      case 15:
        add_run(kana, 6);
        break;
      case 16:
        add_run(hangul, 5);
        break;
      case 17:
        add_run(slavic, 8);
        break;
      case 18:
        add_run(arabic, 8);
        break;
      case 19:
        add_run(indic, 6);
        break;
      case 20:
        add_emoji();
        break;
      case 21:
        add_combining();
        break;
      case 22:
        add_run(below(3) == 0 ? std::span<const Range>(control) : std::span<const Range>(rare), 4);
        break;
      case 23:
        add_run(symbols, 4);
        break;
    }
  }

  std::uint64_t state_;
  std::string text_;
};

/// FNV-1a of 32 bits over the ids as little-endian 32-bit numbers: a golden file stores this hash of a string's ids.
inline std::uint32_t hash_ids(std::span<const std::int32_t> ids) {
  std::uint32_t hash = 2166136261u;
  for (const std::int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<std::uint32_t>(id) >> shift & 0xffu)) * 16777619u;
    }
  }
  return hash;
}

}  // namespace rocmforge::test
