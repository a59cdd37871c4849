#include "grammar/schema_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "grammar/decimal_multiples.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_excluded_numbers = 200;

/// The numbers that `not` leaves out, ascending, each once.
std::vector<Decimal> excluded_numbers(const SchemaFacets& facets) {
  std::vector<Decimal> numbers;
  for (const auto& value : facets.excluded) {
    if (value.is_number()) {
      if (auto decimal = parse_decimal(value.dump())) {
        numbers.push_back(std::move(*decimal));
      } else {
        throw Error("a number in 'not' takes more than 40 digits on one side of the point");
      }
    }
  }
  std::ranges::sort(numbers, [](const Decimal& a, const Decimal& b) { return compare(a, b) < 0; });
  const auto equal = [](const Decimal& a, const Decimal& b) { return compare(a, b) == 0; };
  numbers.erase(std::unique(numbers.begin(), numbers.end(), equal), numbers.end());  // Clang 14 has no ranges::unique
  if (numbers.size() > most_excluded_numbers) {
    throw Error(fmt::format("more than {} numbers in 'not'", most_excluded_numbers));
  }
  return numbers;
}

/// The bound that leaves fewer numbers. `sign`: 1 for lower bounds, -1 for upper ones.
std::optional<DecimalBound> tighter(const std::optional<DecimalBound>& one, const std::optional<DecimalBound>& other,
                                    int sign) {
  if (!one || !other) {
    return one ? one : other;
  }
  const int order = compare(one->value, other->value) * sign;
  return order > 0 || (order == 0 && one->exclusive) ? one : other;
}

}  // namespace

std::optional<GrammarNode> number_grammar(const SchemaFacets& facets, bool fractions, GrammarBuilder& grammar) {
  std::vector<Decimal> units = facets.multiples_of;
  if (!units.empty() && !fractions) {
    units.push_back({false, "1", ""});
  }
  std::vector<GrammarNode> parts;
  std::optional<DecimalBound> from;
  const auto add_up_to = [&](const std::optional<DecimalBound>& to) {
    const DecimalRange range{tighter(facets.range.lower, from, 1), tighter(facets.range.upper, to, -1)};
    const auto part =
        units.empty() ? decimal_range_grammar(range, fractions, grammar) : decimal_multiples_grammar(range, units, grammar);
    if (part) {
      parts.push_back(*part);
    }
    from = to;
  };
  for (const Decimal& number : excluded_numbers(facets)) {
    add_up_to(DecimalBound{number, true});
  }
  add_up_to(std::nullopt);
  return parts.empty() ? std::nullopt : std::optional(grammar.choice(parts));
}

}  // namespace rocmforge
