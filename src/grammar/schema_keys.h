#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_grammar.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// The properties that an object may have.
struct ObjectKeys {
  struct Listed {
    std::string name;
    SchemaNodes nodes;  ///< of its value
  };
  struct Others {
    GrammarNode key;  ///< their names, as JSON
    SchemaNodes nodes;
  };
  std::vector<Listed> listed{};  ///< in their order in the object
  std::vector<Others> others{};  ///< no name belongs to two of them, or is listed
  std::string impossible{};      ///< why there is no such object: a required property is forbidden; "" if there is one
};

/// Finds the properties of schemas and writes their names.
class KeyGrammar {
 public:
  KeyGrammar(SchemaDocument& document, JsonGrammar& json)
      : document_(document), json_(json), first_rule_(json.grammar().num_rules()) {}

  /// Throws Error, which names `place`.
  ObjectKeys keys(const SchemaFacets& facets, const nlohmann::ordered_json& place);

  /// Throws Error, which names `place`, where the schema has taken more rules than it may have.
  void check_rules(const nlohmann::ordered_json& place) const;

 private:
  void add_listed(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                  const std::vector<SchemaFacets>& allowed_names, ObjectKeys& keys, std::set<std::string_view>& names) const;
  void add_named(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                 const std::vector<SchemaFacets>& allowed_names, const std::set<std::string_view>& names,
                 ObjectKeys& keys) const;
  void add_groups(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                  const std::vector<SchemaFacets>& allowed_names, const std::set<std::string_view>& names, ObjectKeys& keys);
  GrammarNode other_key(const std::set<std::string_view>& names, const nlohmann::ordered_json& place);
  GrammarNode key_unlike(const std::vector<std::u32string>& taken, std::size_t first, std::size_t end, std::size_t place,
                         GrammarNode plain, const nlohmann::ordered_json& schema);

  SchemaDocument& document_;
  JsonGrammar& json_;
  std::size_t first_rule_;  ///< of the schema
};

}  // namespace rocmforge
