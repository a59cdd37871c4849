#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"
#include "base/work_budget.h"

namespace rocmforge {

/// The schemas of a document that have names of their own: by `$id` (draft 4: `id`) and `$anchor` (JSON Schema 2020-12,
/// section 8.2). Relative names are resolved as RFC 3986 5.2 does it, without "..". Names above 500 bytes are not known.
class SchemaIds {
 public:
  using Json = nlohmann::ordered_json;

  /// Notes the names of an object of the document. `resource`: the nearest object around it that has an `$id`, or the root.
  /// Returns `schema` if it has one, else `resource`. Objects come after those around them, the root first.
  const Json* add(const Json& schema, const Json* resource, WorkBudget& budget);

  struct Place {
    const Json* from = nullptr;  ///< null: there is no such schema
    std::string pointer{};       ///< a JSON pointer from there: "" or "/..."
  };
  /// What `reference` names, from `schema`, which was added.
  [[nodiscard]] Place find(const Json& schema, std::string_view reference) const;

 private:
  [[nodiscard]] const std::string& base(const Json* resource) const;
  [[nodiscard]] const Json* named(const std::string& name) const;

  std::unordered_map<const Json*, const Json*> resources_;  // of schemas with a $ref
  std::unordered_map<const Json*, std::string> bases_;      // of resources
  std::map<std::string, const Json*> names_;
};

}  // namespace rocmforge
