#include "grammar/schema_facets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/decimal_multiples.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 30> annotations = {"title",
                                                          "description",
                                                          "default",
                                                          "examples",
                                                          "example",
                                                          "$schema",
                                                          "$id",
                                                          "$comment",
                                                          "deprecated",
                                                          "readOnly",
                                                          "writeOnly",
                                                          "$defs",
                                                          "definitions",
                                                          "discriminator",
                                                          "$anchor",
                                                          "xml",
                                                          "externalDocs",
                                                          "contentMediaType",
                                                          "contentEncoding",
                                                          "contentSchema",
                                                          "$vocabulary",
                                                          "id",
                                                          "$dynamicAnchor",
                                                          "$recursiveAnchor",
                                                          "propertyOrdering",
                                                          "markdownDescription",
                                                          "enumDescriptions",
                                                          "markdownEnumDescriptions",
                                                          "defaultSnippets",
                                                          "errorMessage"};

std::uint8_t type_named(std::string_view name) {
  constexpr std::pair<std::string_view, int> types[] = {
      {"null", schema_null},       {"boolean", schema_boolean},
      {"integer", schema_integer}, {"number", schema_number | schema_integer},
      {"string", schema_string},   {"array", schema_array},
      {"object", schema_object}};
  for (const auto& [known, bits] : types) {
    if (known == name) {
      return static_cast<std::uint8_t>(bits);
    }
  }
  return 0;
}

/// Reads one schema's keywords.
class FacetReader {
 public:
  FacetReader(const Json& schema, const SchemaDocument& document) : schema_(schema), document_(document) {}

  SchemaFacets read() {
    bool nullable = false;
    for (const auto& [keyword, value] : schema_.items()) {
      keyword_ = keyword;
      value_ = &value;
      if (keyword == "nullable") {
        nullable = boolean();
      } else if (!read_general() && !read_number() && !read_string() && !read_array() && !read_object() && !read_not() &&
                 !is_ignored()) {
        document_.fail(schema_, fmt::format("'{}' is not supported", keyword.substr(0, 40)));
      }
    }
    if (nullable && facets_.types != schema_any) {
      facets_.types |= schema_null;
    }
    if (excludes_integers_ && schema_.contains("type") && (facets_.types & schema_number) != 0) {
      document_.fail(schema_, "'not': numbers that are no integers are not supported");
    }
    facets_.types &= static_cast<std::uint8_t>(~excluded_types_);
    close_scope();
    return std::move(facets_);
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    document_.fail(schema_, fmt::format("'{}' {}", keyword_, message));
  }

  [[nodiscard]] bool is(std::string_view keyword) const { return keyword_ == keyword; }
  [[nodiscard]] bool is_ignored() const {
    return keyword_.starts_with("x-") || std::find(annotations.begin(), annotations.end(), keyword_) != annotations.end() ||
           std::find(combining_keywords.begin(), combining_keywords.end(), keyword_) != combining_keywords.end();
  }

  [[nodiscard]] bool boolean() const {
    if (!value_->is_boolean()) {
      fail("must be true or false");
    }
    return value_->get<bool>();
  }
  [[nodiscard]] std::uint64_t count(std::uint8_t type) {
    const auto decimal = value_->is_number() ? parse_decimal(value_->dump()) : std::nullopt;
    if (!decimal || decimal->negative || !decimal->fraction.empty() || decimal->whole.size() > 15) {
      fail("must be a whole number from 0");
    }
    facets_.types_named |= type;
    return std::stoull(decimal->whole);
  }
  [[nodiscard]] const std::string& text() const {
    if (!value_->is_string()) {
      fail("must be a string");
    }
    return value_->get_ref<const std::string&>();
  }
  [[nodiscard]] const Json& schema_in(const Json& value) const {
    if (!value.is_object() && !value.is_boolean()) {
      fail("must hold schemas: objects or true or false");
    }
    return value;
  }

  bool read_general() {
    if (is("type")) {
      facets_.types = 0;
      facets_.is_typed = true;
      for (const Json& one : value_->is_array() ? *value_ : Json::array({*value_})) {
        const std::uint8_t bits = one.is_string() ? type_named(one.get_ref<const std::string&>()) : std::uint8_t{0};
        if (bits == 0) {
          fail("must be null, boolean, integer, number, string, array, object or a list of them");
        }
        facets_.types |= bits;
      }
      if (facets_.types == 0) {
        fail("names no type");
      }
      return true;
    }
    if (is("enum") || is("const")) {
      if (is("enum") && (!value_->is_array() || value_->empty())) {
        fail("must be a list of at least one value");
      }
      const std::vector<Json> values = is("const") ? std::vector<Json>{*value_} : value_->get<std::vector<Json>>();
      if (!facets_.values) {
        facets_.values = values;
      } else {
        std::erase_if(*facets_.values,
                      [&](const Json& one) { return std::find(values.begin(), values.end(), one) == values.end(); });
      }
      return true;
    }
    return false;
  }

  [[nodiscard]] DecimalBound bound(bool exclusive) {
    const auto decimal = value_->is_number() ? parse_decimal(value_->dump()) : std::nullopt;
    if (!decimal) {
      fail(value_->is_number() ? "takes more than 40 digits on one side of the point" : "must be a number");
    }
    facets_.types_named |= schema_number | schema_integer;
    return {*decimal, exclusive};
  }

  bool read_number() {
    const auto raise = [&](const DecimalBound& bound) {
      std::optional<DecimalBound>& lower = facets_.range.lower;
      const int order = lower ? compare(bound.value, lower->value) : 1;
      lower = order > 0 || (order == 0 && bound.exclusive) ? bound : *lower;
    };
    const auto reduce = [&](const DecimalBound& bound) {
      std::optional<DecimalBound>& upper = facets_.range.upper;
      const int order = upper ? compare(bound.value, upper->value) : -1;
      upper = order < 0 || (order == 0 && bound.exclusive) ? bound : *upper;
    };
    // Draft 4's exclusive bounds are flags beside the bound.
    const auto flag = [&](const char* name) {
      const auto found = schema_.find(name);
      return found != schema_.end() && found->is_boolean() && found->get<bool>();
    };
    if (is("minimum")) {
      raise(bound(flag("exclusiveMinimum")));
    } else if (is("maximum")) {
      reduce(bound(flag("exclusiveMaximum")));
    } else if (is("exclusiveMinimum") && !value_->is_boolean()) {
      raise(bound(true));
    } else if (is("exclusiveMaximum") && !value_->is_boolean()) {
      reduce(bound(true));
    } else if (is("multipleOf")) {
      read_multiple();
    } else {
      return is("exclusiveMinimum") || is("exclusiveMaximum");
    }
    return true;
  }

  void read_multiple() {
    const Decimal unit = bound(false).value;
    if (unit.negative || unit.is_zero()) {
      fail("must be above 0");
    }
    if (unit.fraction.empty()) {  // all its multiples are integers
      facets_.types &= static_cast<std::uint8_t>(~schema_number);
      facets_.types_named = static_cast<std::uint8_t>((facets_.types_named & ~schema_number) | schema_integer);
    }
    if (unit.whole != "1" || !unit.fraction.empty()) {
      facets_.multiples_of.push_back(unit);
    }
  }

  bool read_string() {
    if (is("minLength")) {
      facets_.min_length = count(schema_string);
    } else if (is("maxLength")) {
      facets_.max_length = count(schema_string);
    } else if (is("pattern")) {
      facets_.patterns.push_back(text());
      facets_.types_named |= schema_string;
    } else if (is("format")) {
      read_format(text());
    } else {
      return false;
    }
    return true;
  }

  void read_format(const std::string& format) {
    if (format == "int32") {
      facets_.range.lower = facets_.range.lower.value_or(DecimalBound{*parse_decimal("-2147483648"), false});
      facets_.range.upper = facets_.range.upper.value_or(DecimalBound{*parse_decimal("2147483647"), false});
    } else if (format != "int64" && format != "float" && format != "double" && format != "password") {
      // Whether it is known shows where a string is written: other types ignore it.
      facets_.formats.push_back(format);
      facets_.types_named |= schema_string;
    }
  }

  bool read_array() {
    if (is("minItems")) {
      facets_.min_items = count(schema_array);
    } else if (is("maxItems")) {
      facets_.max_items = count(schema_array);
    } else if (is("uniqueItems")) {
      facets_.unique_items = boolean();
      facets_.types_named |= facets_.unique_items ? schema_array : 0;
    } else if (is("prefixItems") || (is("items") && value_->is_array())) {
      if (!value_->is_array()) {
        fail("must be a list of schemas");
      }
      for (const Json& one : *value_) {
        facets_.prefix_items.push_back({&schema_in(one)});
      }
      facets_.types_named |= schema_array;
    } else if (is("items") || is("additionalItems")) {
      facets_.items = SchemaNodes{&schema_in(*value_)};
      facets_.types_named |= schema_array;
    } else {
      return false;
    }
    return true;
  }

  bool read_object() {
    if (is("properties")) {
      if (!value_->is_object()) {
        fail("must be an object of schemas");
      }
      for (const auto& [name, property] : value_->items()) {
        facets_.properties.emplace_back(name, SchemaNodes{&schema_in(property)});
      }
    } else if (is("required")) {
      const bool is_list =
          value_->is_array() && std::all_of(value_->begin(), value_->end(), [](const Json& one) { return one.is_string(); });
      if (!is_list) {
        fail("must be a list of names");
      }
      facets_.required = value_->get<std::vector<std::string>>();
      if (facets_.required.empty()) {
        return true;
      }
    } else if (is("additionalProperties")) {
      if (schema_in(*value_) == false) {
        facets_.closed = true;
      } else {
        facets_.additional = *value_ == true ? SchemaNodes{} : SchemaNodes{value_};
      }
    } else if (is("patternProperties")) {
      if (!value_->is_object()) {
        fail("must be an object of schemas");
      }
      for (const auto& [pattern, property] : value_->items()) {
        scope_.patterns.emplace_back(pattern, SchemaNodes{&schema_in(property)});
      }
    } else if (is("propertyNames")) {
      facets_.property_names = SchemaNodes{&schema_in(*value_)};
    } else if (is("minProperties")) {
      facets_.min_properties = count(schema_object);
    } else if (is("maxProperties")) {
      facets_.max_properties = count(schema_object);
    } else {
      return false;
    }
    facets_.types_named |= schema_object;
    return true;
  }

  /// `not` of a list of values, of types, or of both, or of a choice among such.
  bool read_not() {
    if (!is("not")) {
      return false;
    }
    std::vector<const Json*> pending = {value_};
    while (!pending.empty()) {
      const Json& one = *pending.back();
      pending.pop_back();
      if (one == false) {
        continue;
      }
      if (one.is_object() && one.contains("anyOf") && one["anyOf"].is_array()) {
        only_holds(one, {"anyOf"});
        for (const Json& part : one["anyOf"]) {
          pending.push_back(&part);
        }
        continue;
      }
      exclude(one);
    }
    return true;
  }

  /// Fails if a schema in `not` has other keywords than these.
  void only_holds(const Json& one, std::initializer_list<std::string_view> keywords) const {
    for (const auto& [keyword, value] : one.items()) {
      const bool known = std::find(keywords.begin(), keywords.end(), keyword) != keywords.end() ||
                         std::find(annotations.begin(), annotations.end(), keyword) != annotations.end();
      if (!known) {
        fail(fmt::format("is supported for 'enum', 'const' and 'type' only, not for '{}'", keyword.substr(0, 40)));
      }
    }
  }

  void exclude(const Json& one) {
    if (one.is_boolean()) {
      excluded_types_ = schema_any;
      return;
    }
    if (!one.is_object()) {
      fail("must hold a schema: an object or true or false");
    }
    only_holds(one, {"enum", "const", "type"});
    const SchemaFacets inside = read_facets(one, document_);
    if (!inside.values) {
      excludes_integers_ = excludes_integers_ || (inside.types & (schema_integer | schema_number)) == schema_integer;
      excluded_types_ |= inside.types | ((inside.types & schema_integer) != 0 ? schema_number : 0);
      return;
    }
    for (const Json& value : *inside.values) {
      if (admits_beside_values(inside, value) != std::optional(false)) {
        facets_.excluded.push_back(value);
      }
    }
  }

  /// Gives the properties that `patternProperties` leaves to `additionalProperties` to the patterns' scope, and the listed
  /// ones the schemas of the patterns that match them.
  void close_scope() {
    if (scope_.patterns.empty()) {
      return;
    }
    for (auto& [name, nodes] : facets_.properties) {
      for (const auto& [pattern, schemas] : scope_.patterns) {
        if (document_.matches(schema_, pattern, name)) {
          nodes = join(std::move(nodes), schemas);
        }
      }
    }
    scope_.additional = std::exchange(facets_.additional, std::nullopt);
    scope_.closed = std::exchange(facets_.closed, false);
    facets_.scopes.push_back(std::move(scope_));
  }

  const Json& schema_;
  const SchemaDocument& document_;
  SchemaFacets facets_;
  PatternScope scope_;
  std::uint8_t excluded_types_ = 0;
  bool excludes_integers_ = false;
  std::string keyword_;
  const Json* value_ = nullptr;
};

std::uint8_t type_of(const Json& value) {
  if (value.is_number()) {
    const auto decimal = parse_decimal(value.dump());
    return schema_number | (decimal && decimal->fraction.empty() ? schema_integer : 0);
  }
  return type_named(value.type_name());
}

}  // namespace

SchemaNodes join(SchemaNodes a, const SchemaNodes& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

SchemaFacets read_facets(const Json& schema, const SchemaDocument& document) { return FacetReader(schema, document).read(); }

std::optional<bool> admits(const SchemaFacets& facets, const Json& value) {
  if (facets.values && std::find(facets.values->begin(), facets.values->end(), value) == facets.values->end()) {
    return false;
  }
  return admits_beside_values(facets, value);
}

std::optional<bool> admits_beside_values(const SchemaFacets& facets, const Json& value) {
  if ((type_of(value) & facets.types) == 0 ||
      std::find(facets.excluded.begin(), facets.excluded.end(), value) != facets.excluded.end()) {
    return false;
  }
  if (value.is_number()) {
    const auto decimal = parse_decimal(value.dump());
    if (!decimal) {
      return facets.range.lower || facets.range.upper || !facets.multiples_of.empty() ? std::nullopt : std::optional(true);
    }
    if (!std::ranges::all_of(facets.multiples_of, [&](const Decimal& unit) { return is_multiple(*decimal, unit); })) {
      return false;
    }
    const int above = facets.range.lower ? compare(*decimal, facets.range.lower->value) : 1;
    const int below = facets.range.upper ? compare(*decimal, facets.range.upper->value) : -1;
    return (above > 0 || (above == 0 && !facets.range.lower->exclusive)) &&
           (below < 0 || (below == 0 && !facets.range.upper->exclusive));
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto length =
        static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    if (length < facets.min_length || length > facets.max_length) {
      return false;
    }
    return facets.patterns.empty() && facets.formats.empty() ? std::optional(true) : std::nullopt;
  }
  if (value.is_array() || value.is_object()) {
    const std::uint8_t own = value.is_array() ? schema_array : schema_object;
    return (facets.types_named & own) == 0 ? std::optional(true) : std::nullopt;
  }
  return true;
}

}  // namespace rocmforge
