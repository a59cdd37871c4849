#include "engine/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "engine/grammar/byte_automaton.h"
#include "engine/grammar/pattern_grammar.h"
#include "engine/grammar/schema_facets.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;
using Expression = std::optional<std::string>;  // none: no value is possible

constexpr int deepest_value = 16;
constexpr std::size_t deepest_rule = 200;
// Other keys that share this many characters with a property's name are not written, because each character needs a rule.
constexpr std::size_t longest_told_apart = 64;
constexpr std::size_t most_schema_rules = 15'000;
constexpr std::uint64_t unbounded = SchemaFacets::unbounded;
// Longer strings and arrays are not written, even if the schema allows them, because each repetition takes positions in the
// automaton.
constexpr std::uint64_t longest_string = 20'000, longest_array = 5'000;

constexpr const char* end_of_value = "ws \"}\"";

std::string maybe(const std::string& expression) { return expression.empty() ? "" : fmt::format("({})?", expression); }

/// A blank, or a line's end with its indentation: bounded, so that a text can't consist of blanks for ever.
void define_blanks(GrammarText& grammar) { grammar.define("ws", "(\" \" | \"\\n\" [ \\t]{0,32})?"); }

std::string any_string(GrammarText& grammar) {
  return grammar.add_once("string", fmt::format("\"\\\"\" {}* \"\\\"\"", json_character(grammar)));
}

std::string object_of_any(GrammarText& grammar, const std::string& value) {
  const std::string member = fmt::format("{} \":\" \" \"? {}", any_string(grammar), value);
  return grammar.add_once("any-object", fmt::format("\"{{\" ws ({0} (\",\" ws {0})*)? ws \"}}\"", member));
}

/// Any value whose lists and objects are nested at most `depth` deep.
std::string any_value(GrammarText& grammar, int depth) {
  const std::string scalar =
      grammar.add_once("any-scalar", fmt::format("\"null\" | \"true\" | \"false\" | {} | {}", any_string(grammar),
                                                 *decimal_range_grammar({}, true, grammar)));
  std::string value = scalar;
  for (int i = 0; i < depth; ++i) {
    const std::string array = grammar.add_once("any-array", fmt::format("\"[\" ws ({0} (\",\" ws {0})*)? ws \"]\"", value));
    value = grammar.add_once("any", fmt::format("{} | {} | {}", scalar, array, object_of_any(grammar, value)));
  }
  return value;
}

/// The part of a name that the names of its rules contain.
std::string hint_of(std::string_view outer, std::string_view inner) {
  return fmt::format("{}-{}", outer.substr(0, 40), inner.substr(0, 40));
}

/// Writes the rules for one schema.
class SchemaGrammar {
 public:
  SchemaGrammar(const Json& schema, WorkBudget& budget) : schema_(schema), budget_(budget), document_(schema, budget) {}

  std::string write() {
    define_blanks(grammar_);
    open({&schema_}, "value");
    write_open();
    const Expression value = visit({&schema_});
    if (!value) {
      document_.fail(schema_, "no value satisfies it");
    }
    grammar_.define("root", fmt::format("\" \"? {}", *value));
    return grammar_.text();
  }

 private:
  struct Visit {
    std::string name;
    bool done = false, possible = true, used = false;
  };
  using Visits = std::map<SchemaNodes, Visit>;
  /// A schema whose rule is written after the rules of its parts.
  struct Open {
    Visits::value_type* visit;
    std::string hint;
    const Json* choice = nullptr;  ///< SchemaDocument::plain_choice
    std::vector<SchemaFacets> alternatives{};
    std::vector<std::pair<SchemaNodes, std::string>> parts{};  ///< with their hints; the first is last
  };

  [[noreturn]] void fail(std::string_view message) const { document_.fail(*place_, message); }

  /// The rule for the values that satisfy all of `nodes`; it was opened before.
  Expression visit(const SchemaNodes& unresolved) {
    const SchemaNodes nodes = document_.follow(unresolved);
    if (nodes.empty()) {
      return any_value(grammar_, deepest_value);
    }
    Visit& visit = visits_.at(nodes);
    visit.used = visit.used || !visit.done;
    return visit.possible ? Expression(visit.name) : std::nullopt;
  }

  /// Opens the rule for the values that satisfy all of `nodes`, unless it exists.
  void open(const SchemaNodes& unresolved, const std::string& hint) {
    const SchemaNodes nodes = document_.follow(unresolved);
    if (nodes.empty()) {
      return;
    }
    const auto [found, is_new] = visits_.try_emplace(nodes);
    if (!is_new) {
      return;
    }
    place_ = nodes.front();
    if (open_.size() == deepest_rule) {
      fail(fmt::format("values are nested deeper than {}", deepest_rule));
    }
    check_rules();
    found->second.name = grammar_.reserve(hint);
    Open& one = open_.emplace_back(Open{&*found, hint});
    one.choice = SchemaDocument::plain_choice(nodes);
    if (one.choice != nullptr) {
      for (const Json& part : *one.choice) {
        one.parts.emplace_back(SchemaNodes{&part}, hint);
      }
    } else {
      one.alternatives = document_.alternatives(nodes);
      for (const SchemaFacets& facets : one.alternatives) {
        add_parts(facets, one);
      }
    }
    budget_.spend(4 * one.parts.size());
    std::ranges::reverse(one.parts);
  }

  /// The schemas that the rule for `facets` names.
  void add_parts(const SchemaFacets& facets, Open& open) const {
    const std::uint8_t types = facets.written_types();
    if (facets.values || types == schema_any) {
      return;
    }
    if ((types & schema_array) != 0) {
      const std::size_t count = std::min<std::uint64_t>(facets.prefix_items.size(), facets.max_items);
      for (std::size_t i = 0; i < count; ++i) {
        open.parts.emplace_back(facets.prefix_items[i], hint_of(open.hint, std::to_string(i)));
      }
      if (facets.items && facets.max_items > facets.prefix_items.size()) {
        open.parts.emplace_back(*facets.items, hint_of(open.hint, "item"));
      }
    }
    if ((types & schema_object) != 0) {
      for (const auto& [name, nodes] : facets.properties) {
        open.parts.emplace_back(nodes, hint_of("value", name));
      }
      if (facets.additional && !facets.closed) {
        open.parts.emplace_back(*facets.additional, hint_of(open.hint, "value"));
      }
    }
  }

  /// Writes the open rules, each after those of its parts: no recursion, however deep a schema nests.
  void write_open() {
    while (!open_.empty()) {
      Open& top = open_.back();
      if (!top.parts.empty()) {
        const auto [nodes, hint] = std::move(top.parts.back());
        top.parts.pop_back();
        open(nodes, hint);
        continue;
      }
      place_ = top.visit->first.front();
      const std::size_t before = grammar_.text().size();
      write_rule(top);
      budget_.spend((grammar_.text().size() - before) / 2);
      open_.pop_back();
    }
  }

  void write_rule(const Open& open) {
    std::vector<std::string> parts;
    if (open.choice != nullptr) {
      for (const Json& one : *open.choice) {
        if (const Expression part = visit({&one})) {
          parts.push_back(*part);
        }
      }
    }
    for (const SchemaFacets& facets : open.alternatives) {
      add_values(facets, open.hint, parts);
    }
    Visit& visit = open.visit->second;
    visit.done = true;
    visit.possible = !parts.empty();
    if (visit.possible) {
      grammar_.define(visit.name, GrammarText::choice(parts));
    } else if (visit.used) {
      fail("no value satisfies it");
    }
  }

  void check_rules() const {
    if (grammar_.rules() > most_schema_rules) {
      fail(fmt::format("the schema is too large: it takes more than {} rules", most_schema_rules));
    }
  }

  void add_values(const SchemaFacets& facets, std::string_view hint, std::vector<std::string>& parts) {
    if (facets.values) {
      add_constants(facets, parts);
      return;
    }
    const std::uint8_t types = facets.written_types();
    if (types == schema_any) {
      parts.push_back(any_value(grammar_, deepest_value));
      return;
    }
    const auto add = [&](Expression expression) {
      if (expression) {
        parts.push_back(std::move(*expression));
      }
    };
    if ((types & schema_null) != 0) {
      add("\"null\"");
    }
    if ((types & schema_boolean) != 0) {
      add("\"true\" | \"false\"");
    }
    if ((types & (schema_number | schema_integer)) != 0) {
      add(decimal_range_grammar(facets.range, (types & schema_number) != 0, grammar_));
    }
    if ((types & schema_string) != 0) {
      add(string(facets));
    }
    if ((types & schema_array) != 0) {
      add(array(facets, hint));
    }
    if ((types & schema_object) != 0) {
      add(object(facets, hint));
    }
  }

  void add_constants(const SchemaFacets& facets, std::vector<std::string>& parts) {
    for (const Json& value : *facets.values) {
      const std::optional<bool> fits = admits_beside_values(facets, value);  // `value` is one of facets.values
      if (!fits) {
        fail("'enum' or 'const' beside other keywords for the same values is not supported");
      }
      if (*fits) {
        parts.push_back(GrammarText::literal(text_of(value)));
      }
    }
  }

  [[nodiscard]] std::string text_of(const Json& value) const {
    try {
      return value.dump();
    } catch (const Json::exception&) {
      fail("a text is not UTF-8");
    }
  }

  Expression string(const SchemaFacets& facets) {
    std::vector<std::string> patterns = facets.patterns;
    for (const std::string& format : facets.formats) {
      patterns.push_back(format_pattern(format));
      if (patterns.back().empty()) {
        fail(fmt::format("'format': '{}' is not supported", format.substr(0, 40)));
      }
    }
    if (patterns.size() > 1) {
      fail("more than one 'pattern' or 'format' for the same text is not supported");
    }
    PatternGrammar inside{"", 0, GrammarExpression::unbounded, json_character(grammar_)};
    if (!patterns.empty()) {
      try {
        inside = pattern_grammar(patterns[0], grammar_);
      } catch (const Error& error) {
        fail(fmt::format("'pattern': {}", error.what()));
      }
    }
    const std::uint64_t shortest = std::max(facets.min_length, inside.shortest);
    std::uint64_t longest = std::min<std::uint64_t>(facets.max_length, inside.longest);
    if (shortest > longest) {
      return std::nullopt;
    }
    const bool bounded = shortest > inside.shortest || longest < inside.longest;
    if (bounded && inside.character.empty()) {
      fail("'minLength' or 'maxLength' beside a 'pattern' or 'format' that does not imply it is not supported");
    }
    if (bounded || patterns.empty()) {
      if (longest != GrammarExpression::unbounded) {
        longest = std::min(longest, std::max(longest_string, shortest));
      }
      inside.expression = longest == 0 ? "" : inside.character + GrammarText::repetition(shortest, longest);
    }
    return fmt::format("\"\\\"\" {} \"\\\"\"", inside.expression.empty() ? "" : fmt::format("({})", inside.expression));
  }

  /// Elements in order, built from the last to the first: each may be followed by the later ones.
  Expression array(const SchemaFacets& facets, std::string_view hint) {
    std::uint64_t longest = facets.max_items;
    std::vector<std::string> first;
    for (const SchemaNodes& nodes : facets.prefix_items) {
      const Expression element = first.size() < longest ? visit(nodes) : std::nullopt;
      if (!element) {
        longest = std::min<std::uint64_t>(longest, first.size());
        break;
      }
      first.push_back(*element);
    }
    // After listed elements others are written only if the schema mentions or needs them.
    const bool has_others = facets.items || first.empty() || facets.min_items > first.size();
    Expression other;
    if (has_others && longest > first.size()) {
      other = visit(facets.items.value_or(SchemaNodes{}));
    }
    if (!other) {
      longest = std::min<std::uint64_t>(longest, first.size());
    }
    if (facets.min_items > longest) {
      return std::nullopt;
    }
    std::string rest;
    if (other) {
      const std::uint64_t minimum = facets.min_items - std::min<std::uint64_t>(facets.min_items, first.size());
      const std::uint64_t most =
          longest == unbounded ? unbounded : std::min(longest - first.size(), std::max(longest_array, minimum));
      if (first.empty()) {
        return array_of(elements(*other, minimum, most));
      }
      rest = fmt::format("(\",\" ws {}){}", *other, repetition(minimum, most));
    }
    for (std::size_t i = first.size(); i-- > 0;) {
      const std::string separated =
          fmt::format("{}{}{}{}", i == 0 ? "" : "\",\" ws ", first[i], rest.empty() ? "" : " ", rest);
      rest = grammar_.add(hint, i < facets.min_items ? separated : maybe(separated));
    }
    return array_of(rest);
  }

  static std::string array_of(const std::string& inside) {
    return inside.empty() ? "\"[\" ws \"]\"" : fmt::format("\"[\" ws {} ws \"]\"", inside);
  }
  static std::string repetition(std::uint64_t minimum, std::uint64_t maximum) {
    return GrammarText::repetition(minimum, maximum == unbounded ? GrammarExpression::unbounded : maximum);
  }
  /// `minimum` to `maximum` of `one`, separated.
  static std::string elements(const std::string& one, std::uint64_t minimum, std::uint64_t maximum) {
    if (maximum == 0) {
      return "";
    }
    const std::uint64_t more = minimum == 0 ? 0 : minimum - 1;
    const std::string list = maximum == 1 ? one
                                          : fmt::format("{0} (\",\" ws {0}){1}", one,
                                                        repetition(more, maximum == unbounded ? unbounded : maximum - 1));
    return minimum == 0 ? maybe(list) : list;
  }

  struct Member {
    std::string rule;
    bool required;
  };

  Expression object(const SchemaFacets& facets, std::string_view hint) {
    const std::set<std::string_view> required(facets.required.begin(), facets.required.end());
    std::set<std::string_view> names;
    std::vector<Member> members;
    const auto add = [&](const std::string& name, const SchemaNodes& nodes) {
      check_rules();
      names.insert(name);
      const Expression value = visit(nodes);
      if (value) {
        members.push_back({grammar_.add(hint_of(hint, name),
                                        fmt::format("{} \":\" \" \"? {}", GrammarText::literal(text_of(name)), *value)),
                           required.contains(name)});
      }
      return value.has_value() || !required.contains(name);
    };
    for (const auto& [name, nodes] : facets.properties) {
      if (!add(name, nodes)) {
        return std::nullopt;
      }
    }
    for (const std::string& name : facets.required) {
      if (!names.contains(name) && (facets.closed || !add(name, facets.additional.value_or(SchemaNodes{})))) {
        return std::nullopt;
      }
    }
    Expression other;
    if (!facets.closed && (facets.additional || names.empty())) {
      if (const Expression value = visit(facets.additional.value_or(SchemaNodes{}))) {
        other = grammar_.add(fmt::format("{}-other", hint), fmt::format("{} \":\" \" \"? {}", other_key(names), *value));
      }
    }
    return object_of(facets, members, other, hint);
  }

  Expression object_of(const SchemaFacets& facets, const std::vector<Member>& members, const Expression& other,
                       std::string_view hint) {
    const auto required = static_cast<std::uint64_t>(
        std::count_if(members.begin(), members.end(), [](const Member& one) { return one.required; }));
    if (facets.max_properties < required || facets.min_properties > facets.max_properties ||
        (!other && facets.min_properties > members.size())) {
      return std::nullopt;
    }
    if (members.empty()) {
      // A key that occurs twice is one property, and parsers differ in which value they use.
      if (facets.min_properties > 1) {
        fail("'minProperties' above 1 is supported only for required properties");
      }
      return braces(other ? elements(*other, facets.min_properties, std::min(facets.max_properties, longest_array)) : "");
    }
    const std::uint64_t most = other ? unbounded : members.size();
    if (facets.max_properties < most || facets.min_properties > required) {
      fail("'minProperties' or 'maxProperties' beside optional 'properties' is not supported");
    }
    // What may follow a member: from the last member to the first.
    std::string rest = other ? fmt::format("(\",\" ws {})*", *other) : "";
    std::vector<std::string> beginnings;
    if (other) {
      beginnings.push_back(fmt::format("{} {}", *other, rest));
    }
    for (std::size_t i = members.size(); i-- > 0;) {
      const Member& member = members[i];
      const std::string with_rest = rest.empty() ? member.rule : fmt::format("{} {}", member.rule, rest);
      if (member.required) {
        beginnings.clear();
      }
      beginnings.push_back(with_rest);
      if (i > 0) {
        const std::string next = fmt::format("\",\" ws {}", member.rule);
        rest =
            grammar_.add(hint, fmt::format("{}{}{}", member.required ? next : maybe(next), rest.empty() ? "" : " ", rest));
      }
    }
    std::ranges::reverse(beginnings);
    const std::string inside = fmt::format("({})", GrammarText::choice(beginnings));
    return braces(required > 0 ? inside : inside + "?");
  }

  static std::string braces(const std::string& inside) {
    return fmt::format("\"{{\" ws {}{}{}", inside, inside.empty() ? "" : " ", end_of_value);
  }

  /// Any key but `names`, written without escapes.
  std::string other_key(const std::set<std::string_view>& names) {
    const auto& plain = ByteAutomaton::plain_characters();
    std::vector<std::u32string> taken;
    for (const std::string_view name : names) {
      std::u32string text;
      for (std::size_t i = 0; i < name.size();) {
        const std::size_t length = utf8_unit(name, i).length;
        text += utf8_code_point(name.substr(i, length));
        i += length;
      }
      taken.push_back(std::move(text));
    }
    std::sort(taken.begin(), taken.end());
    return fmt::format("\"\\\"\" {} \"\\\"\"", key_unlike(taken, 0, taken.size(), 0, GrammarText::characters(plain)));
  }

  /// The rule for the rest of a key after the first `place` characters of taken[first..end), which they share, such that the
  /// key is none of them. Recurses at most longest_told_apart deep.
  std::string key_unlike(const std::vector<std::u32string>& taken, std::size_t first, std::size_t end, std::size_t place,
                         const std::string& plain) {
    check_rules();
    std::vector<std::string> parts;
    std::vector<CodeRange> starts;
    bool may_end = true;
    for (std::size_t i = first; i < end;) {
      if (taken[i].size() == place) {
        may_end = false;
        ++i;
        continue;
      }
      const char32_t start = taken[i][place];
      std::size_t same = i;
      while (same < end && taken[same][place] == start) {
        ++same;
      }
      // The keys that are written here have only plain characters.
      starts.push_back({start, start});
      const bool is_plain = std::any_of(ByteAutomaton::plain_characters().begin(), ByteAutomaton::plain_characters().end(),
                                        [&](const CodeRange& range) { return range.first <= start && start <= range.last; });
      if (is_plain && place + 1 < longest_told_apart) {
        parts.push_back(GrammarText::characters({{start, start}}) + " " + key_unlike(taken, i, same, place + 1, plain));
      }
      i = same;
    }
    std::vector<CodeRange> others = complement(ByteAutomaton::plain_characters());
    others.insert(others.end(), starts.begin(), starts.end());
    others = complement(normalize(std::move(others)));
    if (starts.empty() && may_end) {
      return plain + "*";
    }
    parts.push_back(fmt::format("{} {}*", GrammarText::characters(others), plain));
    if (may_end) {
      parts.insert(parts.begin(), "\"\"");
    }
    return grammar_.add("key", GrammarText::choice(parts));
  }

  const Json& schema_;
  WorkBudget& budget_;
  SchemaDocument document_;
  GrammarText grammar_;
  Visits visits_;
  std::deque<Open> open_;        // each a part of the one before
  const Json* place_ = nullptr;  // the schema that error messages name
};

}  // namespace

std::string json_schema_to_gbnf(const nlohmann::ordered_json& schema) {
  WorkBudget budget(grammar_compile_units, "json_schema: compiling it");
  return json_schema_to_gbnf(schema, budget);
}

std::string json_schema_to_gbnf(const nlohmann::ordered_json& schema, WorkBudget& budget) {
  std::string grammar = SchemaGrammar(schema, budget).write();
  // Infinite or too large grammars are detected here.
  with_context("json_schema", [&] { (void)ByteAutomaton(parse_gbnf(grammar, budget), budget); });
  return grammar;
}

std::string json_object_gbnf() {
  GrammarText grammar;
  define_blanks(grammar);
  const std::string object = object_of_any(grammar, any_value(grammar, deepest_value - 1));
  grammar.define("root", fmt::format("\" \"? {}", object));
  return grammar.text();
}

}  // namespace rocmforge
