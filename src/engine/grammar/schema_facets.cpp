#include "engine/grammar/schema_facets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

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
      } else if (!read_general() && !read_number() && !read_string() && !read_array() && !read_object() && !is_ignored()) {
        document_.fail(schema_, fmt::format("'{}' is not supported", keyword.substr(0, 40)));
      }
    }
    if (nullable && facets_.types != schema_any) {
      facets_.types |= schema_null;
    }
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
    } else if (is("multipleOf") && value_->is_number() && *value_ == 1) {
      facets_.types &= static_cast<std::uint8_t>(~schema_number);
      facets_.types_named |= schema_integer;
    } else {
      return is("exclusiveMinimum") || is("exclusiveMaximum");
    }
    return true;
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
    } else if (is("uniqueItems") && !boolean()) {
      return true;
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

  const Json& schema_;
  const SchemaDocument& document_;
  SchemaFacets facets_;
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

SchemaFacets read_facets(const Json& schema, const SchemaDocument& document) { return FacetReader(schema, document).read(); }

std::optional<bool> admits(const SchemaFacets& facets, const Json& value) {
  if (facets.values && std::find(facets.values->begin(), facets.values->end(), value) == facets.values->end()) {
    return false;
  }
  return admits_beside_values(facets, value);
}

std::optional<bool> admits_beside_values(const SchemaFacets& facets, const Json& value) {
  if ((type_of(value) & facets.types) == 0) {
    return false;
  }
  if (value.is_number()) {
    const auto decimal = parse_decimal(value.dump());
    if (!decimal) {
      return facets.range.lower || facets.range.upper ? std::nullopt : std::optional(true);
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
