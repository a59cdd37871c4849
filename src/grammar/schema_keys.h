#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar_text.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// The properties that an object may have.
struct ObjectKeys {
  struct Listed {
    std::string name;
    SchemaNodes nodes;  ///< of its value
  };
  struct Others {
    std::string key;  ///< an expression for their names, as JSON
    SchemaNodes nodes;
  };
  std::vector<Listed> listed{};  ///< in their order in the object
  std::vector<Others> others{};  ///< no name belongs to two of them, or is listed
  std::string impossible{};      ///< why there is no such object: a required property is forbidden; "" if there is one
};

/// Finds the properties of schemas and writes their names.
class KeyGrammar {
 public:
  KeyGrammar(SchemaDocument& document, GrammarText& grammar) : document_(document), grammar_(grammar) {}

  /// Throws Error, which names `place`.
  ObjectKeys keys(const SchemaFacets& facets, const nlohmann::ordered_json& place);

  /// Throws Error, which names `place`, where the grammar has more rules than a schema may have.
  void check_rules(const nlohmann::ordered_json& place) const;

 private:
  void add_listed(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                  const std::vector<SchemaFacets>& allowed_names, ObjectKeys& keys, std::set<std::string_view>& names) const;
  void add_named(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                 const std::vector<SchemaFacets>& allowed_names, const std::set<std::string_view>& names,
                 ObjectKeys& keys) const;
  void add_groups(const SchemaFacets& facets, const nlohmann::ordered_json& place,
                  const std::vector<SchemaFacets>& allowed_names, const std::set<std::string_view>& names, ObjectKeys& keys);
  std::string other_key(const std::set<std::string_view>& names, const nlohmann::ordered_json& place);
  std::string key_unlike(const std::vector<std::u32string>& taken, std::size_t first, std::size_t end, std::size_t place,
                         const std::string& plain, const nlohmann::ordered_json& schema);

  SchemaDocument& document_;
  GrammarText& grammar_;
};

}  // namespace rocmforge
