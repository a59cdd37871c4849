#include "grammar/schema_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/byte_automaton.h"
#include "grammar/schema_strings.h"
#include "grammar/text_automaton.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

// Other keys that share this many characters with a property's name are not written, because each character needs a rule.
constexpr std::size_t longest_told_apart = 64;
// Where the length of a name has a bound, longer names are not written.
constexpr std::uint64_t longest_bounded_name = 256;
constexpr std::size_t most_schema_rules = 15'000;

bool allows_every_name(const SchemaFacets& facets) {
  return (facets.types & schema_string) != 0 && !facets.values && facets.excluded.empty() && facets.patterns.empty() &&
         facets.formats.empty() && facets.min_length == 0 && facets.max_length == SchemaFacets::unbounded;
}

/// The languages that decide which schemas a name's value has, and whether the name is allowed.
class NameLanguages {
 public:
  NameLanguages(const SchemaFacets& facets, const std::vector<SchemaFacets>& allowed,
                const std::set<std::string_view>& names, const SchemaDocument& document, const Json& place)
      : facets_(facets), allowed_(allowed), languages_(document.budget()) {
    languages_.add_texts({names.begin(), names.end()});
    for (const SchemaFacets& one : allowed_) {
      for (const std::string& pattern : string_patterns(one, document, place)) {
        languages_.add_pattern(pattern);
      }
      needed_.emplace_back(languages_.num_languages());
      languages_.add_texts(excluded_strings(one));
      const bool bounded = one.max_length != SchemaFacets::unbounded;
      languages_.add_lengths(one.min_length, bounded
                                                 ? std::min(one.max_length, std::max(longest_bounded_name, one.min_length))
                                                 : SchemaFacets::unbounded);
      if (one.values) {
        std::vector<std::string> texts;
        for (const Json& value : *one.values) {
          texts.push_back(value.is_string() ? value.get<std::string>() : "\x01");
        }
        languages_.add_texts(texts);
      }
    }
    for (const PatternScope& scope : facets_.scopes) {
      for (const auto& [pattern, nodes] : scope.patterns) {
        languages_.add_pattern(pattern);
      }
    }
  }

  [[nodiscard]] const TextNfa& languages() const { return languages_; }

  /// The schemas of the value of a name that belongs to `matched`; none where such a name is not written. `others`: names
  /// that no pattern matches are written.
  [[nodiscard]] std::optional<SchemaNodes> nodes(const TextAutomaton::Languages& matched, bool others) const {
    std::size_t next = 1;
    bool is_allowed = facets_.property_names == std::nullopt;
    for (std::size_t i = 0; i < allowed_.size(); ++i) {
      bool fits = (allowed_[i].types & schema_string) != 0;
      for (; next < needed_[i]; ++next) {
        fits = fits && matched[next];
      }
      fits = fits && !matched[next] && matched[next + 1] && (!allowed_[i].values || matched[next + 2]);
      next += allowed_[i].values ? 3 : 2;
      is_allowed = is_allowed || fits;
    }
    SchemaNodes all = facets_.additional.value_or(SchemaNodes{});
    bool is_matched = false;
    for (const PatternScope& scope : facets_.scopes) {
      bool in_scope = false;
      for (const auto& [pattern, nodes] : scope.patterns) {
        if (matched[next++]) {
          in_scope = true;
          all = join(std::move(all), nodes);
        }
      }
      is_allowed = is_allowed && (in_scope || !scope.closed);
      is_matched = is_matched || in_scope;
      all = in_scope ? all : join(std::move(all), scope.additional.value_or(SchemaNodes{}));
    }
    return is_allowed && !matched[0] && (is_matched || others) ? std::optional(std::move(all)) : std::nullopt;
  }

 private:
  const SchemaFacets& facets_;
  const std::vector<SchemaFacets>& allowed_;
  std::vector<std::size_t> needed_;  // the end of the patterns of each of allowed_
  TextNfa languages_;
};

}  // namespace

void KeyGrammar::check_rules(const Json& place) const {
  if (json_.grammar().num_rules() - first_rule_ > most_schema_rules) {
    document_.fail(place, fmt::format("the schema is too large: it takes more than {} rules", most_schema_rules));
  }
}

ObjectKeys KeyGrammar::keys(const SchemaFacets& facets, const Json& place) {
  ObjectKeys keys;
  std::set<std::string_view> names;
  const std::vector<SchemaFacets> allowed_names =
      facets.property_names ? document_.alternatives(*facets.property_names) : std::vector<SchemaFacets>{};
  if (std::ranges::any_of(allowed_names, allows_every_name)) {
    SchemaFacets others = facets;
    others.property_names.reset();
    return this->keys(others, place);
  }
  add_listed(facets, place, allowed_names, keys, names);
  if (facets.closed || !keys.impossible.empty()) {
    return keys;
  }
  if (facets.property_names &&
      std::ranges::all_of(allowed_names, [](const SchemaFacets& one) { return one.values.has_value(); })) {
    add_named(facets, place, allowed_names, names, keys);
  } else if (facets.property_names || !facets.scopes.empty()) {
    document_.naming(place, "the names of properties", [&] { add_groups(facets, place, allowed_names, names, keys); });
  } else if (facets.additional || names.empty()) {
    keys.others.push_back({other_key(names, place), facets.additional.value_or(SchemaNodes{})});
  }
  return keys;
}

/// Adds the properties that the schema names.
void KeyGrammar::add_listed(const SchemaFacets& facets, const Json& place, const std::vector<SchemaFacets>& allowed_names,
                            ObjectKeys& keys, std::set<std::string_view>& names) const {
  const std::set<std::string_view> required(facets.required.begin(), facets.required.end());
  const auto add = [&](const std::string& name, const SchemaNodes& nodes) {
    check_rules(place);
    names.insert(name);
    if (!facets.property_names || document_.admits_name(place, allowed_names, name)) {
      keys.listed.push_back({name, nodes});
    } else if (required.contains(name)) {
      keys.impossible = fmt::format("'propertyNames' forbids the required '{}'", name.substr(0, 40));
    }
  };
  for (const auto& [name, nodes] : facets.properties) {
    add(name, nodes);
  }
  for (const std::string& name : facets.required) {
    if (names.contains(name)) {
      continue;
    }
    if (const auto nodes = document_.unlisted(facets, name)) {
      add(name, *nodes);
    } else {
      keys.impossible =
          fmt::format("'required' names '{}', which no property has and 'additionalProperties' forbids", name.substr(0, 40));
      return;
    }
  }
}

/// Adds the names that `propertyNames` lists, as optional properties.
void KeyGrammar::add_named(const SchemaFacets& facets, const Json& place, const std::vector<SchemaFacets>& allowed_names,
                           const std::set<std::string_view>& names, ObjectKeys& keys) const {
  std::set<std::string_view> known = names;
  for (const SchemaFacets& one : allowed_names) {
    for (const Json& value : *one.values) {
      if (!value.is_string() || !known.insert(value.get_ref<const std::string&>()).second) {
        continue;
      }
      check_rules(place);
      const auto& name = value.get_ref<const std::string&>();
      const auto nodes = document_.unlisted(facets, name);
      if (nodes && document_.admits_name(place, allowed_names, name)) {
        keys.listed.push_back({name, *nodes});
      }
    }
  }
}

/// Adds the names that are told apart by patterns: those of printable ASCII characters, where every regular expression
/// engine agrees.
void KeyGrammar::add_groups(const SchemaFacets& facets, const Json& place, const std::vector<SchemaFacets>& allowed_names,
                            const std::set<std::string_view>& names, ObjectKeys& keys) {
  static const std::vector<CodeRange> printable = normalize({{U' ', U'!'}, {U'#', U'['}, {U']', U'~'}});
  const bool others = facets.additional || (facets.scopes.empty() && names.empty()) ||
                      std::ranges::any_of(facets.scopes, [](const PatternScope& one) { return one.additional.has_value(); });
  const NameLanguages languages(facets, allowed_names, names, document_, place);
  const TextAutomaton automaton(languages.languages(), printable, document_.budget());
  std::vector<std::pair<SchemaNodes, std::set<TextAutomaton::Languages>>> groups;
  for (const TextAutomaton::Languages& matched : automaton.combinations()) {
    if (const auto nodes = languages.nodes(matched, others)) {
      auto group = std::ranges::find(groups, *nodes, [](const auto& one) { return one.first; });
      group = group == groups.end() ? groups.emplace(group, *nodes, std::set<TextAutomaton::Languages>{}) : group;
      group->second.insert(matched);
      document_.budget().spend(1 + groups.size());
    }
  }
  for (const auto& [nodes, matched] : groups) {
    check_rules(place);
    const auto wanted = [&held = matched](const TextAutomaton::Languages& one) { return held.contains(one); };
    if (const auto key = automaton.write(wanted, 0, SchemaFacets::unbounded, "key", json_)) {
      keys.others.push_back({json_.quoted(*key), nodes});
    }
  }
}

/// Any key but `names`, written without escapes.
GrammarNode KeyGrammar::other_key(const std::set<std::string_view>& names, const Json& place) {
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
  const GrammarNode plain = json_.grammar().characters(ByteAutomaton::plain_characters());
  return json_.quoted(key_unlike(taken, 0, taken.size(), 0, plain, place));
}

/// The rule for the rest of a key after the first `place` characters of taken[first..end), which they share, such that the
/// key is none of them. Recurses at most longest_told_apart deep.
GrammarNode KeyGrammar::key_unlike(const std::vector<std::u32string>& taken, std::size_t first, std::size_t end,
                                   std::size_t place, GrammarNode plain, const Json& schema) {
  check_rules(schema);
  GrammarBuilder& grammar = json_.grammar();
  std::vector<GrammarNode> parts;
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
      const GrammarNode character = grammar.characters({&starts.back(), 1});
      parts.push_back(grammar.sequence({character, key_unlike(taken, i, same, place + 1, plain, schema)}));
    }
    i = same;
  }
  std::vector<CodeRange> others = complement(ByteAutomaton::plain_characters());
  others.insert(others.end(), starts.begin(), starts.end());
  others = complement(normalize(std::move(others)));
  if (starts.empty() && may_end) {
    return grammar.any_number(plain);
  }
  parts.push_back(grammar.sequence({grammar.characters(others), grammar.any_number(plain)}));
  if (may_end) {
    parts.push_back(grammar.literal(""));
  }
  return grammar.add_rule("key", grammar.choice(parts));
}

}  // namespace rocmforge
