#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/grammar/grammar.h"

namespace rocmforge {
namespace {

using Kind = GrammarExpression::Kind;

constexpr std::size_t longest_text_bytes = std::size_t{4} << 20;
constexpr std::size_t most_rules = 20'000;
constexpr int deepest_group = 200, most_nested_repetitions = 4;
constexpr std::uint32_t most_repetitions = 100'000;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Grammar parse() {
    if (text_.size() > longest_text_bytes) {
      throw Error("grammar: " + std::to_string(text_.size()) + " bytes, at most " + std::to_string(longest_text_bytes));
    }
    check_utf8();
    skip_space(true);
    while (position_ < text_.size()) {
      parse_rule();
      skip_space(true);
    }
    check_defined();
    check_finite();
    return std::move(grammar_);
  }

 private:
  struct Use {
    bool defined = false;
    std::size_t first_use = 0;
  };

  [[noreturn]] void fail(const std::string& message, std::size_t position) const {
    const std::string_view before = text_.substr(0, position);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    const std::string_view in_line = before.substr(line_start);
    const auto column = 1 + std::count_if(in_line.begin(), in_line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    throw Error("grammar: line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message);
  }
  [[noreturn]] void fail(const std::string& message) const { fail(message, position_); }

  void check_utf8() const {
    for (std::size_t i = 0; i < text_.size();) {
      const Utf8Unit unit = utf8_unit(text_, i);
      if (unit.kind != Utf8Unit::Kind::character) {
        fail("this is not UTF-8", i);
      }
      i += unit.length;
    }
  }

  [[nodiscard]] bool at_end() const { return position_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[position_]; }

  /// Blanks and comments, over line ends only where `lines`.
  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = text_[position_];
      if (c == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++position_;
      } else {
        return;
      }
    }
  }

  std::string_view parse_name() {
    const std::size_t start = position_;
    while (!at_end() && is_name_character(text_[position_])) {
      ++position_;
    }
    if (position_ == start) {
      fail("expected the name of a rule (letters, digits, '-', '_')");
    }
    return text_.substr(start, position_ - start);
  }

  std::int32_t rule_number(std::string_view name, std::size_t position) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<std::int32_t>(grammar_.rules.size()));
    if (is_new) {
      if (grammar_.rules.size() == most_rules) {
        fail("more than " + std::to_string(most_rules) + " rules", position);
      }
      grammar_.rules.push_back({std::string(name), {}, 0});
      uses_.push_back({false, position});
    }
    return found->second;
  }

  void parse_rule() {
    const std::size_t start = position_;
    const std::string_view name = parse_name();
    const auto rule = static_cast<std::size_t>(rule_number(name, start));
    if (uses_[rule].defined) {
      fail("rule '" + std::string(name) + "' is defined twice", start);
    }
    skip_space(false);
    if (!text_.substr(position_).starts_with("::=")) {
      fail("expected '::=' after '" + std::string(name) + "'");
    }
    position_ += 3;
    uses_[rule].defined = true;
    const auto lines = std::count(text_.begin() + static_cast<std::ptrdiff_t>(line_counted_),
                                  text_.begin() + static_cast<std::ptrdiff_t>(start), '\n');
    line_counted_ = start;
    line_ += static_cast<std::int32_t>(lines);
    grammar_.rules[rule].line = line_;
    skip_space(true);
    GrammarExpression body = parse_choice(0);
    grammar_.rules[rule].body = std::move(body);
    if (!at_end() && peek() != '\n' && peek() != '\r') {
      fail(peek() == ')' ? "this ')' closes nothing" : "expected a piece of a rule or the line's end");
    }
  }

  /// A rule's alternatives may go on in a line that begins with '|'.
  bool take_bar() {
    const std::size_t before = position_;
    skip_space(true);
    if (peek() != '|') {
      position_ = before;
      return false;
    }
    ++position_;
    skip_space(true);
    return true;
  }

  GrammarExpression parse_choice(int depth) {
    if (depth > deepest_group) {
      fail("groups are nested deeper than " + std::to_string(deepest_group));
    }
    GrammarExpression choice{.kind = Kind::choice};
    do {
      choice.parts.push_back(parse_sequence(depth));
    } while (take_bar());
    return choice.parts.size() == 1 ? std::move(choice.parts.front()) : std::move(choice);
  }

  GrammarExpression parse_sequence(int depth) {
    GrammarExpression sequence{.kind = Kind::sequence};
    for (;;) {
      skip_space(depth > 0);
      const char c = peek();
      if (at_end() || c == '\n' || c == '\r' || c == '|' || c == ')') {
        break;
      }
      GrammarExpression item = parse_item(depth);
      skip_space(depth > 0);
      for (int repetitions = 0; peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'; ++repetitions) {
        if (repetitions == most_nested_repetitions) {
          fail("more than " + std::to_string(most_nested_repetitions) + " repetitions of one another");
        }
        item = parse_repetition(std::move(item));
        skip_space(depth > 0);
      }
      sequence.parts.push_back(std::move(item));
    }
    return sequence.parts.size() == 1 ? std::move(sequence.parts.front()) : std::move(sequence);
  }

  GrammarExpression parse_item(int depth) {
    const char c = peek();
    if (c == '"') {
      return parse_literal();
    }
    if (c == '[') {
      return parse_class();
    }
    if (c == '.') {
      ++position_;
      return {.kind = Kind::characters, .ranges = complement({})};
    }
    if (c == '(') {
      const std::size_t start = position_++;
      skip_space(true);
      GrammarExpression group = parse_choice(depth + 1);
      if (peek() != ')') {
        fail("this '(' is never closed", start);
      }
      ++position_;
      return group;
    }
    if (is_name_character(c)) {
      const std::size_t start = position_;
      const std::string_view name = parse_name();
      return {.kind = Kind::reference, .rule = rule_number(name, start)};
    }
    if (c == '<' || c == '!') {
      fail("tokens in a grammar are not supported; write their text as a literal");
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      fail("nothing stands before this repetition");
    }
    fail("expected a literal, a class of characters, '.', '(' or the name of a rule");
  }

  std::uint32_t parse_count() {
    const std::size_t start = position_;
    std::uint32_t value = 0;
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint32_t>(peek() - '0');
      if (value > most_repetitions) {
        fail("more than " + std::to_string(most_repetitions) + " repetitions", start);
      }
      ++position_;
    }
    if (position_ == start) {
      fail("expected a number of repetitions");
    }
    return value;
  }

  GrammarExpression parse_repetition(GrammarExpression item) {
    const std::size_t start = position_;
    const char c = text_[position_++];
    GrammarExpression repeat{.kind = Kind::repeat};
    repeat.minimum = c == '+' ? 1 : 0;
    repeat.maximum = c == '?' ? 1 : GrammarExpression::unbounded;
    if (c == '{') {
      skip_space(false);
      repeat.minimum = peek() == ',' ? 0 : parse_count();
      repeat.maximum = repeat.minimum;
      skip_space(false);
      if (peek() == ',') {
        ++position_;
        skip_space(false);
        repeat.maximum = peek() == '}' ? GrammarExpression::unbounded : parse_count();
        skip_space(false);
      }
      if (peek() != '}') {
        fail("expected '}' after a number of repetitions");
      }
      ++position_;
      if (repeat.maximum < repeat.minimum) {
        fail("at most " + std::to_string(repeat.maximum) + " repetitions are fewer than at least " +
                 std::to_string(repeat.minimum),
             start);
      }
    }
    repeat.parts.push_back(std::move(item));
    return repeat;
  }

  char32_t parse_hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i, ++position_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) {
        fail("expected " + std::to_string(digits) + " hexadecimal digits");
      }
      value = value << 4 | static_cast<char32_t>(digit);
    }
    return value;
  }

  /// One character of a literal or class, escaped or not.
  char32_t parse_character() {
    const std::size_t start = position_;
    if (peek() != '\\') {
      const std::size_t length = utf8_unit(text_, position_).length;
      position_ += length;
      return utf8_code_point(text_.substr(start, length));
    }
    ++position_;
    if (at_end()) {
      fail("the grammar ends inside an escape");
    }
    const char c = text_[position_++];
    char32_t value = 0;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      case 'x':
        value = parse_hex(2);
        break;
      case 'u':
        value = parse_hex(4);
        break;
      case 'U':
        value = parse_hex(8);
        break;
      default:
        fail("unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH", start);
    }
    if (normalize({{value, value}}).empty()) {
      fail("this is no Unicode character", start);
    }
    return value;
  }

  GrammarExpression parse_literal() {
    const std::size_t start = position_++;
    GrammarExpression literal{.kind = Kind::literal};
    while (peek() != '"') {
      if (at_end() || peek() == '\n') {
        fail("this literal is never closed", start);
      }
      append_utf8(literal.text, parse_character());
    }
    ++position_;
    return literal;
  }

  GrammarExpression parse_class() {
    const std::size_t start = position_++;
    const bool negated = peek() == '^';
    position_ += negated ? 1 : 0;
    std::vector<CodeRange> ranges;
    while (peek() != ']') {
      if (at_end() || peek() == '\n') {
        fail("this class of characters is never closed", start);
      }
      const std::size_t range_start = position_;
      CodeRange range;
      range.first = range.last = parse_character();
      if (text_.substr(position_).starts_with("-") && position_ + 1 < text_.size() && text_[position_ + 1] != ']') {
        ++position_;
        if (peek() == '\n') {
          fail("this class of characters is never closed", start);
        }
        range.last = parse_character();
        if (range.last < range.first) {
          fail("the last character of this range comes before its first", range_start);
        }
      }
      ranges.push_back(range);
    }
    ++position_;
    ranges = normalize(std::move(ranges));
    if (negated) {
      ranges = complement(ranges);
    }
    if (ranges.empty()) {
      fail("no character is in this class", start);
    }
    return {.kind = Kind::characters, .ranges = std::move(ranges)};
  }

  void check_defined() {
    for (std::size_t rule = 0; rule < uses_.size(); ++rule) {
      if (!uses_[rule].defined) {
        fail("rule '" + grammar_.rules[rule].name + "' is not defined", uses_[rule].first_use);
      }
    }
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) {
      throw Error(grammar_.rules.empty() ? "grammar: it has no rules"
                                         : "grammar: it has no rule 'root', where a text begins");
    }
    grammar_.root = root->second;
  }

  /// Rules that `root` never needs may be anything.
  void check_finite() const {
    const std::vector<bool> finite = rules_that_derive(grammar_, Derivation::finite);
    std::vector<bool> seen(grammar_.rules.size(), false);
    std::vector<std::int32_t> pending{grammar_.root};
    while (!pending.empty()) {
      const auto rule = static_cast<std::size_t>(pending.back());
      pending.pop_back();
      if (seen[rule]) {
        continue;
      }
      seen[rule] = true;
      if (!finite[rule]) {
        throw Error("grammar: line " + std::to_string(grammar_.rules[rule].line) + ": rule '" + grammar_.rules[rule].name +
                    "' never comes to an end: each of its texts needs another one inside");
      }
      add_references(grammar_.rules[rule].body, pending);
    }
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_counted_ = 0;
  std::int32_t line_ = 1;
  Grammar grammar_;
  std::unordered_map<std::string_view, std::int32_t> numbers_;
  std::vector<Use> uses_;  ///< by rule
};

}  // namespace

Grammar parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace rocmforge
