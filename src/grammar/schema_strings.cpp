#include "grammar/schema_strings.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/pattern_grammar.h"
#include "grammar/text_automaton.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

// Longer strings are not written, even if the schema allows them, because each repetition takes positions in the automaton.
constexpr std::uint64_t longest_string = 20'000;

}  // namespace

std::vector<std::string> string_patterns(const SchemaFacets& facets, const SchemaDocument& document, const Json& place) {
  std::vector<std::string> patterns = facets.patterns;
  for (const std::string& format : facets.formats) {
    if (format == "regex") {
      document.fail(place, "'format': 'regex' is not supported");
    }
    if (std::string pattern = format_pattern(format); !pattern.empty()) {
      patterns.push_back(std::move(pattern));
    }
  }
  return patterns;
}

std::vector<std::string> excluded_strings(const SchemaFacets& facets) {
  std::vector<std::string> texts;
  for (const Json& value : facets.excluded) {
    if (value.is_string()) {
      texts.push_back(value.get<std::string>());
    }
  }
  return texts;
}

std::optional<GrammarNode> StringGrammar::write(const SchemaFacets& facets, const Json& place) {
  const std::vector<std::string> patterns = string_patterns(facets, document_, place);
  const std::vector<std::string> excluded = excluded_strings(facets);
  if (patterns.size() > 1 || !excluded.empty()) {
    return write_together(patterns, excluded, facets, place);
  }
  PatternGrammar inside{{}, 0, GrammarBuilder::unbounded, json_.character()};
  if (!patterns.empty()) {
    document_.naming(place, "'pattern'", [&] { inside = json_pattern(patterns[0], json_); });
  }
  const std::uint64_t shortest = std::max(facets.min_length, inside.shortest);
  std::uint64_t longest = std::min<std::uint64_t>(facets.max_length, inside.longest);
  if (shortest > longest) {
    return std::nullopt;
  }
  const bool bounded = shortest > inside.shortest || longest < inside.longest;
  if (bounded && !inside.character) {
    return write_together(patterns, excluded, facets, place);
  }
  if (bounded || patterns.empty()) {
    if (longest != GrammarBuilder::unbounded) {
      longest = std::min(longest, std::max(longest_string, shortest));
    }
    inside.node = json_.grammar().repeat(*inside.character, shortest, longest);
  }
  return json_.quoted(inside.node);
}

/// The texts that match every pattern, have the right length and are not excluded.
std::optional<GrammarNode> StringGrammar::write_together(const std::vector<std::string>& patterns,
                                                         const std::vector<std::string>& excluded,
                                                         const SchemaFacets& facets, const Json& place) {
  const Key key(patterns, excluded, facets.min_length, facets.max_length);
  if (const auto known = together_.find(key); known != together_.end()) {
    return known->second;
  }
  WorkBudget& budget = document_.budget();
  std::optional<GrammarNode> made;
  document_.naming(place, patterns.empty() ? "'not'" : "'pattern'", [&] {
    TextNfa languages(budget);
    for (const std::string& pattern : patterns) {
      languages.add_pattern(pattern);
    }
    languages.add_texts(excluded);
    const auto wanted = [](const TextAutomaton::Languages& matched) {
      return !matched.back() && std::all_of(matched.begin(), matched.end() - 1, [](bool one) { return one; });
    };
    made = TextAutomaton(languages, complement({}), budget)
               .write(wanted, facets.min_length, facets.max_length, "string", json_);
  });
  return together_[key] = made ? std::optional(json_.quoted(*made)) : std::nullopt;
}

}  // namespace rocmforge
