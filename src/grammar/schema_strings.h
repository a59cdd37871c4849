#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "grammar/grammar_text.h"
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
  StringGrammar(const SchemaDocument& document, GrammarText& grammar) : document_(document), grammar_(grammar) {}

  /// An expression for the strings of `facets`; none where there are none. Throws Error, which names `place`.
  std::optional<std::string> write(const SchemaFacets& facets, const nlohmann::ordered_json& place);

 private:
  using Expression = std::optional<std::string>;
  using Key = std::tuple<std::vector<std::string>, std::vector<std::string>, std::uint64_t, std::uint64_t>;

  Expression write_together(const std::vector<std::string>& patterns, const std::vector<std::string>& excluded,
                            const SchemaFacets& facets, const nlohmann::ordered_json& place);

  const SchemaDocument& document_;
  GrammarText& grammar_;
  std::map<Key, Expression> together_;
};

}  // namespace rocmforge
