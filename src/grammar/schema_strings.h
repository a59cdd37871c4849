#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/json_grammar.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// The patterns that a string must match: those of `pattern`, and those of `format` where its format has one. Formats that
/// JSON Schema does not define are annotations. Throws Error through `document`.
std::vector<std::string> string_patterns(const SchemaFacets& facets, const SchemaDocument& document,
                                         const nlohmann::ordered_json& place);

/// The strings among `excluded`.
std::vector<std::string> excluded_strings(const SchemaFacets& facets);

/// Writes the strings of schemas.
class StringGrammar {
 public:
  StringGrammar(const SchemaDocument& document, JsonGrammar& json) : document_(document), json_(json) {}

  /// The strings of `facets`; none where there are none. Throws Error, which names `place`.
  std::optional<GrammarNode> write(const SchemaFacets& facets, const nlohmann::ordered_json& place);

 private:
  using Key = std::tuple<std::vector<std::string>, std::vector<std::string>, std::uint64_t, std::uint64_t>;

  std::optional<GrammarNode> write_together(const std::vector<std::string>& patterns,
                                            const std::vector<std::string>& excluded, const SchemaFacets& facets,
                                            const nlohmann::ordered_json& place);

  const SchemaDocument& document_;
  JsonGrammar& json_;
  std::map<Key, std::optional<GrammarNode>> together_;
};

}  // namespace rocmforge
