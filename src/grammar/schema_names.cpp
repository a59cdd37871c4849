// What a schema says of the names of properties.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "grammar/schema_facets.h"
#include "grammar/schema_strings.h"

namespace rocmforge {

bool SchemaDocument::matches(const Json& place, const std::string& pattern, const std::string& name) const {
  // Regular expression engines differ beyond ASCII, so that a property may or may not be the pattern's.
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    fail(place, fmt::format("'patternProperties' or 'propertyNames' beside the property '{}', whose name is not ASCII, is "
                            "not supported",
                            name.substr(0, 40)));
  }
  budget_.spend(50 + pattern.size() / 8);
  bool found = false;
  naming(place, "the pattern of a name", [&] {
    auto known = patterns_.find(pattern);
    if (known == patterns_.end()) {
      known = patterns_.emplace(pattern, TextNfa(budget_)).first;
      known->second.add_pattern(pattern);
    }
    found = known->second.matches(name).front();
  });
  return found;
}

bool SchemaDocument::admits_name(const Json& place, const std::vector<SchemaFacets>& property_names,
                                 const std::string& name) const {
  const Json value = name;
  return std::ranges::any_of(property_names, [&](const SchemaFacets& facets) {
    const std::optional<bool> fits = admits(facets, value);
    const std::vector<std::string> patterns = string_patterns(facets, *this, place);
    return fits != std::optional(false) &&
           std::ranges::all_of(patterns, [&](const std::string& pattern) { return matches(place, pattern, name); });
  });
}

std::optional<SchemaNodes> SchemaDocument::unlisted(const SchemaFacets& facets, const std::string& name) const {
  if (facets.closed) {
    return std::nullopt;
  }
  SchemaNodes all = facets.additional.value_or(SchemaNodes{});
  for (const PatternScope& scope : facets.scopes) {
    bool is_matched = false;
    for (const auto& [pattern, nodes] : scope.patterns) {
      if (matches(*nodes.front(), pattern, name)) {
        is_matched = true;
        all = join(std::move(all), nodes);
      }
    }
    if (!is_matched && scope.closed) {
      return std::nullopt;
    }
    all = is_matched ? all : join(std::move(all), scope.additional.value_or(SchemaNodes{}));
  }
  return all;
}

}  // namespace rocmforge
