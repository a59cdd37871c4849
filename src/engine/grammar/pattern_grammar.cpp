#include "engine/grammar/pattern_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

constexpr std::uint64_t endless = GrammarExpression::unbounded;
constexpr std::uint64_t most_repetitions = 20'000;
constexpr int deepest_group = 50;

using Ranges = std::vector<CodeRange>;

const Ranges& digits() {
  static const Ranges ranges = {{U'0', U'9'}};
  return ranges;
}
const Ranges& word_characters() {
  static const Ranges ranges = normalize({{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}, {U'_', U'_'}});
  return ranges;
}
const Ranges& blanks() {
  static const Ranges ranges = {{U'\t', U'\r'}, {U' ', U' '}};
  return ranges;
}
// What these classes lack for every reader: other scripts have digits, letters and blanks of their own.
const Ranges& no_digits() {
  static const Ranges ranges = normalize({{0, U'/'}, {U':', 0x7F}, {0xC0, 0x65F}});
  return ranges;
}
const Ranges& no_word_characters() {
  static const Ranges ranges =
      normalize({{0, U'/'}, {U':', U'@'}, {U'[', U'^'}, {U'`', U'`'}, {U'{', 0x7F}, {0x2010, 0x2027}});
  return ranges;
}
const Ranges& no_blanks() {
  static const Ranges ranges = normalize({{0, 8}, {0x0E, 0x1B}, {U'!', 0x7F}, {0xA1, 0x167F}});
  return ranges;
}

Ranges intersect(const Ranges& a, const Ranges& b) {
  Ranges both = complement(a);
  const Ranges without = complement(b);
  both.insert(both.end(), without.begin(), without.end());
  return complement(normalize(std::move(both)));
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) { return std::min(endless, a + b); }
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return a == 0 || b == 0 ? 0 : a == endless || b == endless ? endless : std::min(endless, a * b);
}

/// Reads a pattern from left to right and writes the grammar as it goes.
class PatternReader {
 public:
  PatternReader(std::string_view text, GrammarText& grammar) : text_(text), grammar_(grammar) {}

  PatternGrammar read() {
    if (text_.size() > 4096) {
      throw Error("a pattern of " + std::to_string(text_.size()) + " bytes; at most 4096");
    }
    PatternGrammar all = choice(0);
    if (position_ < text_.size()) {
      fail("this ')' closes nothing");
    }
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(fmt::format("{} (at byte {} of '{}')", message, position_, text_.substr(0, 60)));
  }
  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  bool take(char c) {
    const bool there = !at_end() && text_[position_] == c;
    position_ += there ? 1 : 0;
    return there;
  }

  PatternGrammar choice(int depth) {
    if (depth > deepest_group) {
      fail(fmt::format("groups are nested deeper than {}", deepest_group));
    }
    PatternGrammar all = sequence(depth);
    std::vector<std::string> parts{all.expression};
    while (take('|')) {
      all.character.clear();
      const PatternGrammar next = sequence(depth);
      all.shortest = std::min(all.shortest, next.shortest);
      all.longest = std::max(all.longest, next.longest);
      parts.push_back(next.expression);
    }
    all.expression = GrammarText::choice(parts);
    return all;
  }

  PatternGrammar sequence(int depth) {
    PatternGrammar all;
    const auto append = [&](const PatternGrammar& part) {
      all.character = all.expression.empty() ? part.character : "";
      all.expression += (all.expression.empty() ? "" : " ") + part.expression;
      all.shortest = plus(all.shortest, part.shortest);
      all.longest = plus(all.longest, part.longest);
    };
    if (depth == 0 && !take('^')) {
      append(anything());
    }
    bool ended = false;
    while (!at_end() && peek() != '|' && peek() != ')') {
      if (peek() == '$' && depth == 0) {
        ++position_;
        ended = true;
        if (!at_end() && peek() != '|') {
          fail("something follows '$'");
        }
        break;
      }
      append(repeated(depth));
    }
    if (depth == 0 && !ended) {
      append(anything());
    }
    if (all.expression.empty()) {
      all.expression = "\"\"";
    }
    return all;
  }

  PatternGrammar anything() { return {json_character(grammar_) + "*", 0, endless, json_character(grammar_)}; }

  PatternGrammar repeated(int depth) {
    PatternGrammar item = atom(depth);
    std::uint64_t minimum = 1, maximum = 1;
    if (take('*')) {
      minimum = 0;
      maximum = endless;
    } else if (take('+')) {
      maximum = endless;
    } else if (take('?')) {
      minimum = 0;
    } else if (peek() == '{') {
      std::tie(minimum, maximum) = counts();
    } else {
      return item;
    }
    (void)take('?');  // which text is found first is of no matter
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      fail("a repetition of a repetition");
    }
    return {fmt::format("({}){}", item.expression, GrammarText::repetition(minimum, maximum)), times(item.shortest, minimum),
            times(item.longest, maximum), item.shortest == 1 && item.longest == 1 ? item.character : ""};
  }

  std::pair<std::uint64_t, std::uint64_t> counts() {
    ++position_;
    const auto number = [&]() -> std::optional<std::uint64_t> {
      if (peek() < '0' || peek() > '9') {
        return std::nullopt;
      }
      std::uint64_t value = 0;
      for (; peek() >= '0' && peek() <= '9'; ++position_) {
        value = value * 10 + static_cast<std::uint64_t>(peek() - '0');
        if (value > most_repetitions) {
          fail(fmt::format("more than {} repetitions", most_repetitions));
        }
      }
      return value;
    };
    const auto minimum = number();
    if (!minimum) {
      fail("expected a number of repetitions; '{' itself is written '\\{'");
    }
    std::uint64_t maximum = *minimum;
    if (take(',')) {
      maximum = number().value_or(endless);
    }
    if (!take('}')) {
      fail("expected '}' after a number of repetitions");
    }
    if (maximum < *minimum) {
      fail("the repetitions' bounds are in the wrong order");
    }
    return {*minimum, maximum};
  }

  PatternGrammar atom(int depth) {
    const char c = peek();
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return of(characters());
      case '.':
        ++position_;
        return of(complement(normalize({{U'\n', U'\n'}, {U'\r', U'\r'}, {0x85, 0x85}, {0x2028, 0x2029}})));
      case '\\':
        return of(escape(false).first);
      case '^':
      case '$':
        fail(fmt::format("'{}' is supported only at the ends of a whole alternative", c));
      case '*':
      case '+':
      case '?':
      case '{':
        fail("nothing stands before this repetition");
      case ']':
      case '}':
        fail(fmt::format("'{}' is written '\\{}'", c, c));
      default:
        return of({one()});
    }
  }

  static PatternGrammar of(const Ranges& ranges) {
    const std::string character = json_characters(ranges);
    return {character, 1, 1, character};
  }

  PatternGrammar group(int depth) {
    ++position_;
    if (take('?')) {
      if (take('<') && peek() != '=' && peek() != '!') {
        const std::size_t name_end = text_.find('>', position_);
        position_ = std::min(name_end, text_.size() - 1) + 1;
      } else if (!take(':')) {
        fail("looking ahead or behind is not supported");
      }
    }
    PatternGrammar inner = choice(depth + 1);
    if (!take(')')) {
      fail("a '(' is never closed");
    }
    inner.expression = fmt::format("({})", inner.expression);
    return inner;
  }

  /// A character as it stands.
  CodeRange one() {
    const std::size_t length = utf8_unit(text_, position_).length;
    const char32_t code_point = utf8_code_point(text_.substr(position_, length));
    position_ += length;
    return {code_point, code_point};
  }

  CodeRange hexadecimal(std::size_t digits_wanted) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits_wanted; ++i, ++position_) {
      const char c = peek();
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      if (!((lower >= '0' && lower <= '9') || (lower >= 'a' && lower <= 'f'))) {
        fail(fmt::format("expected {} hexadecimal digits", digits_wanted));
      }
      value = value << 4 | static_cast<char32_t>(lower <= '9' ? lower - '0' : lower - 'a' + 10);
    }
    if (normalize({{value, value}}).empty()) {
      fail("a surrogate is no character");
    }
    return {value, value};
  }

  /// What an escape stands for, and what its negation does.
  std::pair<Ranges, Ranges> escape(bool in_class) {
    ++position_;
    if (at_end()) {
      fail("the pattern ends inside an escape");
    }
    const char c = text_[position_++];
    const auto single = [](CodeRange range) { return std::pair(Ranges{range}, complement({range})); };
    const auto code = [&](char32_t value) { return single({value, value}); };
    switch (c) {
      case 'd':
        return {digits(), no_digits()};
      case 'D':
        return {no_digits(), digits()};
      case 'w':
        return {word_characters(), no_word_characters()};
      case 'W':
        return {no_word_characters(), word_characters()};
      case 's':
        return {blanks(), no_blanks()};
      case 'S':
        return {no_blanks(), blanks()};
      case 't':
        return code('\t');
      case 'n':
        return code('\n');
      case 'r':
        return code('\r');
      case 'v':
        return code('\v');
      case 'f':
        return code('\f');
      case '0':
        return code(0);
      case 'x':
        return single(hexadecimal(2));
      case 'u':
        return single(hexadecimal(4));
      case 'b':
        if (in_class) {
          return code('\b');
        }
        break;
      default:
        break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      position_ -= 2;
      fail(fmt::format("'\\{}' is not supported", c));
    }
    --position_;
    return single(one());
  }

  Ranges characters() {
    ++position_;
    const bool negated = take('^');
    Ranges inside;
    Ranges outside = complement({});
    while (peek() != ']') {
      if (at_end()) {
        fail("a '[' is never closed");
      }
      auto [ranges, others] = peek() == '\\' ? escape(true) : single_character();
      const bool is_single = ranges.size() == 1 && ranges[0].first == ranges[0].last;
      if (peek() == '-' && peek(1) != ']' && position_ + 1 < text_.size()) {
        ++position_;
        const Ranges last = peek() == '\\' ? escape(true).first : single_character().first;
        if (!is_single || last.size() != 1 || last[0].first != last[0].last || last[0].first < ranges[0].first) {
          fail("a range in a class goes from one character up to another");
        }
        ranges = normalize({{ranges[0].first, last[0].first}});
        others = complement(ranges);
      }
      inside.insert(inside.end(), ranges.begin(), ranges.end());
      outside = intersect(outside, others);
    }
    ++position_;
    Ranges all = negated ? outside : normalize(std::move(inside));
    if (all.empty()) {
      fail("no character is in this class");
    }
    return all;
  }

  std::pair<Ranges, Ranges> single_character() {
    const CodeRange range = one();
    return {{range}, complement({range})};
  }

  std::string_view text_;
  GrammarText& grammar_;
  std::size_t position_ = 0;
};

}  // namespace

PatternGrammar pattern_grammar(std::string_view pattern, GrammarText& grammar) {
  return PatternReader(pattern, grammar).read();
}

std::string json_characters(const std::vector<CodeRange>& ranges) {
  std::vector<std::string> parts;
  const Ranges plain = intersect(ranges, complement(normalize({{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}, {0x7F, 0x7F}})));
  if (!plain.empty()) {
    parts.push_back(GrammarText::characters(plain));
  }
  const auto holds = [&](char32_t code_point) { return !intersect(ranges, {{code_point, code_point}}).empty(); };
  constexpr std::pair<char32_t, char> short_escapes[] = {{U'"', '"'},  {U'\\', '\\'}, {U'\b', 'b'}, {U'\f', 'f'},
                                                         {U'\n', 'n'}, {U'\r', 'r'},  {U'\t', 't'}};
  for (const auto& [code_point, letter] : short_escapes) {
    if (holds(code_point)) {
      parts.push_back(GrammarText::literal(std::string{'\\', letter}));
    }
  }
  for (char32_t code_point = 0; parts.empty() && code_point < 0x80; ++code_point) {
    if (holds(code_point)) {
      std::vector<std::string> controls;
      for (; code_point < 0x80; ++code_point) {
        if (holds(code_point)) {
          controls.push_back(fmt::format("\"\\\\u{:04x}\"", static_cast<unsigned>(code_point)));
        }
      }
      return fmt::format("({})", GrammarText::choice(controls));
    }
  }
  return parts.size() == 1 ? parts.front() : fmt::format("({})", GrammarText::choice(parts));
}

std::string json_character(GrammarText& grammar) {
  // Halves of pairs are no characters: a reader may refuse them alone.
  const std::string digit = "[0-9a-fA-F]";
  const std::string escape =
      grammar.add_once("escape", fmt::format(R"(["\\/bfnrt] | "u" ([0-9a-ce-fA-CE-F] {0}{{3}} | [dD] [0-7] {0}{{2}} )"
                                             R"(| [dD] [89abAB] {0}{{2}} "\\u" [dD] [c-fC-F] {0}{{2}}))",
                                             digit));
  return fmt::format(R"(([^"\\\x7F\x00-\x1F] | "\\" {}))", escape);
}

}  // namespace rocmforge
