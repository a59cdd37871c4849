#include "grammar/pattern_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

constexpr std::uint64_t endless = GrammarBuilder::unbounded;
constexpr std::uint64_t most_pattern_repetitions = 20'000;
constexpr std::size_t deepest_pattern_group = 50, longest_pattern = 4096;

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
// The characters that are in these classes for no regular expression engine. Other scripts have digits, letters and blanks
// of their own.
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

std::uint64_t plus(std::uint64_t a, std::uint64_t b) { return std::min(endless, a + b); }
std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return a == 0 || b == 0 ? 0 : a == endless || b == endless ? endless : std::min(endless, a * b);
}

/// The target of a pattern, in terms of the grammar.
struct PatternTarget {
  std::function<GrammarNode(const Ranges&)> characters;  ///< one of these
  std::optional<GrammarNode> anything{};                 ///< any character, used where '^' or '$' is missing
};

/// Parses a pattern from left to right and builds the grammar at the same time.
class PatternReader {
 public:
  PatternReader(std::string_view text, PatternTarget target, GrammarBuilder& grammar)
      : text_(text), target_(std::move(target)), grammar_(grammar) {}

  PatternGrammar read() {
    if (text_.size() > longest_pattern) {
      throw Error(fmt::format("a pattern of {} bytes; at most {}", text_.size(), longest_pattern));
    }
    groups_.emplace_back();
    begin_sequence();
    while (!at_end()) {
      const bool is_outermost = groups_.size() == 1;
      if (take('|')) {
        end_sequence();
        begin_sequence();
      } else if (peek() == '(') {
        open_group();
      } else if (peek() == ')' && !is_outermost) {
        ++position_;
        const PatternGrammar inner = end_choice();
        groups_.pop_back();
        append(repeated(inner));
      } else if (peek() == ')') {
        fail("this ')' closes nothing");
      } else if (peek() == '$' && is_outermost) {
        ++position_;
        groups_.back().is_ended = true;
        if (!at_end() && peek() != '|') {
          fail("something follows '$'");
        }
      } else {
        append(repeated(atom()));
      }
    }
    if (groups_.size() > 1) {
      fail("a '(' is never closed");
    }
    return end_choice();
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

  /// An open group, or the whole pattern: its finished alternatives and the current one.
  struct Group {
    std::vector<GrammarNode> alternatives{}, items{};
    PatternGrammar all{}, sequence{};  ///< without their nodes
    bool is_ended = false;             ///< the alternative, by '$'
  };

  void append(const PatternGrammar& part) {
    Group& group = groups_.back();
    PatternGrammar& all = group.sequence;
    all.character = group.items.empty() ? part.character : std::nullopt;
    group.items.push_back(part.node);
    all.shortest = plus(all.shortest, part.shortest);
    all.longest = plus(all.longest, part.longest);
  }

  void begin_sequence() {
    groups_.back().sequence = {};
    groups_.back().items.clear();
    groups_.back().is_ended = false;
    if (groups_.size() == 1 && !take('^')) {
      append_anything();
    }
  }

  void end_sequence() {
    Group& group = groups_.back();
    if (groups_.size() == 1 && !group.is_ended) {
      append_anything();
    }
    group.alternatives.push_back(grammar_.sequence(group.items));
    if (group.alternatives.size() == 1) {
      group.all = group.sequence;
      return;
    }
    group.all.character.reset();
    group.all.shortest = std::min(group.all.shortest, group.sequence.shortest);
    group.all.longest = std::max(group.all.longest, group.sequence.longest);
  }

  PatternGrammar end_choice() {
    end_sequence();
    Group& group = groups_.back();
    group.all.node = grammar_.choice(group.alternatives);
    return group.all;
  }

  void open_group() {
    if (groups_.size() > deepest_pattern_group) {
      fail(fmt::format("groups are nested deeper than {}", deepest_pattern_group));
    }
    ++position_;
    if (take('?')) {
      refuse_lookaround();
      if (take('<')) {
        const std::size_t name_end = text_.find('>', position_);
        position_ = std::min(name_end, text_.size() - 1) + 1;
      } else if (!take(':')) {
        fail("expected ':', or a name in '<' and '>', after '(?'");
      }
    }
    groups_.emplace_back();
    begin_sequence();
  }

  /// Refuses the groups that look at the text without reading it. `position_` is behind "(?".
  void refuse_lookaround() const {
    constexpr std::pair<std::string_view, std::string_view> kinds[] = {
        {"=", "lookahead"}, {"!", "negative lookahead"}, {"<=", "lookbehind"}, {"<!", "negative lookbehind"}};
    for (const auto& [mark, name] : kinds) {
      if (text_.substr(position_).starts_with(mark)) {
        fail(fmt::format("'(?{}' ({}) is not supported", mark, name));
      }
    }
  }

  void append_anything() {
    if (target_.anything) {
      append({grammar_.any_number(*target_.anything), 0, endless, target_.anything});
    }
  }

  PatternGrammar repeated(const PatternGrammar& item) {
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
    (void)take('?');  // lazy or greedy makes no difference
    if (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{') {
      fail("a repetition of a repetition");
    }
    return {grammar_.repeat(item.node, minimum, maximum), times(item.shortest, minimum), times(item.longest, maximum),
            item.shortest == 1 && item.longest == 1 ? item.character : std::nullopt};
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
        if (value > most_pattern_repetitions) {
          fail(fmt::format("more than {} repetitions", most_pattern_repetitions));
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

  PatternGrammar atom() {
    const char c = peek();
    switch (c) {
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

  [[nodiscard]] PatternGrammar of(const Ranges& ranges) const {
    const GrammarNode character = target_.characters(ranges);
    return {character, 1, 1, character};
  }

  /// One unescaped character.
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

  /// The characters of an escape, and those of its negation if that is not the complement.
  std::pair<Ranges, Ranges> escape(bool in_class) {
    ++position_;
    if (at_end()) {
      fail("the pattern ends inside an escape");
    }
    const char c = text_[position_++];
    const auto single = [](CodeRange range) { return std::pair(Ranges{range}, Ranges{}); };
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
    Ranges inside, plain;
    std::vector<Ranges> others;  // the characters outside \d and similar classes, each once
    while (peek() != ']') {
      if (at_end()) {
        fail("a '[' is never closed");
      }
      auto [ranges, lacking] = one_of_class();
      const bool is_single = ranges.size() == 1 && ranges[0].first == ranges[0].last;
      if (peek() == '-' && peek(1) != ']' && position_ + 1 < text_.size()) {
        ++position_;
        const Ranges last = one_of_class().first;
        if (!is_single || last.size() != 1 || last[0].first != last[0].last || last[0].first < ranges[0].first) {
          fail("a range in a class goes from one character up to another");
        }
        ranges = {{ranges[0].first, last[0].first}};
      }
      inside.insert(inside.end(), ranges.begin(), ranges.end());
      if (lacking.empty()) {
        plain.insert(plain.end(), ranges.begin(), ranges.end());
      } else if (std::ranges::find(others, lacking) == others.end()) {
        others.push_back(std::move(lacking));
      }
    }
    ++position_;
    Ranges all = normalize(std::move(inside));
    if (negated) {
      all = complement(normalize(std::move(plain)));
      for (const Ranges& one : others) {
        all = intersection(all, one);
      }
    }
    if (all.empty()) {
      fail("no character is in this class");
    }
    return all;
  }

  std::pair<Ranges, Ranges> one_of_class() { return peek() == '\\' ? escape(true) : std::pair(Ranges{one()}, Ranges{}); }

  std::string_view text_;
  PatternTarget target_;
  GrammarBuilder& grammar_;
  std::size_t position_ = 0;
  std::vector<Group> groups_;  // an explicit stack, so that nesting needs no recursion
};

}  // namespace

PatternGrammar json_pattern(std::string_view pattern, JsonGrammar& json) {
  const PatternTarget target{[&](const Ranges& ranges) { return json.characters(ranges); }, json.character()};
  return PatternReader(pattern, target, json.grammar()).read();
}

GrammarNode pattern_node(std::string_view pattern, GrammarBuilder& grammar) {
  return PatternReader(pattern, {[&](const Ranges& ranges) { return grammar.characters(ranges); }}, grammar).read().node;
}

Grammar pattern_grammar(std::string_view pattern, WorkBudget& budget) {
  GrammarBuilder grammar(budget);
  return grammar.finish(pattern_node(pattern, grammar));
}

GrammarNode pattern_search_node(std::string_view pattern, GrammarBuilder& grammar) {
  const auto characters = [&](const Ranges& ranges) { return grammar.characters(ranges); };
  return PatternReader(pattern, {characters, grammar.characters(complement({}))}, grammar).read().node;
}

}  // namespace rocmforge
