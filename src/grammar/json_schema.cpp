#include "grammar/json_schema.h"

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
#include "grammar/schema_facets.h"
#include "grammar/schema_keys.h"
#include "grammar/schema_numbers.h"
#include "grammar/schema_strings.h"
#include "grammar/unique_elements.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;
using Node = std::optional<GrammarNode>;  // none: no value is possible

constexpr int deepest_value = 16;
constexpr std::size_t deepest_rule = 200;
constexpr std::uint64_t unbounded = SchemaFacets::unbounded;
static_assert(unbounded >= GrammarBuilder::unbounded);
// Longer arrays are not written, even if the schema allows them, because each repetition takes positions in the automaton.
constexpr std::uint64_t longest_array = 5'000;

/// The part of a name that the names of its rules contain.
std::string hint_of(std::string_view outer, std::string_view inner) {
  return fmt::format("{}-{}", outer.substr(0, 40), inner.substr(0, 40));
}

/// Makes the rules for one schema.
class SchemaGrammar {
 public:
  SchemaGrammar(const Json& schema, JsonGrammar& json, WorkBudget& budget)
      : schema_(schema),
        budget_(budget),
        json_(json),
        grammar_(json.grammar()),
        document_(schema, budget),
        strings_(document_, json),
        keys_(document_, json) {}

  GrammarNode make() {
    open({&schema_}, "value");
    write_open();
    const Node value = visit({&schema_});
    if (!value) {
      place_ = &schema_;
      fail_impossible();
    }
    return *value;
  }

 private:
  struct Visit {
    GrammarRule rule{};
    bool done = false, possible = true, used = false;
  };
  using Visits = std::map<SchemaNodes, Visit>;
  /// A schema whose rule is written after the rules of its parts.
  struct Open {
    Visits::value_type* visit;
    std::string hint;
    const Json* choice = nullptr;  ///< SchemaDocument::plain_choice
    std::vector<SchemaFacets> alternatives{};
    std::vector<ObjectKeys> keys{};                            ///< of the alternatives
    std::vector<std::pair<SchemaNodes, std::string>> parts{};  ///< with their hints; the first is last
  };

  [[noreturn]] void fail(std::string_view message) const { document_.fail(*place_, message); }
  [[noreturn]] void fail_impossible() const {
    fail(fmt::format("no value satisfies it{}{}", impossible_.empty() ? "" : ": ", impossible_));
  }

  /// The rule for the values that satisfy all of `nodes`; it was opened before.
  Node visit(const SchemaNodes& unresolved) {
    const SchemaNodes nodes = document_.follow(unresolved);
    if (nodes.empty()) {
      return json_.any_value(deepest_value);
    }
    Visit& visit = visits_.at(nodes);
    visit.used = visit.used || !visit.done;
    return visit.possible ? Node(grammar_.reference(visit.rule)) : std::nullopt;
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
    keys_.check_rules(*place_);
    found->second.rule = grammar_.declare(hint);
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
  void add_parts(const SchemaFacets& facets, Open& open) {
    const std::uint8_t types = facets.written_types();
    ObjectKeys& keys = open.keys.emplace_back();
    if (facets.values || facets.is_open()) {
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
      keys = keys_.keys(facets, *place_);
      for (const ObjectKeys::Listed& one : keys.listed) {
        open.parts.emplace_back(one.nodes, hint_of("value", one.name));
      }
      for (const ObjectKeys::Others& others : keys.others) {
        open.parts.emplace_back(others.nodes, hint_of(open.hint, "value"));
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
      document_.naming(*place_, "too large", [&] { write_rule(top); });
      open_.pop_back();
    }
  }

  void write_rule(const Open& open) {
    std::vector<GrammarNode> parts;
    if (open.choice != nullptr) {
      for (const Json& one : *open.choice) {
        if (const Node part = visit({&one})) {
          parts.push_back(*part);
        }
      }
    }
    for (std::size_t i = 0; i < open.alternatives.size(); ++i) {
      add_values(open.alternatives[i], open.keys[i], open.hint, parts);
    }
    Visit& visit = open.visit->second;
    visit.done = true;
    visit.possible = !parts.empty();
    if (visit.possible) {
      grammar_.define(visit.rule, grammar_.choice(parts));
    } else if (visit.used) {
      fail_impossible();
    }
  }

  void add_values(const SchemaFacets& facets, const ObjectKeys& keys, std::string_view hint,
                  std::vector<GrammarNode>& parts) {
    if (facets.values) {
      add_constants(facets, parts);
      return;
    }
    if (facets.is_open()) {
      parts.push_back(json_.any_value(deepest_value));
      return;
    }
    const std::uint8_t types = facets.written_types();
    const auto add = [&](Node node) {
      if (node) {
        parts.push_back(*node);
      }
    };
    const auto add_one = [&](std::uint8_t type, const Json& value) {
      if ((types & type) != 0 && std::ranges::find(facets.excluded, value) == facets.excluded.end()) {
        add(grammar_.literal(value.dump()));
      }
    };
    add_one(schema_null, nullptr);
    add_one(schema_boolean, true);
    add_one(schema_boolean, false);
    if ((types & (schema_number | schema_integer)) != 0) {
      document_.naming(*place_, "'multipleOf'",
                       [&] { add(number_grammar(facets, (types & schema_number) != 0, grammar_)); });
    }
    if ((types & schema_string) != 0) {
      add(strings_.write(facets, *place_));
    }
    const bool excludes_lists = std::ranges::any_of(facets.excluded, [&](const Json& value) {
      return (value.is_array() && (types & schema_array) != 0) || (value.is_object() && (types & schema_object) != 0);
    });
    if (excludes_lists) {
      fail("'not': arrays and objects that are left out are not supported");
    }
    if ((types & schema_array) != 0) {
      add(array(facets, hint));
    }
    if ((types & schema_object) != 0) {
      add(object(facets, keys, hint));
    }
  }

  void add_constants(const SchemaFacets& facets, std::vector<GrammarNode>& parts) {
    for (const Json& value : *facets.values) {
      const std::optional<bool> fits = admits_beside_values(facets, value);  // `value` is one of facets.values
      if (!fits) {
        fail("'enum' or 'const' beside other keywords for the same values is not supported");
      }
      if (*fits) {
        parts.push_back(literal(value));
      }
    }
  }

  /// The one text that is written for a value.
  GrammarNode literal(const Json& value) {
    try {
      return grammar_.literal(value.dump());
    } catch (const Json::exception&) {
      fail("a text is not UTF-8");
    }
  }

  /// Elements in order, built from the last to the first: each may be followed by the later ones.
  Node array(const SchemaFacets& facets, std::string_view hint) {
    std::uint64_t longest = facets.max_items;
    std::vector<GrammarNode> first;
    for (const SchemaNodes& nodes : facets.prefix_items) {
      const Node element = first.size() < longest ? visit(nodes) : std::nullopt;
      if (!element) {
        longest = std::min<std::uint64_t>(longest, first.size());
        break;
      }
      first.push_back(*element);
    }
    // After listed elements others are written only if the schema mentions or needs them.
    const bool has_others = facets.items || first.empty() || facets.min_items > first.size();
    Node other;
    if (has_others && longest > first.size()) {
      other = visit(facets.items.value_or(SchemaNodes{}));
    }
    if (!other) {
      longest = std::min<std::uint64_t>(longest, first.size());
    }
    if (facets.min_items > longest) {
      return std::nullopt;
    }
    if (facets.unique_items && longest > 1) {
      return unique_array(facets, longest, hint);
    }
    Node rest;
    if (other) {
      const std::uint64_t minimum = facets.min_items - std::min<std::uint64_t>(facets.min_items, first.size());
      const std::uint64_t most =
          longest == unbounded ? unbounded : std::min(longest - first.size(), std::max(longest_array, minimum));
      if (first.empty()) {
        return json_.array(json_.list(*other, minimum, most));
      }
      rest = grammar_.repeat(json_.comma(*other), minimum, most);
    }
    for (std::size_t i = first.size(); i-- > 0;) {
      const GrammarNode element = with_rest(i == 0 ? first[i] : json_.comma(first[i]), rest);
      rest = grammar_.add_rule(hint, i < facets.min_items ? element : grammar_.optional(element));
    }
    return json_.array(rest);
  }

  GrammarNode with_rest(GrammarNode node, Node rest) { return rest ? grammar_.sequence({node, *rest}) : node; }

  /// An array whose elements all differ.
  Node unique_array(const SchemaFacets& facets, std::uint64_t longest, std::string_view hint) {
    const auto values =
        facets.prefix_items.empty() && facets.items ? finite_values(document_.alternatives(*facets.items)) : std::nullopt;
    if (!values) {
      fail(
          fmt::format("'uniqueItems' is supported for elements of up to {} known values: enum, const, boolean, null, or "
                      "integers of a range",
                      most_unique_values));
    }
    if (facets.min_items > values->size()) {
      return std::nullopt;
    }
    std::vector<GrammarNode> texts;
    for (const Json& value : *values) {
      texts.push_back(literal(value));
    }
    Node inside;
    document_.naming(*place_, "'uniqueItems'",
                     [&] { inside = unique_elements_grammar(texts, facets.min_items, longest, hint, json_); });
    return json_.array(inside);
  }

  struct Member {
    GrammarNode node;
    bool required;
  };

  Node object(const SchemaFacets& facets, const ObjectKeys& keys, std::string_view hint) {
    if (!keys.impossible.empty()) {
      impossible_ = keys.impossible;
      return std::nullopt;
    }
    const std::set<std::string_view> required(facets.required.begin(), facets.required.end());
    std::vector<Member> members;
    for (const auto& [name, nodes] : keys.listed) {
      keys_.check_rules(*place_);
      if (const Node value = visit(nodes)) {
        const GrammarNode member = json_.member(literal(name), *value);
        members.push_back({grammar_.add_rule(hint_of(hint, name), member), required.contains(name)});
      } else if (required.contains(name)) {
        return std::nullopt;
      }
    }
    std::vector<GrammarNode> others;
    for (const auto& [key, nodes] : keys.others) {
      if (const Node value = visit(nodes)) {
        others.push_back(json_.member(key, *value));
      }
    }
    const Node other =
        others.empty() ? std::nullopt : Node(grammar_.add_rule(fmt::format("{}-other", hint), grammar_.choice(others)));
    return object_of(facets, members, other, hint);
  }

  Node object_of(const SchemaFacets& facets, const std::vector<Member>& members, Node other, std::string_view hint) {
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
      return json_.object(other ? json_.list(*other, facets.min_properties, std::min(facets.max_properties, longest_array))
                                : std::nullopt);
    }
    const std::uint64_t most = other ? unbounded : members.size();
    if (facets.max_properties < most || facets.min_properties > std::max<std::uint64_t>(required, 1)) {
      fail("'minProperties' or 'maxProperties' beside optional 'properties' is not supported");
    }
    // What may follow a member: from the last member to the first.
    Node rest = other ? Node(grammar_.any_number(json_.comma(*other))) : std::nullopt;
    std::vector<GrammarNode> beginnings;
    if (other) {
      beginnings.push_back(with_rest(*other, rest));
    }
    for (std::size_t i = members.size(); i-- > 0;) {
      const Member& member = members[i];
      if (member.required) {
        beginnings.clear();
      }
      beginnings.push_back(with_rest(member.node, rest));
      if (i > 0) {
        const GrammarNode next = json_.comma(member.node);
        rest = grammar_.add_rule(hint, with_rest(member.required ? next : grammar_.optional(next), rest));
      }
    }
    std::ranges::reverse(beginnings);
    const GrammarNode inside = grammar_.choice(beginnings);
    return json_.object(required > 0 || facets.min_properties > 0 ? inside : grammar_.optional(inside));
  }

  const Json& schema_;
  WorkBudget& budget_;
  JsonGrammar& json_;
  GrammarBuilder& grammar_;
  SchemaDocument document_;
  StringGrammar strings_;
  KeyGrammar keys_;
  Visits visits_;
  std::deque<Open> open_;        // each a part of the one before
  const Json* place_ = nullptr;  // the schema that error messages name
  std::string impossible_;       // why an object has no value, for a message
};

}  // namespace

GrammarNode json_schema_value(const nlohmann::ordered_json& schema, JsonGrammar& json, WorkBudget& budget) {
  return SchemaGrammar(schema, json, budget).make();
}

Grammar json_schema_grammar(const nlohmann::ordered_json& schema, WorkBudget& budget) {
  GrammarBuilder grammar(budget);
  JsonGrammar json(grammar);
  const GrammarNode root = json.after_blank(json_schema_value(schema, json, budget));
  return with_context("json_schema", [&] { return grammar.finish(root); });
}

Grammar json_schema_grammar(const nlohmann::ordered_json& schema) {
  WorkBudget budget(grammar_compile_units, "json_schema: compiling it");
  return json_schema_grammar(schema, budget);
}

Grammar json_object_grammar() {
  WorkBudget budget(grammar_compile_units, "json_object: compiling it");
  GrammarBuilder grammar(budget);
  JsonGrammar json(grammar);
  return grammar.finish(json.after_blank(json.any_object(deepest_value - 1)));
}

}  // namespace rocmforge
