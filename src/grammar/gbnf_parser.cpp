#include "grammar/gbnf_parser.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/builder.h"

namespace rocmforge {
namespace {

constexpr std::size_t deepest_group = 200;
constexpr int most_nested_repetitions = 4;

/// The part of a name that a message shows.
std::string shown(std::string_view name) { return std::string(name.substr(0, 60)) + (name.size() > 60 ? "..." : ""); }

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, WorkBudget& budget) : text_(text), budget_(budget), grammar_(budget) {}

  Grammar parse() {
    if (text_.size() > longest_grammar_bytes) {
      throw Error("grammar: " + std::to_string(text_.size()) + " bytes, at most " + std::to_string(longest_grammar_bytes));
    }
    budget_.spend(text_.size() / 4);
    check_utf8();
    skip_space(true);
    while (position_ < text_.size()) {
      parse_rule();
      skip_space(true);
    }
    check_defined();
    return grammar_.finish(numbers_.at("root"));
  }

 private:
  struct Use {
    std::string_view name;
    bool defined = false;
    std::size_t first_use = 0;  ///< in the text
  };
  /// An open group; the first is the rule itself. Its finished alternatives, then the pieces of the current
  /// one, are in `items_`.
  struct Group {
    std::size_t start = 0;  ///< in the text
    std::size_t first_alternative = 0, first_item = 0;
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

  /// Skips blanks and comments, and line ends only with `lines`.
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

  GrammarRule rule_named(std::string_view name, std::size_t position) {
    const auto [found, is_new] = numbers_.try_emplace(name);
    if (is_new) {
      if (uses_.size() == GrammarBuilder::most_rules) {
        fail("more than " + std::to_string(GrammarBuilder::most_rules) + " rules", position);
      }
      found->second = grammar_.declare(name);
      uses_.push_back({name, false, position});
    }
    return found->second;
  }

  void parse_rule() {
    const std::size_t start = position_;
    const std::string_view name = parse_name();
    const GrammarRule rule = rule_named(name, start);
    const auto number = static_cast<std::size_t>(rule);
    if (uses_[number].defined) {
      fail("rule '" + shown(name) + "' is defined twice", start);
    }
    skip_space(false);
    if (!text_.substr(position_).starts_with("::=")) {
      fail("expected '::=' after '" + shown(name) + "'");
    }
    position_ += 3;
    uses_[number].defined = true;
    const auto lines = std::count(text_.begin() + static_cast<std::ptrdiff_t>(line_counted_),
                                  text_.begin() + static_cast<std::ptrdiff_t>(start), '\n');
    line_counted_ = start;
    line_ += static_cast<std::int32_t>(lines);
    skip_space(true);
    grammar_.define(rule, parse_body(), line_);
    if (!at_end() && peek() != '\n' && peek() != '\r') {
      fail(peek() == ')' ? "this ')' closes nothing" : "expected a piece of a rule or the line's end");
    }
  }

  /// A rule's alternatives may continue in a line that begins with '|'.
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

  /// Makes one node of the items from number `first` on.
  void join_items(bool is_choice, std::size_t first) {
    const std::span<const GrammarNode> items = std::span(items_).subspan(first);
    const GrammarNode joined = is_choice ? grammar_.choice(items) : grammar_.sequence(items);
    items_.resize(first);
    items_.push_back(joined);
  }

  void open_group() {
    if (groups_.size() > deepest_group) {
      fail("groups are nested deeper than " + std::to_string(deepest_group));
    }
    groups_.push_back({position_++, items_.size(), items_.size()});
    skip_space(true);
  }

  /// A rule's alternatives, up to its end or to an unmatched ')'.
  GrammarNode parse_body() {
    items_.clear();
    groups_.assign(1, {position_, 0, 0});
    for (;;) {
      skip_space(groups_.size() > 1);
      const char c = peek();
      if (c == '(') {
        open_group();
        continue;
      }
      if (!at_end() && c != '\n' && c != '\r' && c != '|' && c != ')') {
        items_.push_back(parse_item());
        parse_repetitions();
        continue;
      }
      join_items(false, groups_.back().first_item);
      groups_.back().first_item = items_.size();
      if (take_bar()) {
        continue;
      }
      join_items(true, groups_.back().first_alternative);
      if (groups_.size() == 1) {
        return items_.back();
      }
      if (peek() != ')') {
        fail("this '(' is never closed", groups_.back().start);
      }
      ++position_;
      groups_.pop_back();
      parse_repetitions();
    }
  }

  /// The repetition operators after the last item.
  void parse_repetitions() {
    skip_space(groups_.size() > 1);
    for (int repetitions = 0; peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{'; ++repetitions) {
      if (repetitions == most_nested_repetitions) {
        fail("more than " + std::to_string(most_nested_repetitions) + " repetitions of one another");
      }
      const auto [minimum, maximum] = parse_repetition();
      items_.back() = grammar_.repeat(items_.back(), minimum, maximum);
      skip_space(groups_.size() > 1);
    }
  }

  GrammarNode parse_item() {
    const char c = peek();
    if (c == '"') {
      return parse_literal();
    }
    if (c == '[') {
      return parse_class();
    }
    if (c == '.') {
      ++position_;
      return grammar_.characters(complement({}));
    }
    if (is_name_character(c)) {
      const std::size_t start = position_;
      const std::string_view name = parse_name();
      return grammar_.reference(rule_named(name, start));
    }
    if (c == '<' || c == '!') {
      fail("tokens in a grammar are not supported; write their text as a literal");
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') {
      fail("nothing stands before this repetition");
    }
    fail("expected a literal, a class of characters, '.', '(' or the name of a rule");
  }

  std::uint64_t parse_count() {
    const std::size_t start = position_;
    std::uint64_t value = 0;
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(peek() - '0');
      if (value > GrammarBuilder::most_repetitions) {
        fail("more than " + std::to_string(GrammarBuilder::most_repetitions) + " repetitions", start);
      }
      ++position_;
    }
    if (position_ == start) {
      fail("expected a number of repetitions");
    }
    return value;
  }

  /// The least and the most repetitions.
  std::pair<std::uint64_t, std::uint64_t> parse_repetition() {
    const std::size_t start = position_;
    const char c = text_[position_++];
    if (c != '{') {
      return {c == '+' ? 1 : 0, c == '?' ? 1 : GrammarBuilder::unbounded};
    }
    skip_space(false);
    const std::uint64_t minimum = peek() == ',' ? 0 : parse_count();
    std::uint64_t maximum = minimum;
    skip_space(false);
    if (peek() == ',') {
      ++position_;
      skip_space(false);
      maximum = peek() == '}' ? GrammarBuilder::unbounded : parse_count();
      skip_space(false);
    }
    if (peek() != '}') {
      fail("expected '}' after a number of repetitions");
    }
    ++position_;
    if (maximum < minimum) {
      fail("at most " + std::to_string(maximum) + " repetitions are fewer than at least " + std::to_string(minimum), start);
    }
    return {minimum, maximum};
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

  GrammarNode parse_literal() {
    const std::size_t start = position_++;
    std::string text;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') {
        fail("this literal is never closed", start);
      }
      append_utf8(text, parse_character());
    }
    ++position_;
    return grammar_.literal(text);
  }

  GrammarNode parse_class() {
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
    budget_.spend(ranges.size());
    ranges = normalize(std::move(ranges));
    if (negated) {
      ranges = complement(ranges);
    }
    if (ranges.empty()) {
      fail("no character is in this class", start);
    }
    return grammar_.characters(ranges);
  }

  void check_defined() const {
    for (const Use& use : uses_) {
      if (!use.defined) {
        fail("rule '" + shown(use.name) + "' is not defined", use.first_use);
      }
    }
    if (!numbers_.contains("root")) {
      throw Error(uses_.empty() ? "grammar: it has no rules" : "grammar: it has no rule 'root', where a text begins");
    }
  }

  std::string_view text_;
  WorkBudget& budget_;
  std::size_t position_ = 0;
  std::size_t line_counted_ = 0;
  std::int32_t line_ = 1;
  GrammarBuilder grammar_;
  std::map<std::string_view, GrammarRule> numbers_;  ///< by name; not a hash table: names could be made to collide
  std::vector<Use> uses_;                            ///< by rule
  std::vector<Group> groups_;
  std::vector<GrammarNode> items_;  ///< that are not part of another one yet
};

}  // namespace

Grammar parse_gbnf(std::string_view text, WorkBudget& budget) { return GbnfParser(text, budget).parse(); }

Grammar parse_gbnf(std::string_view text) {
  WorkBudget budget(grammar_compile_units, "grammar: reading it");
  return parse_gbnf(text, budget);
}

}  // namespace rocmforge
