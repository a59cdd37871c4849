#include "grammar/unique_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t most_ordered_rules = 4'000;

/// The integers between the bounds; none where they are not both given or too far apart.
std::optional<std::vector<Json>> integers(const DecimalRange& range) {
  constexpr std::size_t most_digits = 15;
  if (!range.lower || !range.upper || range.lower->value.whole.size() > most_digits ||
      range.upper->value.whole.size() > most_digits) {
    return std::nullopt;
  }
  const auto toward_zero = [](const Decimal& value) { return std::stoll((value.negative ? "-" : "") + value.whole); };
  const std::int64_t first = toward_zero(range.lower->value) - 1, last = toward_zero(range.upper->value) + 1;
  if (last - first > static_cast<std::int64_t>(most_unique_values) + 2) {
    return std::nullopt;
  }
  std::vector<Json> values;
  for (std::int64_t value = first; value <= last; ++value) {
    values.emplace_back(value);
  }
  return values;  // and those at the bounds, which are checked by the caller
}

bool add_values(const SchemaFacets& facets, std::vector<Json>& all) {
  std::vector<Json> candidates;
  if (facets.values) {
    candidates = *facets.values;
  } else {
    const std::uint8_t types = facets.written_types();
    if (facets.is_open() || (types & ~(schema_null | schema_boolean | schema_integer)) != 0) {
      return false;
    }
    candidates = {nullptr, true, false};
    if ((types & schema_integer) != 0) {
      const auto numbers = integers(facets.range);
      if (!numbers) {
        return false;
      }
      candidates.insert(candidates.end(), numbers->begin(), numbers->end());
    }
  }
  for (const Json& value : candidates) {
    const std::optional<bool> fits = admits_beside_values(facets, value);
    if (!fits) {
      return false;
    }
    if (*fits && std::ranges::find(all, value) == all.end()) {
      all.push_back(value);
    }
    if (all.size() > most_unique_values) {
      return false;
    }
  }
  return true;
}

/// A value, behind a comma unless it is the first, and what may follow it.
GrammarNode element(GrammarNode value, bool is_first, GrammarNode rest, JsonGrammar& json) {
  return json.grammar().sequence({is_first ? value : json.comma(value), rest});
}

GrammarNode in_any_order(std::span<const GrammarNode> values, std::uint64_t minimum, std::uint64_t maximum,
                         std::string_view name, JsonGrammar& json) {
  // A rule for what may follow each set of elements.
  GrammarBuilder& grammar = json.grammar();
  const std::uint32_t all = (1u << values.size()) - 1;
  std::vector<GrammarRule> rules;
  for (std::uint32_t used = 0; used <= all; ++used) {
    rules.push_back(grammar.declare(name));
  }
  for (std::uint32_t used = 0; used <= all; ++used) {
    const auto count = static_cast<std::uint64_t>(std::popcount(used));
    std::vector<GrammarNode> parts;
    for (std::size_t i = 0; i < values.size() && count < maximum; ++i) {
      if ((used >> i & 1) == 0) {
        parts.push_back(element(values[i], count == 0, grammar.reference(rules[used | 1u << i]), json));
      }
    }
    if (count >= minimum) {
      parts.push_back(grammar.literal(""));
    }
    grammar.define(rules[used], grammar.choice(parts));
  }
  return grammar.reference(rules[0]);
}

GrammarNode in_order(std::span<const GrammarNode> values, std::uint64_t minimum, std::uint64_t maximum,
                     std::string_view name, JsonGrammar& json) {
  // A rule for what may follow a number of elements, of those from one place on. Without a bound, the number matters only
  // until it reaches the least.
  GrammarBuilder& grammar = json.grammar();
  const std::uint64_t counted = maximum < values.size() ? maximum : std::max<std::uint64_t>(minimum, 1);
  if (counted * values.size() > most_ordered_rules) {
    throw Error(fmt::format("takes more than {} rules", most_ordered_rules));
  }
  using Rest = std::optional<GrammarNode>;  // none: the array can't end
  const GrammarNode end = grammar.literal("");
  std::vector<Rest> after(counted + 1), here(counted + 1);  // by number of elements
  for (std::uint64_t count = 0; count <= counted; ++count) {
    after[count] = count >= minimum ? Rest(end) : std::nullopt;
  }
  for (std::size_t i = values.size(); i-- > 0;) {
    for (std::uint64_t count = 0; count <= counted; ++count) {
      const std::uint64_t next = std::min(count + 1, counted);
      std::vector<GrammarNode> parts;
      if ((count < counted || maximum >= values.size()) && after[next]) {
        parts.push_back(element(values[i], count == 0, *after[next], json));
      }
      if (after[count]) {
        parts.push_back(*after[count]);
      }
      here[count] = parts.empty() ? std::nullopt : Rest(grammar.add_rule(name, grammar.choice(parts)));
    }
    after.swap(here);
  }
  return *after[0];
}

}  // namespace

std::optional<std::vector<Json>> finite_values(const std::vector<SchemaFacets>& alternatives) {
  std::vector<Json> all;
  const bool is_finite =
      std::ranges::all_of(alternatives, [&](const SchemaFacets& facets) { return add_values(facets, all); });
  return is_finite ? std::optional(std::move(all)) : std::nullopt;
}

GrammarNode unique_elements_grammar(std::span<const GrammarNode> values, std::uint64_t minimum, std::uint64_t maximum,
                                    std::string_view name, JsonGrammar& json) {
  return values.size() <= most_unordered_values ? in_any_order(values, minimum, maximum, name, json)
                                                : in_order(values, minimum, maximum, name, json);
}

}  // namespace rocmforge
