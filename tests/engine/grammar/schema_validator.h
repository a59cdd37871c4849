#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <regex>
#include <string>

#include "base/utf8.h"
#include "chat/json.h"

namespace rocmforge::test {

/// A small validator for JSON Schema 2020-12. It supports the keywords that the tests use and fails on others.
class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaValidator(const Json& root) : root_(root) {}

  bool accepts(const Json& value) { return accepts(root_, value); }

 private:
  bool accepts(const Json& schema, const Json& value) {
    if (schema.is_boolean()) {
      return schema.get<bool>();
    }
    return std::all_of(schema.items().begin(), schema.items().end(),
                       [&](const auto& item) { return keyword(schema, item.key(), item.value(), value); });
  }

  static std::size_t length(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }
  /// One element for each character.
  static std::wstring wide(const std::string& text) {
    std::wstring characters;
    for (std::size_t i = 0; i < text.size(); i += utf8_unit(text, i).length) {
      characters += static_cast<wchar_t>(utf8_code_point(std::string_view(text).substr(i, utf8_unit(text, i).length)));
    }
    return characters;
  }
  static bool is_type(const std::string& type, const Json& value) {
    if (type == "integer") {
      return value.is_number_integer() ||
             (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
    }
    return type == (value.is_number() ? "number" : value.type_name());
  }
  bool combination(const std::string& name, const Json& argument, const Json& value, bool& known) {
    const auto count = [&] {
      return std::count_if(argument.begin(), argument.end(), [&](const Json& one) { return accepts(one, value); });
    };
    known = true;
    if (name == "allOf") return count() == static_cast<long>(argument.size());
    if (name == "anyOf") return count() > 0;
    if (name == "oneOf") return count() == 1;
    if (name == "$ref") {
      const std::string pointer = argument.get<std::string>().substr(1);
      return accepts(pointer.empty() ? root_ : root_.at(Json::json_pointer(pointer)), value);
    }
    known = false;
    return true;
  }
  bool scalar(const std::string& name, const Json& argument, const Json& value, bool& known) {
    known = true;
    if (name == "type") {
      return argument.is_string()
                 ? is_type(argument, value)
                 : std::any_of(argument.begin(), argument.end(), [&](const Json& one) { return is_type(one, value); });
    }
    if (name == "enum") return std::find(argument.begin(), argument.end(), value) != argument.end();
    if (name == "const") return argument == value;
    if (name == "minimum") return !value.is_number() || value >= argument;
    if (name == "maximum") return !value.is_number() || value <= argument;
    if (name == "exclusiveMinimum") return !value.is_number() || value > argument;
    if (name == "exclusiveMaximum") return !value.is_number() || value < argument;
    if (name == "minLength") return !value.is_string() || length(value) >= argument.get<std::size_t>();
    if (name == "maxLength") return !value.is_string() || length(value) <= argument.get<std::size_t>();
    if (name == "pattern") {
      return !value.is_string() || std::regex_search(wide(value), std::wregex(wide(argument)));
    }
    if (name == "format") return !value.is_string() || format(argument, value);
    known = false;
    return true;
  }
  bool array(const Json& schema, const std::string& name, const Json& argument, const Json& value, bool& known) {
    known = true;
    if (name == "minItems") return !value.is_array() || value.size() >= argument.get<std::size_t>();
    if (name == "maxItems") return !value.is_array() || value.size() <= argument.get<std::size_t>();
    const std::size_t listed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) {
      if (name == "prefixItems" && i < listed && !accepts(argument[i], value[i])) return false;
      if (name == "items" && i >= listed && !accepts(argument, value[i])) return false;
    }
    known = name == "prefixItems" || name == "items";
    return true;
  }
  bool keyword(const Json& schema, const std::string& name, const Json& argument, const Json& value) {
    bool known = false;
    if (const bool result = combination(name, argument, value, known); known) return result;
    if (const bool result = scalar(name, argument, value, known); known) return result;
    if (const bool result = array(schema, name, argument, value, known); known) return result;
    if (name == "minProperties") return !value.is_object() || value.size() >= argument.get<std::size_t>();
    if (name == "maxProperties") return !value.is_object() || value.size() <= argument.get<std::size_t>();
    if (name == "required") {
      return !value.is_object() || std::all_of(argument.begin(), argument.end(),
                                               [&](const Json& key) { return value.contains(key.get<std::string>()); });
    }
    if (name == "properties" || name == "additionalProperties") {
      for (auto item = value.begin(); value.is_object() && item != value.end(); ++item) {
        const bool listed = schema.contains("properties") && schema["properties"].contains(item.key());
        if (name == "properties" && listed && !accepts(argument[item.key()], item.value())) return false;
        if (name == "additionalProperties" && !listed && !accepts(argument, item.value())) return false;
      }
      return true;
    }
    return name == "$defs" || name == "title" || name == "description" || name == "default";
  }

  static bool format(const std::string& name, const std::string& text) {
    int year = 0, month = 0, day = 0, end = 0;
    if (name == "date" || name == "date-time") {
      if (std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) != 3 || end != 10 || month < 1 || month > 12)
        return false;
      const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
      const int days[] = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
      if (day < 1 || day > days[month - 1]) return false;
      return name == "date" ? text.size() == 10 : text.size() > 11 && (text[10] == 'T') && format("time", text.substr(11));
    }
    static const std::map<std::string, std::string> patterns = {
        {"time", "([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"},
        {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
        {"ipv4", "((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\\.(?!$)|$)){4}"},
        {"email", "[^@\\s]{1,64}@[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+"},
        {"hostname", "[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"},
        {"ipv6", "[0-9a-f:]{2,39}"},
        {"uri", "[a-z][a-z0-9+.-]*://[^\\s\"<>]+"},
        {"duration", "P(?!$)([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T(?!$)([0-9]+H)?([0-9]+M)?([0-9]+S)?)?"}};
    return patterns.count(name) > 0 && std::regex_match(text, std::regex(patterns.at(name)));
  }

  const Json& root_;
};

}  // namespace rocmforge::test
