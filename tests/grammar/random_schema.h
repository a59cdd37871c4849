#pragma once

#include <fmt/format.h>

#include <random>
#include <string>

#include "base/json.h"

namespace rocmforge::test {

/// Random schemas of every kind that can be satisfied; they depend only on the seed.
class RandomSchema {
 public:
  using Json = nlohmann::ordered_json;
  explicit RandomSchema(std::uint32_t seed) : random_(seed) {}

  Json make() {
    Json definitions = Json::object();
    definition_count_ = below(3);
    has_ids_ = one_in(2);
    for (int i = 0; i < definition_count_; ++i) {
      Json& one = definitions[fmt::format("d{}", i)] = object(3);
      if (has_ids_) {
        one["$id"] = fmt::format("d{}.json", i);
      } else {
        one["$anchor"] = fmt::format("a{}", i);
      }
    }
    Json schema = below(4) == 0 ? any(0) : object(0);
    if (definition_count_ > 0 && schema.is_object()) {
      schema["$defs"] = definitions;
      schema["$id"] = "https://example.org/root.json";
    } else if (definition_count_ > 0) {
      definition_count_ = 0;
    }
    return schema;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool one_in(int count) { return below(count) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

  Json string() {
    Json schema = {{"type", "string"}};
    switch (below(9)) {
      case 6: {
        const auto [format, pattern] = pick<std::pair<std::string, std::string>>({{"date", "^20"},
                                                                                  {"date-time", "0Z$"},
                                                                                  {"email", "^[a-m]"},
                                                                                  {"email", "e"},
                                                                                  {"uuid", "[05]$"},
                                                                                  {"ipv4", "^1[0-9]*\\.2"},
                                                                                  {"hostname", "x"},
                                                                                  {"colour", "^#[0-9a-f]{6}$"}});
        schema["format"] = format;
        schema["pattern"] = pattern;
        break;
      }
      case 7:
        schema["pattern"] = pick<std::string>({"^[a-z]+(-[a-z]+)*$", "\\S", "^(ab|c)+$", "d[\"x]", "^[^ ]+@"});
        schema["minLength"] = 2 + below(3);
        schema["maxLength"] = 6 + below(9);
        break;
      case 8:
        schema["not"] = {{"enum", Json::array({"", "x", "xx", "a\n", 5})}};
        if (one_in(2)) {
          schema["maxLength"] = 1 + below(4);
        }
        break;
      case 0: {
        const int least = below(5);
        schema["minLength"] = least;
        if (one_in(2)) {
          schema["maxLength"] = least + below(20);
        }
        break;
      }
      case 1:
        schema["format"] =
            pick<std::string>({"date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration"});
        break;
      case 2:
        schema["pattern"] =
            pick<std::string>({"^[a-z]+$", "^\\d{3}-\\d{4}$", "^(foo|bar)[^\\s\"]*$", "x{2,3}", "^\\w+(\\.\\w+)?$", "end$",
                               "^[A-Z]{2}\\d*$", "^a|b$", "^[^a-z]{2}", "^\\S+@\\S+$", "^$|^\\\\[\"\\\\]\\n?$", "^.{2,5}$"});
        break;
      case 3:
        schema["pattern"] = "^[a-f0-9]*$";
        schema["minLength"] = 2 + below(3);
        schema["maxLength"] = 6 + below(9);
        break;
      default:
        break;
    }
    return schema;
  }

  Json number() {
    Json schema = {{"type", one_in(2) ? "integer" : "number"}};
    const std::vector<double> bounds = {-1e6, -1000.25, -17, -1.5, -0.125, 0, 0.001, 0.5, 3, 9, 10, 99.9, 1000, 123456789};
    const int low = below(static_cast<int>(bounds.size()) - 2),
              high = low + 2 + below(static_cast<int>(bounds.size()) - low - 2);
    const auto bound = [&](int index) {
      const double value = bounds[static_cast<std::size_t>(index)];
      return value == std::floor(value) ? Json(static_cast<std::int64_t>(value)) : Json(value);
    };
    if (!one_in(3)) {
      schema[one_in(3) ? "exclusiveMinimum" : "minimum"] = bound(low);
    }
    if (!one_in(3)) {
      schema[one_in(3) ? "exclusiveMaximum" : "maximum"] =
          schema["type"] == "integer" ? Json(std::max(2.0, bounds[static_cast<std::size_t>(high)] + 2)) : bound(high);
    }
    return one_in(3) ? multiple() : schema;
  }

  Json multiple() {
    Json schema = {{"type", one_in(2) ? "integer" : "number"},
                   {"multipleOf", pick<Json>({1, 2, 5, 7, 100, 0.5, 0.25, 0.01, 0.003, 12.5})}};
    if (one_in(2)) {
      schema["exclusiveMinimum"] = pick<Json>({-300, -0.5, 0, 12.5});
    }
    if (one_in(2)) {
      schema["maximum"] = pick<Json>({250, 1000.5, 123456});
    }
    if (one_in(3)) {
      schema["not"] = {{"enum", {0, 5, 100, 12.5}}};
    }
    return schema;
  }

  Json constants() {
    const std::vector<Json> values = {"red",   "a \"quoted\" \\ one", "\u00e9t\u00e9\n",          1,  -2.5, true,
                                      nullptr, Json::array({1, "x"}), Json{{"k", Json::array()}}, "", 1e20};
    if (one_in(3)) {
      return {{"const", pick(values)}};
    }
    Json list = Json::array();
    for (int i = 0; i <= below(5); ++i) {
      list.push_back(pick(values));
    }
    return {{"enum", list}};
  }

  Json set() {
    const std::vector<Json> elements = {Json::parse(R"({"enum":["a","b","c",1,null,[],{}]})"),
                                        Json::parse(R"({"enum":["a","b","c","d","e","f","g","h","i","j"]})"),
                                        Json::parse(R"({"type":["boolean","null"]})"),
                                        Json::parse(R"({"type":"integer","minimum":-2,"maximum":20,"not":{"const":3}})")};
    Json schema = {{"type", "array"}, {"uniqueItems", true}, {"items", pick(elements)}};
    const int least = below(3);
    if (one_in(2)) {
      schema["minItems"] = least;
    }
    if (one_in(2)) {
      schema["maxItems"] = least + 1 + below(3);
    }
    return schema;
  }

  /// An object whose properties are known by patterns of their names.
  Json map(int depth) {
    Json schema = {{"type", "object"}};
    if (one_in(2)) {
      schema["properties"]["id"] = number();
      schema["properties"]["x-y"] = Json{{"type", {"integer", "string", "null"}}};
    }
    if (!one_in(3)) {
      schema["patternProperties"]["^x-"] = one_in(2) ? Json(true) : Json{{"type", {"integer", "null"}}};
      if (one_in(2)) {
        schema["patternProperties"][pick<std::string>({"z$", "^\\w{1,3}$", "[0-9]", "-"})] =
            one_in(2) ? Json{{"type", {"integer", "boolean"}}, {"minimum", -5}} : any(depth + 2);
      }
    }
    if (one_in(2)) {
      schema["additionalProperties"] = one_in(2) ? Json(one_in(2)) : Json{{"type", "null"}};
    }
    if (one_in(2)) {
      schema["propertyNames"] = Json::parse(
          pick<std::string>({R"({"pattern":"^[a-z-]+$"})", R"({"maxLength":4})", R"({"enum":["id","x-","x-z","a","n1"]})",
                             R"({"not":{"enum":["x-z","a"]},"minLength":1})", R"({"pattern":"[a-i]","maxLength":3})"}));
    }
    return schema;
  }

  Json array(int depth) {
    if (one_in(4)) {
      return set();
    }
    Json schema = {{"type", "array"}};
    const bool tuple = one_in(3);
    for (int i = 0; tuple && i <= below(3); ++i) {
      schema["prefixItems"].push_back(any(depth + 1));
    }
    if (!one_in(4)) {
      schema["items"] = any(depth + 1);
    } else if (tuple && one_in(2)) {
      schema["items"] = false;
    }
    const int least = below(4);
    const bool closed = schema.contains("items") && schema["items"] == false;
    if (one_in(2) && !closed) {
      schema["minItems"] = least;
    }
    if (one_in(2)) {
      schema["maxItems"] = least + below(4);
    }
    return schema;
  }

  Json object(int depth) {
    if (one_in(5)) {
      return map(depth);
    }
    static const std::vector<std::string> names = {"name", "na",    "id",   "a b",  "\u00fc\"x",
                                                   "tags", "value", "next", "x\\y", "name2"};
    Json schema = {{"type", "object"}};
    Json properties = Json::object(), required = Json::array();
    for (int i = below(6); i > 0; --i) {
      const std::string& name = pick(names);
      if (properties.contains(name)) {
        continue;
      }
      // An optional property may refer to a schema that contains it.
      const bool recursive = definition_count_ > 0 && one_in(5);
      properties[name] = recursive ? reference() : any(depth + 1);
      if (!recursive && one_in(2)) {
        required.push_back(name);
      }
    }
    if (!properties.empty()) {
      schema["properties"] = properties;
    }
    if (!required.empty() || one_in(3)) {
      schema["required"] = required;
    }
    switch (below(4)) {
      case 0:
        schema["additionalProperties"] = one_in(2) ? Json(true) : any(depth + 2);
        break;
      case 1:
        schema["additionalProperties"] = false;
        break;
      default:
        break;
    }
    if (properties.empty() && one_in(3) && schema.value("additionalProperties", Json(true)) != false) {
      schema["maxProperties"] = 1 + below(3);
      schema["minProperties"] = below(2);
    }
    return schema;
  }

  Json reference() {
    const int number = below(definition_count_);
    if (one_in(3)) {
      return {{"$ref", fmt::format("root.json#/$defs/d{}", number)}};
    }
    return {{"$ref", has_ids_    ? fmt::format("d{}.json", number)
                     : one_in(2) ? fmt::format("#a{}", number)
                                 : fmt::format("#/$defs/d{}", number)}};
  }

  Json combination(int depth) {
    switch (below(6)) {
      case 0:
        return {{"anyOf", Json::array({any(depth + 1), any(depth + 1), Json{{"type", "null"}}})}};
      case 1: {
        Json first = object(depth + 2), second = object(depth + 2);
        for (Json* one : {&first, &second}) {  // limits that the property may exceed
          one->erase("minProperties");
          one->erase("maxProperties");
          one->erase("propertyNames");
        }
        first["properties"]["kind"] = {{"const", "first"}};
        second["properties"]["kind"] = {{"const", "second"}};
        return {{"oneOf", Json::array({first, second, Json{{"type", "integer"}}})}};
      }
      case 2: {
        Json first = {
            {"type", "object"}, {"properties", {{"p", string()}, {"q", number()}}}, {"required", Json::array({"p"})}};
        Json second = {{"properties", {{"q", {{"type", Json::array({"integer", "number"})}}}, {"r", any(depth + 2)}}}};
        return {{"allOf", Json::array({first, second})}, {"required", Json::array({"q"})}};
      }
      case 3:
        return {{"not", {{"type", {"string", "object", "array"}}}}};
      case 4:
        return {{"allOf", Json::array({map(depth + 2), map(depth + 2), Json{{"not", {{"type", "array"}}}}})}};
      default:
        return {{"type", Json::array({"string", "null", "integer"})}, {"maxLength", 5}, {"minimum", 7}};
    }
  }

  Json any(int depth) {
    switch (below(depth > 3 ? 5 : 9)) {
      case 0:
      case 1:
        return string();
      case 2:
        return number();
      case 3:
        return constants();
      case 4:
        return one_in(3) ? Json(true) : Json{{"type", one_in(2) ? "boolean" : "null"}, {"description", "plain"}};
      case 5:
        return array(depth);
      case 6:
      case 7:
        return object(depth);
      default:
        return combination(depth);
    }
  }

  std::mt19937 random_;
  int definition_count_ = 0;
  bool has_ids_ = false;  ///< of the definitions
};

}  // namespace rocmforge::test
