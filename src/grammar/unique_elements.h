#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "grammar/json_grammar.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// The most values that the elements of an array with `uniqueItems` may have, and the most that are written in any order:
/// each set of them takes a rule. More are written in their order.
constexpr std::size_t most_unique_values = 200, most_unordered_values = 8;

/// The values that satisfy one of `alternatives`, each once; none where they are more than most_unique_values.
std::optional<std::vector<nlohmann::ordered_json>> finite_values(const std::vector<SchemaFacets>& alternatives);

/// The elements of an array, without its brackets: `minimum` to `maximum` of `values`, none of them twice. Throws Error
/// where it takes too many rules.
GrammarNode unique_elements_grammar(std::span<const GrammarNode> values, std::uint64_t minimum, std::uint64_t maximum,
                                    std::string_view name, JsonGrammar& json);

}  // namespace rocmforge
