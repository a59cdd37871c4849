// Keywords that generators print beside the usual ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "grammar/decimal_multiples.h"
#include "schema_cases.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;
using test::check_cases;
using test::matches;
using test::small_trie;

TEST(JsonSchemaKeywords, Multiples) {
  check_cases({
      {R"({"multipleOf":5,"type":"integer"})", {"0", "5", "-10", "125", "100000"}, {"1", "12", "5.0", "05", "-0"}},
      {R"({"multipleOf":0.01})", {"0", "12", "12.5", "12.34", "-0.01", "0.1"}, {"12.345", "0.001", "1e2", "-0"}},
      {R"({"multipleOf":0.25,"minimum":1,"exclusiveMaximum":2})",
       {"1", "1.0", "1.25", "1.5", "1.50", "1.75"},
       {"0.75", "1.1", "2", "2.0", "1.3"}},
      {R"({"type":"integer","multipleOf":0.5})", {"1", "7", "-3"}, {"0.5", "1.5"}},
      {R"({"type":"integer","multipleOf":1.5})", {"3", "0", "-6"}, {"1", "1.5", "2"}},
      {R"({"multipleOf":100,"maximum":-150})", {"-200", "-1000"}, {"-100", "0", "200", "-250"}},
      {R"({"multipleOf":7,"minimum":20,"maximum":36})", {"21", "28", "35"}, {"14", "20", "36", "42"}},
      {R"({"multipleOf":86400,"exclusiveMinimum":0})", {"86400", "172800"}, {"0", "86401", "8640"}},
      {R"({"allOf":[{"multipleOf":4},{"multipleOf":6}],"maximum":30,"minimum":0})", {"0", "12", "24"}, {"4", "6", "18"}},
      {R"({"enum":[1,2.5,5,0.3],"multipleOf":2.5})", {"2.5", "5"}, {"1", "0.3"}},
      {R"({"enum":[0.3,0.35],"multipleOf":0.1})", {"0.3"}, {"0.35"}},
  });
}

TEST(JsonSchemaKeywords, MultiplesOfEveryUnitNearby) {
  std::mt19937 random(7);
  const auto trie = small_trie();
  for (int round = 0; round < 60; ++round) {
    const int unit = 1 + static_cast<int>(random() % 60), places = static_cast<int>(random() % 3);
    const int low = static_cast<int>(random() % 2000) - 1000, high = low + static_cast<int>(random() % 600);
    const auto text = [&](int value) {
      const std::string digits = fmt::format("{:0{}}", std::abs(value), places + 1);
      const std::size_t whole = digits.size() - static_cast<std::size_t>(places);
      return (value < 0 ? "-" : "") + digits.substr(0, whole) + (places > 0 ? "." + digits.substr(whole) : "");
    };
    const std::string schema =
        fmt::format(R"({{"type":"number","multipleOf":{},"minimum":{},"maximum":{}}})", text(unit), text(low), text(high));
    SCOPED_TRACE(schema);
    const bool possible = (low <= 0 && high >= 0) || high / unit != (low - 1) / unit || (low <= 0) != (high <= 0);
    if (!possible) {
      EXPECT_THROW((void)json_schema_grammar(Json::parse(schema)), Error);
      continue;
    }
    const auto matcher = GrammarMatcher::create(json_schema_grammar(Json::parse(schema)), trie);
    for (int value = low - 5; value <= high + 5; ++value) {
      if (value % 10 != 0) {  // zeros at the end of a fraction are not always written
        EXPECT_EQ(matches(matcher, text(value)), value % unit == 0 && value >= low && value <= high) << text(value);
      }
    }
    EXPECT_EQ(matches(matcher, "0"), low <= 0 && high >= 0);
  }
}

TEST(JsonSchemaKeywords, IsMultipleOf) {
  const auto is = [](const char* value, const char* unit) {
    return is_multiple(*parse_decimal(value), *parse_decimal(unit));
  };
  EXPECT_TRUE(is("0", "7"));
  EXPECT_TRUE(is("1e20", "0.0001"));
  EXPECT_TRUE(is("-123456789012345678901234567890", "10"));
  EXPECT_FALSE(is("-123456789012345678901234567891", "10"));
  EXPECT_TRUE(is("0.3", "0.1"));
  EXPECT_FALSE(is("0.3", "0.2"));
  EXPECT_FALSE(is("1", "1000000000000000000001"));
}

TEST(JsonSchemaKeywords, PatternsFormatsAndLengthsTogether) {
  check_cases({
      {R"({"format":"date","pattern":"^2024-"})", {R"("2024-02-29")"}, {R"("2023-01-01")", R"("2024-13-01")"}},
      {R"({"format":"email","pattern":"@example\\.(org|com)$","maxLength":20})",
       {R"("a@example.org")", R"("a.b@example.com")"},
       {R"("a@b.org")", R"("abcdefgh.ijklmnopqr@example.com")"}},
      {R"({"pattern":"^[a-z]+(-[a-z]+)*$","minLength":3,"maxLength":6})",
       {R"("abc")", R"("a-b")", R"("ab-cde")"},
       {R"("ab")", R"("a-")", R"("a--b")", R"("abcdefg")"}},
      {R"({"pattern":"^ab+$","maxLength":9})", {R"("ab")", R"("abbbbbbbb")"}, {R"("a")", R"("abbbbbbbbb")"}},
      {R"({"pattern":"\\S","minLength":2})", {R"("ab")", R"(" a")", "\"\u00e9\u00e9\""}, {R"("a")", R"("  ")"}},
      {R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"}],"maxLength":4})",
       {R"("ab")", R"("a\nb")", "\"a\u20acb\"", R"("a\"\\b")"},
       {R"("a")", R"("b")", R"("axxxb")"}},
      {R"({"format":"uuid","minLength":36,"maxLength":36})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("1")"}},
      {R"({"format":"phone"})", {R"("+49 1")"}, {"1"}},
      {R"({"type":["string","integer"],"format":"color","maxLength":2})", {"7", R"("ab")"}, {R"("abc")"}},
  });
}

TEST(JsonSchemaKeywords, UniqueItems) {
  check_cases({
      {R"({"items":{"enum":["a","b","c"]},"uniqueItems":true})",
       {"[]", R"(["b"])", R"(["c","a"])", R"(["c", "b",
 "a"])"},
       {R"(["a","a"])", R"(["a","b","a"])", R"(["d"])", R"(["a",])"}},
      {R"({"items":{"enum":[1,2,3,4]},"uniqueItems":true,"minItems":2,"maxItems":3})",
       {"[4,1]", "[3,2,1]"},
       {"[1]", "[1,1]", "[1,2,3,4]"}},
      {R"({"type":"array","items":{"type":["boolean","null"]},"uniqueItems":true})",
       {"[null,true,false]"},
       {"[null,null]", "[1]"}},
      {R"({"items":{"type":"integer","minimum":1,"maximum":49},"uniqueItems":true,"minItems":6,"maxItems":6})",
       {"[1,2,3,47,48,49]"},
       {"[1,1,2,3,4,5]", "[1,2,3,4,5]", "[1,2,3,4,5,6,7]", "[0,1,2,3,4,5]", "[2,1,3,4,5,6]"}},
      {R"({"items":{"enum":["a","b","c","d","e","f","g","h","i"]},"uniqueItems":true})",
       {"[]", R"(["b","i"])", R"(["a","b","c","d","e","f","g","h","i"])"},
       {R"(["b","a"])", R"(["a","a"])"}},
      {R"({"items":{"enum":[1,1.0,2]},"uniqueItems":true})", {"[1,2]"}, {"[1,1.0]"}},
      {R"({"items":{"type":"string"},"uniqueItems":true,"maxItems":1})", {"[]", R"(["a"])"}, {R"(["a","b"])"}},
      {R"({"allOf":[{"items":{"enum":[1,2,3]}},{"uniqueItems":true,"items":{"minimum":2}}]})", {"[3,2]"}, {"[2,2]", "[1]"}},
  });
}

TEST(JsonSchemaKeywords, NamesOfProperties) {
  check_cases({
      {R"({"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1,"bc":2})"},
       {R"({"A":1})", R"({"":1})", R"({"a":"x"})", R"({"a1":1})"}},
      {R"({"propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1})", R"({"a":1,"b":2})"},
       {R"({"c":1})", R"({"a":1,"a":2})", R"({"a":null})"}},
      {R"({"properties":{"a":{"const":1},"B":{"const":2}},"propertyNames":{"pattern":"^[a-z]$"}})",
       {"{}", R"({"a":1})"},
       {R"({"B":2})", R"({"a":1,"c":1})"}},
      {R"({"type":"object","propertyNames":{"minLength":2,"maxLength":3},"additionalProperties":true})",
       {R"({"ab":[]})", R"({"abc":1})"},
       {R"({"a":1})", R"({"abcd":1})"}},
      {R"({"type":"object","propertyNames":{"not":{"enum":["id","ib"]}},"additionalProperties":{"const":1}})",
       {R"({"i":1,"x":1,"idx":1})"},
       {R"({"id":1})", R"({"ib":1})"}},
      {R"({"type":"object","propertyNames":{"anyOf":[{"format":"date"},{"const":"all"}]},"additionalProperties":{"const":1}})",
       {R"({"2024-02-29":1,"all":1})"},
       {R"({"2023-02-29":1})", R"({"any":1})"}},
      {R"({"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"const":1}})",
       {"{}", "{\"\u00e9 x\":1}"},
       {R"({"a":2})"}},
      {R"({"type":"object","propertyNames":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","propertyNames":{"$ref":"#/$defs/n"},"additionalProperties":{"const":1},"$defs":{"n":{"pattern":"^n"}}})",
       {R"({"no":1})"},
       {R"({"x":1})"}},
  });
}

TEST(JsonSchemaKeywords, PropertiesByPattern) {
  check_cases({
      {R"({"patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false})",
       {"{}", R"({"x-a":1,"x-":2})"},
       {R"({"x-a":"s"})", R"({"a":1})"}},
      {R"({"properties":{"x-a":{"minimum":5}},"patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":false})",
       {R"({"x-a":5,"x-b":1})", R"({"x-b":1})"},
       {R"({"x-a":4})", R"({"x-a":5.5})", R"({"x-b":1,"x-a":5})"}},
      {R"({"patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3,"type":"number"}},"additionalProperties":{"const":"o"}})",
       {R"({"a":1,"ab":3,"b":3.5,"c":"o"})"},
       {R"({"ab":2})", R"({"ab":3.5})", R"({"a":1.5})", R"({"c":1})"}},
      {R"({"type":"object","patternProperties":{"^\\w+$":{"const":1}},"required":["a"]})",
       {R"({"a":1})", R"({"a":1,"b_2":1})"},
       {"{}", R"({"a":2})", R"({"a":1,"-":1})"}},
      {R"({"allOf":[{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false},{"properties":{"a1":{"minimum":3},"b":{}}}]})",
       {R"({"a1":3})", R"({"a1":4,"a2":1})"},
       {R"({"a1":2})", R"({"b":1})", R"({"a2":1.5})"}},
      {R"({"allOf":[{"patternProperties":{"^a":{"type":"integer"}}},{"patternProperties":{"b$":{"const":3}},"additionalProperties":false}]})",
       {R"({"ab":3,"b":3})"},
       {R"({"a":3})", R"({"ab":4})"}},
      {R"({"patternProperties":{"^[0-9]+$":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false})",
       {R"({"1":[{"22":[]}]})"},
       {R"({"a":[]})", R"({"1":[{"b":[]}]})"}},
      {R"({"properties":{"q\"":{"const":1}},"patternProperties":{"q":{"type":"integer"}},"additionalProperties":false})",
       {R"({"q\"":1,"q":5})"},
       {R"({"q\"":5})"}},
  });
}

TEST(JsonSchemaKeywords, Not) {
  check_cases({
      {R"({"type":"string","not":{"enum":["a","ab"]}})",
       {R"("")", R"("b")", R"("abc")", "\"\u00e9\"", R"("\n")"},
       {R"("a")", R"("ab")", "1"}},
      {R"({"type":"string","not":{"const":""}})", {R"("x")"}, {R"("")"}},
      {R"({"type":"integer","not":{"enum":[0,5]},"minimum":-1,"maximum":6})", {"-1", "1", "4", "6"}, {"0", "5", "7"}},
      {R"({"type":"number","not":{"const":0.5}})", {"0.4", "0.51", "0", "7"}, {"0.5", "0.50"}},
      {R"({"not":{"type":"null"}})", {"1", R"("a")", "true", "{}", "[null]"}, {"null"}},
      {R"({"not":{"type":["string","object","array","boolean","null"]}})", {"1", "0.5"}, {"true", "{}", R"("a")"}},
      {R"({"type":["string","null"],"not":{"type":"null"}})", {R"("a")"}, {"null"}},
      {R"({"enum":["a","b",null,1],"not":{"enum":["a",1]}})", {R"("b")", "null"}, {R"("a")", "1"}},
      {R"({"type":"boolean","not":{"const":false}})", {"true"}, {"false"}},
      {R"({"type":["string","integer"],"not":{"anyOf":[{"const":"a"},{"const":1}]}})", {R"("b")", "2"}, {R"("a")", "1"}},
      {R"({"type":["string","integer"],"not":{"type":"string","enum":["a",1]}})", {"1", R"("b")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^[a-c]$","not":{"const":"b"},"title":"t"})",
       {R"("a")", R"("c")"},
       {R"("b")", R"("d")"}},
      {R"({"type":"integer","multipleOf":5,"not":{"const":10},"minimum":0,"maximum":20})", {"0", "5", "15"}, {"10", "11"}},
      {R"({"properties":{"a":{"const":1}},"not":{"type":"array"}})", {"{}", R"({"a":1})"}, {"[]", "1"}},
  });
}

TEST(JsonSchemaKeywords, ReferencesByName) {
  check_cases({
      {R"({"$ref":"item","$defs":{"i":{"$id":"item","const":7}}})", {"7"}, {"8"}},
      {R"({"$id":"https://example.org/a/root.json","$ref":"b.json","$defs":{"i":{"$id":"b.json","const":7}}})",
       {"7"},
       {"8"}},
      {R"({"$id":"https://example.org/a/root.json","$ref":"/c.json","$defs":{"i":{"$id":"https://example.org/c.json","const":7}}})",
       {"7"},
       {"8"}},
      {R"({"$id":"https://example.org","$ref":"c","$defs":{"i":{"$id":"https://example.org/c","const":7}}})", {"7"}, {"8"}},
      {R"({"$id":"urn:x:root","items":{"$ref":"urn:x:i"},"$defs":{"i":{"$id":"urn:x:i","const":7}}})", {"[7]"}, {"[8]"}},
      {R"({"$ref":"#here","$defs":{"i":{"$anchor":"here","const":7}}})", {"7"}, {"8"}},
      {R"({"$ref":"b.json#here","$defs":{"i":{"$id":"b.json","$defs":{"x":{"$anchor":"here","const":7}}}}})", {"7"}, {"8"}},
      {R"({"$ref":"b.json","$defs":{"i":{"$id":"b.json","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"const":7}}},"x":{"const":8}}})",
       {"[7]"},
       {"[8]"}},
      {R"({"$id":"root.json","type":"array","items":{"$ref":"root.json"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"$ref":"#i","definitions":{"i":{"id":"#i","const":7}}})", {"7"}, {"8"}},
      {R"({"properties":{"$id":{"type":"string"},"id":{"const":1}},"required":["id"]})", {R"({"$id":"x","id":1})"}, {"{}"}},
  });
}

TEST(JsonSchemaKeywords, RequiredNamesNoProperty) {
  check_cases({
      {R"({"properties":{"a":{"const":1}},"required":["a","b"]})",
       {R"({"a":1,"b":[2]})"},
       {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"properties":{"a":{"const":1}},"required":["b"],"additionalProperties":{"type":"null"}})",
       {R"({"b":null})", R"({"a":1,"b":null,"c":null})"},
       {R"({"a":1})", R"({"b":1})"}},
      {R"({"type":"object","required":["x-b"],"patternProperties":{"^x-":{"const":2}},"additionalProperties":false})",
       {R"({"x-b":2,"x-c":2})"},
       {"{}", R"({"x-b":1})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"minProperties":1})", {R"({"b":2})", R"({"a":1,"b":2})"}, {"{}"}},
  });
}

TEST(JsonSchemaKeywords, ManyPatternsAreRefusedSoon) {
  Json names = Json::object(), strings = Json::object(), keys = Json::object(), known = Json::object();
  for (int i = 0; i < 600; ++i) {
    names[fmt::format("^[a-z]*{:x}[a-z]*$", i * 2654435761u)] = {{"type", "integer"}};
    strings[fmt::format("p{}", i)] = {
        {"pattern", fmt::format("^(a|b)*{}.{{1,200}}$", i)}, {"maxLength", 300}, {"format", "email"}};
    known[fmt::format("{:x}", i * 2654435761u)] = true;
  }
  for (int i = 0; i < 12; ++i) {  // which of them a name holds takes a state for each set
    keys[fmt::format("{}.*{}", static_cast<char>('a' + i), static_cast<char>('a' + i))] = {{"minimum", i}};
  }
  for (const Json& schema :
       {Json{{"patternProperties", names}}, Json{{"patternProperties", names}, {"properties", known}},
        Json{{"properties", strings}, {"required", {"p0"}}}, Json{{"patternProperties", keys}},
        Json{{"type", "string"}, {"pattern", "(a|b)*a(a|b){18}$"}, {"maxLength", 4'000}, {"format", "uri"}},
        Json{{"type", "string"}, {"not", {{"enum", std::vector<std::string>(5'000, std::string(200, 'n'))}}}},
        Json{{"multipleOf", 999'999'999'999'989}}}) {
    try {  // work that doubles with each pattern would not end
      (void)json_schema_grammar(schema);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("json_schema: "));
      EXPECT_THAT(error.what(), testing::HasSubstr("more than"));
    }
  }
}

}  // namespace
}  // namespace rocmforge
