#include "grammar/json_grammar.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "grammar/decimal_range.h"

namespace rocmforge {
namespace {

const std::vector<CodeRange>& unescaped() {
  static const std::vector<CodeRange> ranges =
      complement(normalize({{0, 0x1F}, {U'"', U'"'}, {U'\\', U'\\'}, {0x7F, 0x7F}}));
  return ranges;
}

constexpr CodeRange decimal_digits{U'0', U'9'}, small_hexadecimal{U'a', U'f'}, large_hexadecimal{U'A', U'F'};

}  // namespace

GrammarNode JsonGrammar::mark(char one) {
  const auto [found, is_new] = marks_.try_emplace(one);
  if (is_new) {
    found->second = grammar_.literal(std::string_view(&one, 1));
  }
  return found->second;
}

GrammarNode JsonGrammar::blanks() {
  if (!blanks_) {
    const GrammarNode indentation = grammar_.repeat(grammar_.characters(normalize({{U'\t', U'\t'}, {U' ', U' '}})), 0, 32);
    blanks_ = grammar_.add_rule(
        "blanks", grammar_.optional(grammar_.choice({mark(' '), grammar_.sequence({mark('\n'), indentation})})));
  }
  return *blanks_;
}

GrammarNode JsonGrammar::after_blank(GrammarNode value) { return grammar_.sequence({grammar_.optional(mark(' ')), value}); }

GrammarNode JsonGrammar::character() {
  if (!character_) {
    const auto one_of = [&](std::vector<CodeRange> ranges) { return grammar_.characters(normalize(std::move(ranges))); };
    const auto times = [&](GrammarNode node, std::uint64_t count) { return grammar_.repeat(node, count, count); };
    const GrammarNode digit = one_of({decimal_digits, small_hexadecimal, large_hexadecimal});
    const GrammarNode d = one_of({{U'd', U'd'}, {U'D', U'D'}});
    // Surrogates are not characters: a parser may refuse single ones.
    const GrammarNode not_d = one_of({decimal_digits, {U'a', U'c'}, {U'e', U'f'}, {U'A', U'C'}, {U'E', U'F'}});
    const GrammarNode high = one_of({{U'8', U'9'}, {U'a', U'b'}, {U'A', U'B'}}), low = one_of({{U'c', U'f'}, {U'C', U'F'}});
    const GrammarNode code =
        grammar_.choice({grammar_.sequence({not_d, times(digit, 3)}),
                         grammar_.sequence({d, grammar_.characters(std::vector<CodeRange>{{U'0', U'7'}}), times(digit, 2)}),
                         grammar_.sequence({d, high, times(digit, 2), grammar_.literal("\\u"), d, low, times(digit, 2)})});
    const GrammarNode letter = one_of(
        {{U'"', U'"'}, {U'\\', U'\\'}, {U'/', U'/'}, {U'b', U'b'}, {U'f', U'f'}, {U'n', U'n'}, {U'r', U'r'}, {U't', U't'}});
    const GrammarNode escape = grammar_.add_rule("escape", grammar_.choice({letter, grammar_.sequence({mark('u'), code})}));
    character_ = grammar_.choice({grammar_.characters(unescaped()), grammar_.sequence({mark('\\'), escape})});
  }
  return *character_;
}

GrammarNode JsonGrammar::characters(const std::vector<CodeRange>& ranges) {
  std::vector<GrammarNode> parts;
  if (const std::vector<CodeRange> plain = intersection(ranges, unescaped()); !plain.empty()) {
    parts.push_back(grammar_.characters(plain));
  }
  const auto holds = [&](char32_t code_point) { return !intersection(ranges, {{code_point, code_point}}).empty(); };
  constexpr std::pair<char32_t, const char*> short_escapes[] = {
      {U'"', "\\\""}, {U'\\', "\\\\"}, {U'\b', "\\b"}, {U'\f', "\\f"}, {U'\n', "\\n"}, {U'\r', "\\r"}, {U'\t', "\\t"}};
  for (const auto& [code_point, escape] : short_escapes) {
    if (holds(code_point)) {
      parts.push_back(grammar_.literal(escape));
    }
  }
  if (parts.empty()) {
    for (char32_t code_point = 0; code_point < 0x80; ++code_point) {
      if (holds(code_point)) {
        parts.push_back(grammar_.literal(fmt::format("\\u{:04x}", static_cast<unsigned>(code_point))));
      }
    }
  }
  return grammar_.choice(parts);
}

GrammarNode JsonGrammar::quoted(GrammarNode inside) { return grammar_.sequence({mark('"'), inside, mark('"')}); }

GrammarNode JsonGrammar::any_string() {
  if (!string_) {
    string_ = grammar_.add_rule("string", quoted(grammar_.any_number(character())));
  }
  return *string_;
}

GrammarNode JsonGrammar::comma(GrammarNode next) { return grammar_.sequence({mark(','), blanks(), next}); }

GrammarNode JsonGrammar::member(GrammarNode key, GrammarNode value) {
  return grammar_.sequence({key, mark(':'), grammar_.optional(mark(' ')), value});
}

GrammarNode JsonGrammar::bracketed(char open, std::optional<GrammarNode> inside, char close) {
  return inside ? grammar_.sequence({mark(open), blanks(), *inside, blanks(), mark(close)})
                : grammar_.sequence({mark(open), blanks(), mark(close)});
}

GrammarNode JsonGrammar::array(std::optional<GrammarNode> inside) { return bracketed('[', inside, ']'); }

GrammarNode JsonGrammar::object(std::optional<GrammarNode> inside) { return bracketed('{', inside, '}'); }

std::optional<GrammarNode> JsonGrammar::list(GrammarNode one, std::uint64_t minimum, std::uint64_t maximum) {
  if (maximum == 0) {
    return std::nullopt;
  }
  GrammarNode all = one;
  if (maximum > 1) {
    const std::uint64_t most = maximum >= GrammarBuilder::unbounded ? GrammarBuilder::unbounded : maximum - 1;
    all = grammar_.sequence({one, grammar_.repeat(comma(one), minimum == 0 ? 0 : minimum - 1, most)});
  }
  return minimum == 0 ? grammar_.optional(all) : all;
}

GrammarNode JsonGrammar::any_object(int depth) {
  if (const auto known = objects_.find(depth); known != objects_.end()) {
    return known->second;
  }
  const GrammarNode members = *list(member(any_string(), any_value(depth)), 0, GrammarBuilder::unbounded);
  return objects_[depth] = grammar_.add_rule("any-object", object(members));
}

GrammarNode JsonGrammar::any_value(int depth) {
  if (values_.empty()) {
    values_[0] = grammar_.add_rule(
        "any-scalar", grammar_.choice({grammar_.literal("null"), grammar_.literal("true"), grammar_.literal("false"),
                                       any_string(), *decimal_range_grammar({}, true, grammar_)}));
  }
  for (int known = values_.rbegin()->first; known < depth; ++known) {
    const GrammarNode inner = values_[known];
    const GrammarNode elements = *list(inner, 0, GrammarBuilder::unbounded);
    const GrammarNode lists = grammar_.add_rule("any-array", array(elements));
    values_[known + 1] = grammar_.add_rule("any", grammar_.choice({values_[0], lists, any_object(known)}));
  }
  return values_[depth];
}

}  // namespace rocmforge
