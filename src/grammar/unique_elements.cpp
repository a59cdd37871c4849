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

std::string in_any_order(const std::vector<std::string>& texts, std::uint64_t minimum, std::uint64_t maximum,
                         std::string_view hint, GrammarText& grammar) {
  // A rule for what may follow each set of elements.
  const std::uint32_t all = (1u << texts.size()) - 1;
  std::vector<std::string> names;
  for (std::uint32_t used = 0; used <= all; ++used) {
    names.push_back(grammar.reserve(hint));
  }
  for (std::uint32_t used = 0; used <= all; ++used) {
    const auto count = static_cast<std::uint64_t>(std::popcount(used));
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < texts.size() && count < maximum; ++i) {
      if ((used >> i & 1) == 0) {
        parts.push_back(fmt::format("{}{} {}", count == 0 ? "" : "\",\" ws ", texts[i], names[used | 1u << i]));
      }
    }
    if (count >= minimum) {
      parts.emplace_back("\"\"");
    }
    grammar.define(names[used], GrammarText::choice(parts));
  }
  return names[0];
}

std::string in_order(const std::vector<std::string>& texts, std::uint64_t minimum, std::uint64_t maximum,
                     std::string_view hint, GrammarText& grammar) {
  // A rule for what may follow a number of elements, of those from one place on. Without a bound, the number matters only
  // until it reaches the least.
  const std::uint64_t counted = maximum < texts.size() ? maximum : std::max<std::uint64_t>(minimum, 1);
  if (counted * texts.size() > most_ordered_rules) {
    throw Error(fmt::format("takes more than {} rules", most_ordered_rules));
  }
  std::vector<std::string> after(counted + 1), here(counted + 1);  // by number of elements
  for (std::uint64_t count = 0; count <= counted; ++count) {
    after[count] = count >= minimum ? grammar.add_once(hint, "\"\"") : "";
  }
  for (std::size_t i = texts.size(); i-- > 0;) {
    for (std::uint64_t count = 0; count <= counted; ++count) {
      const std::uint64_t next = std::min(count + 1, counted);
      std::vector<std::string> parts;
      if ((count < counted || maximum >= texts.size()) && !after[next].empty()) {
        parts.push_back(fmt::format("{}{} {}", count == 0 ? "" : "\",\" ws ", texts[i], after[next]));
      }
      if (!after[count].empty()) {
        parts.push_back(after[count]);
      }
      here[count] = parts.empty() ? "" : grammar.add(hint, GrammarText::choice(parts));
    }
    after.swap(here);
  }
  return after[0];
}

}  // namespace

std::optional<std::vector<Json>> finite_values(const std::vector<SchemaFacets>& alternatives) {
  std::vector<Json> all;
  const bool is_finite =
      std::ranges::all_of(alternatives, [&](const SchemaFacets& facets) { return add_values(facets, all); });
  return is_finite ? std::optional(std::move(all)) : std::nullopt;
}

std::string unique_elements_grammar(const std::vector<std::string>& texts, std::uint64_t minimum, std::uint64_t maximum,
                                    std::string_view hint, GrammarText& grammar) {
  return texts.size() <= most_unordered_values ? in_any_order(texts, minimum, maximum, hint, grammar)
                                               : in_order(texts, minimum, maximum, hint, grammar);
}

}  // namespace rocmforge
