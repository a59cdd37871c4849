#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <regex>
#include <string>

#include "base/json.h"
#include "base/utf8.h"

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
    if (name == "not") return !accepts(argument, value);
    if (name == "$ref") return accepts(target(argument), value);
    known = false;
    return true;
  }
  /// Definitions have names that are relative to the root's, and one anchor each at most.
  const Json& target(const std::string& reference) {
    const std::size_t mark = std::min(reference.find('#'), reference.size());
    const Json* from = &root_;
    if (mark > 0 && root_["$id"].get<std::string>() != "https://example.org/" + reference.substr(0, mark)) {
      for (const Json& one : root_["$defs"]) {
        from = one.is_object() && one.value("$id", "") == reference.substr(0, mark) ? &one : from;
      }
    }
    const std::string fragment = reference.substr(std::min(mark + 1, reference.size()));
    if (!fragment.empty() && fragment[0] != '/') {
      for (const Json& one : root_["$defs"]) {
        from = one.value("$anchor", "") == fragment ? &one : from;
      }
      return *from;
    }
    return fragment.empty() ? *from : from->at(Json::json_pointer(fragment));
  }

  /// The number times 10^15, exactly.
  __extension__ typedef __int128 Wide;
  static Wide scaled(const Json& number) {
    std::string digits = number.dump();
    const std::size_t mark = std::min(digits.find('e'), digits.size());
    int exponent = 15 + (mark < digits.size() ? std::stoi(digits.substr(mark + 1)) : 0);
    digits.resize(mark);
    Wide value = 0;
    bool behind_point = false;
    for (const char c : digits) {
      if (c >= '0' && c <= '9') {
        value = value * 10 + (c - '0');
        exponent -= behind_point ? 1 : 0;
      }
      behind_point = behind_point || c == '.';
    }
    for (; exponent > 0; --exponent) {
      value *= 10;
    }
    return exponent < 0 ? 1 : value;  // too fine for the tests' units
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
    if (name == "multipleOf") return !value.is_number() || scaled(value) % scaled(argument) == 0;
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
    if (name == "uniqueItems") {
      for (std::size_t i = 0; argument == true && value.is_array() && i < value.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          if (value[i] == value[k]) return false;
        }
      }
      return true;
    }
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
    if (name == "properties" || name == "additionalProperties" || name == "patternProperties" || name == "propertyNames") {
      const Json patterns = schema.value("patternProperties", Json::object());
      for (auto item = value.begin(); value.is_object() && item != value.end(); ++item) {
        if (name == "propertyNames" && !accepts(argument, item.key())) return false;
        bool listed = schema.contains("properties") && schema["properties"].contains(item.key());
        for (const auto& [pattern, one] : patterns.items()) {
          const bool matched = std::regex_search(item.key(), std::regex(pattern));
          if (name == "patternProperties" && matched && !accepts(argument[pattern], item.value())) return false;
          listed = listed || (name == "additionalProperties" && matched);
        }
        if (name == "properties" && listed && !accepts(argument[item.key()], item.value())) return false;
        if (name == "additionalProperties" && !listed && !accepts(argument, item.value())) return false;
      }
      return true;
    }
    return name == "$defs" || name == "title" || name == "description" || name == "default" || name == "$id" ||
           name == "$anchor";
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
    // JSON Schema has no other formats: they are annotations.
    return patterns.count(name) == 0 || std::regex_match(text, std::regex(patterns.at(name)));
  }

  const Json& root_;
};

}  // namespace rocmforge::test
