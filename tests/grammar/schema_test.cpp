#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "grammar/byte_automaton.h"
#include "grammar/decimal_range.h"
#include "grammar/json_schema.h"
#include "grammar_testing.h"
#include "random_schema.h"
#include "schema_cases.h"
#include "schema_validator.h"

namespace rocmforge {
namespace {

using Json = nlohmann::ordered_json;
using test::check_cases;
using test::matches;
using test::small_trie;
using testing::HasSubstr;

TEST(JsonSchema, AnnotationsOfGeneratorsMeanNothing) {
  check_cases({
      {R"({"type":"object","propertyOrdering":["b","a"],"properties":{"a":{"const":1,"markdownDescription":"*x*"}}})",
       {R"({"a":1})"},
       {R"({"a":2})"}},
      {R"({"enum":["a"],"enumDescriptions":["A"],"markdownEnumDescriptions":["*A*"]})", {R"("a")"}, {R"("b")"}},
      {R"({"type":"null","errorMessage":"no","defaultSnippets":[{"body":1}]})", {"null"}, {"1"}},
  });
}

TEST(JsonSchema, Scalars) {
  check_cases({
      {R"({"type":"null"})", {"null", " null"}, {"", "nul", "  null", "null "}},
      {R"({"type":["boolean","null"],"description":"x"})", {"true", "false", "null"}, {"1", "\"true\""}},
      {R"({"type":"boolean","nullable":true})", {"true", "null"}, {"0"}},
      {R"({"type":"integer"})", {"0", "-12", "9007199254740993"}, {"-0", "01", "1.5", "1e3", "+1", ""}},
      {R"({"type":"number"})", {"0", "-0.5", "1.25e-10", "3E7", "12.0"}, {".5", "1.", "1e", "--1", "1e1000"}},
      {R"({"type":"string"})",
       {R"("")", R"("a\n\u00e9\\")", "\"\u00e9\U0001F600\"", R"("\ud83d\ude00")"},
       {R"("\ud83d")", R"("\x")", "\"\n\"", R"(")", "\"\xff\""}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", "\"\u00e9\u00e9\u00e9\"", R"("\u0041\n")"},
       {R"("a")", R"("abcd")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"const":{"a":[1,"\"x"]}})", {R"({"a":[1,"\"x"]})"}, {R"({"a": [1]})"}},
      {R"({"enum":["red",2,null,true]})", {R"("red")", "2", "null", "true"}, {"red", "3", "false"}},
      {R"({"type":"string","enum":["red",2,null]})", {R"("red")"}, {"2", "null"}},
      {R"({"enum":[1,5,9],"minimum":4,"exclusiveMaximum":9})", {"5"}, {"1", "9"}},
      {"true", {"1", "{}", R"([{"a":[null]}])"}, {"", "[1"}},
      {"{}", {"\"x\"", "[]"}, {"x"}},
  });
}

TEST(JsonSchema, BoundsOfNumbers) {
  check_cases({
      {R"({"type":"integer","minimum":0})", {"0", "7", "123456789"}, {"-1", "1.0", "007"}},
      {R"({"type":"integer","minimum":-5,"maximum":12})", {"-5", "-1", "0", "9", "12"}, {"-6", "13", "-0", "100"}},
      {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":101})", {"10", "55", "100"}, {"9", "101", "1"}},
      {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
      {R"({"type":"integer","maximum":-100})", {"-100", "-101", "-99999"}, {"-99", "0", "-1"}},
      {R"({"type":"number","minimum":0.5,"maximum":2})",
       {"0.5", "0.51", "0.9", "1", "1.999", "2", "2.0"},
       {"0.49", "0.05", "2.01", "3", "-1", "0"}},
      {R"({"type":"number","exclusiveMinimum":0,"maximum":1})", {"0.001", "1", "1.0"}, {"0", "0.0", "1.001", "-0.1"}},
      {R"({"type":"number","minimum":-1.25,"exclusiveMaximum":-0.5})",
       {"-1.25", "-1", "-0.51", "-0.6"},
       {"-0.5", "-1.26", "-0.4", "0"}},
      {R"({"type":"number","minimum":99.5})", {"99.5", "99.75", "100", "123456.5"}, {"99.4", "9", "99"}},
      {R"({"type":"number","minimum":1e3,"maximum":1.5e3})", {"1000", "1500", "1234.5"}, {"999", "1501", "1500.1"}},
      {R"({"type":"integer","minimum":5,"exclusiveMinimum":true,"maximum":7})", {"6", "7"}, {"5", "8"}},
      {R"({"type":"integer","format":"int32"})", {"-2147483648", "2147483647"}, {"2147483648", "-2147483649"}},
      {R"({"type":"number","multipleOf":1,"minimum":3,"maximum":4})", {"3", "4"}, {"3.5"}},
  });
}

TEST(JsonSchema, BoundsHoldForEveryNumberNearby) {
  std::mt19937 random(13);
  const auto trie = small_trie();
  for (int round = 0; round < 150; ++round) {
    const auto number = [&] {
      return static_cast<double>(static_cast<int>(random() % 4001) - 2000) / (random() % 2 == 0 ? 1 : 16);
    };
    const double a = number(), b = number();
    const bool fractions = random() % 2 == 0, above = random() % 2 == 0, below = random() % 2 == 0;
    const double low = std::min(a, b), high = std::max(a, b) + 2;
    const Json schema = {{"type", fractions ? "number" : "integer"},
                         {above ? "exclusiveMinimum" : "minimum", low},
                         {below ? "exclusiveMaximum" : "maximum", high}};
    SCOPED_TRACE(schema.dump());
    const auto matcher = GrammarMatcher::create(json_schema_grammar(schema), trie);
    for (int i = 0; i < 60; ++i) {
      const double base = i % 3 == 0 ? low : i % 3 == 1 ? high : number();
      const double value = base + static_cast<double>(static_cast<int>(random() % 9) - 4) / (i % 2 == 0 ? 1 : 32);
      const std::string text = value == std::floor(value) ? std::to_string(static_cast<long>(value)) : Json(value).dump();
      const bool whole = value == std::floor(value);
      const bool inside =
          (above ? value > low : value >= low) && (below ? value < high : value <= high) && (whole || fractions);
      EXPECT_EQ(matches(matcher, text), inside) << text;
    }
  }
}

TEST(JsonSchema, Decimals) {
  const auto text = [](std::string_view number) {
    const auto value = parse_decimal(number);
    return value ? (value->negative ? "-" : "") + value->whole + "." + value->fraction : "none";
  };
  EXPECT_EQ(text("0"), "0.");
  EXPECT_EQ(text("-0.0"), "0.");
  EXPECT_EQ(text("120"), "120.");
  EXPECT_EQ(text("-1.50"), "-1.5");
  EXPECT_EQ(text("1.5e+3"), "1500.");
  EXPECT_EQ(text("12e-3"), "0.012");
  EXPECT_EQ(text("1e39"), "1" + std::string(39, '0') + ".");
  EXPECT_EQ(text("1e40"), "none");
  EXPECT_EQ(text("1e-99999999999"), "none");
}

TEST(JsonSchema, PatternsAndFormats) {
  check_cases({
      {R"({"pattern":"^[a-z]{2}\\d+$"})", {R"("ab1")", R"("zz999")"}, {R"("a1")", R"("ab")", R"("xab1")"}},
      {R"({"pattern":"b+"})", {R"("b")", R"("abc")", R"("\"bb\\")"}, {R"("")", R"("ac")"}},
      {R"({"pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")"}},
      {R"({"pattern":"^(?:x|(yz)?)\\.[^\"\\\\a]\\W$"})",
       {R"("x.b-")", R"("yz.c ")", R"(".d\"")"},
       {R"("x.a-")", R"("x,b-")", R"("x.bb")"}},
      {R"({"pattern":"^\"\\\\\\n$"})", {R"("\"\\\n")"}, {R"("\"\\n")"}},
      {R"({"pattern":"^\\u0001$"})", {R"("\u0001")"}, {"\"\x01\""}},
      {R"({"pattern":"^.$"})", {"\"\u20ac\"", R"("\t")", R"("\"")"}, {R"("\n")", R"("")", R"("ab")"}},
      {R"({"pattern":"^\\w*$","minLength":2,"maxLength":3})", {R"("ab")", R"("a_1")"}, {R"("a")", R"("abcd")", R"("a-b")"}},
      {R"({"format":"date"})",
       {R"("2024-02-29")", R"("1999-12-31")"},
       {R"("2023-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("1900-02-29")"}},
      {R"({"format":"date-time"})",
       {R"("2024-05-06T07:08:09Z")", R"("2024-05-06T23:59:59.5+01:30")"},
       {R"("2024-05-06")", R"("2024-05-06T24:00:00Z")"}},
      {R"({"format":"time"})", {R"("00:00:00Z")"}, {R"("00:60:00Z")"}},
      {R"({"format":"uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"}},
      {R"({"format":"email"})", {R"("a.b@example.org")"}, {R"("a@")", R"("a@b")", R"("@b.de")"}},
      {R"({"format":"ipv4"})", {R"("255.0.10.199")"}, {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {R"({"format":"ipv6"})",
       {R"("::")", R"("fe80::1")", R"("1:2:3:4:5:6:7:8")"},
       {R"(":::")", R"("1:2:3:4:5:6:7")", R"("1::2::3")"}},
      {R"({"format":"hostname"})", {R"("a-b.example")"}, {R"("-a")", R"("a..b")"}},
      {R"({"format":"uri"})", {R"("https://a.b:80/c/d?e=f#g")"}, {R"("//a")", R"("a b")"}},
      {R"({"format":"duration"})", {R"("P1Y2M")", R"("PT5S")", R"("P3W")"}, {R"("P")", R"("1D")", R"("PT")"}},
      {R"({"format":"byte"})", {R"("")", R"("YWI=")"}, {R"("YWI")"}},
  });
}

TEST(JsonSchema, Arrays) {
  check_cases({
      {R"({"items":{"type":"integer"}})", {"[]", "[1]", "[1,2, 3]", "[ 1,\n  2 ]"}, {"[1,]", "[\"a\"]", "[,1]", "[1 ,2]"}},
      {R"({"items":{"type":"null"},"minItems":2,"maxItems":3})",
       {"[null,null]", "[null,null,null]"},
       {"[]", "[null]", "[null,null,null,null]"}},
      {R"({"items":{"type":"null"},"maxItems":1})", {"[]", "[null]"}, {"[null,null]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","minItems":1})", {"[1]", "[{\"a\":[]}]"}, {"[]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"minItems":1})", {"[1]", "[1,2]"}, {"[]", "[2]", "[1,2,3]"}},
      {R"({"prefixItems":[{"const":1}],"items":{"const":2},"minItems":2,"maxItems":3})",
       {"[1,2]", "[1,2,2]"},
       {"[1]", "[1,2,2,2]", "[1,1]"}},
      {R"({"items":[{"const":1}],"additionalItems":false})", {"[]", "[1]"}, {"[1,1]"}},
      {R"({"prefixItems":[{"const":1},false]})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"type":"array","uniqueItems":false,"items":{"const":0}})", {"[0,0]"}, {"[1]"}},
  });
}

TEST(JsonSchema, Objects) {
  check_cases({
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"required":["a"]})",
       {R"({"a":1})", R"({ "a": 1, "b":2 })"},
       {"{}", R"({"b":2})", R"({"b":2,"a":1})", R"({"a":1,"c":3})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}}})",
       {"{}", R"({"b":2})", R"({"a":1,"c":3})", R"({"a":1,"b":2,"c":3})"},
       {R"({,"b":2})", R"({"c":3,"a":1})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
       {R"({"b":2})", R"({"a":1,"b":2,"c":3})"},
       {"{}", R"({"a":1,"c":3})"}},
      {R"({"properties":{"ab":{"const":1}},"additionalProperties":{"const":2}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"a":2,"abc":2,"":2})", R"({"x":2})"},
       {R"({"ab":2})", R"({"x":1})", R"({"x":2,"ab":2})"}},
      {R"({"additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object"})", {"{}", R"({"a":{"b":[1]}})"}, {"[]"}},
      {R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {R"({"a":1})"}},
      {R"({"required":["x"],"additionalProperties":{"const":0}})", {R"({"x":0})", R"({"x":0,"y":0})"}, {"{}", R"({"x":1})"}},
      {R"({"properties":{"a \"b\"":{"const":1},"c":false},"required":["a \"b\""]})",
       {R"({"a \"b\"":1})"},
       {R"({"a \"b\"":1,"c":1})"}},
  });
}

TEST(JsonSchema, Combinations) {
  check_cases({
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1", "null"}, {"true"}},
      {R"({"anyOf":[{"minimum":5},{"maximum":-5}],"type":"integer"})", {"5", "-6"}, {"0", "null"}},
      {R"({"allOf":[{"properties":{"a":{"minimum":3}},"required":["a"]},{"properties":{"a":{"type":"integer"},"b":{"const":1}}}]})",
       {R"({"a":3})", R"({"a":4,"b":1})"},
       {R"({"a":2})", R"({"a":3.5})", "{}"}},
      {R"({"allOf":[{"additionalProperties":false,"properties":{"a":{"const":1}}},{"properties":{"b":{"const":1}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]},{"minimum":3}]})", {"3"}, {"2", "4"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", "\"a\""}, {"null"}},
      {R"({"oneOf":[{"type":"number","maximum":3},{"type":"number","exclusiveMinimum":3}]})", {"3", "4"}, {"null"}},
      {R"({"oneOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}}},{"properties":{"k":{"const":"b"}}}]})",
       {R"({"k":"a"})", R"({"k":"a","x":null})", R"({"k":"b"})"},
       {"{}", R"({"k":"c"})"}},
      {R"({"oneOf":[{"properties":{"a":{}},"required":["a"],"additionalProperties":false},{"properties":{"b":{"const":1}},"required":["b"]}]})",
       {R"({"a":0})", R"({"b":1})"},
       {"{}"}},
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {"{}"}},
      {R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}}})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1,"next":{}})", R"({"v":1})"}},
      {R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"}},
      {R"({"definitions":{"a/b~c":{"const":7}},"$ref":"#/definitions/a~1b~0c"})", {"7"}, {"8"}},
      {R"({"definitions":{"s p":{"const":7}},"properties":{"x":{"$ref":"#/definitions/s%20p","description":"d"}},"required":["x"]})",
       {R"({"x":7})"},
       {R"({"x":8})"}},
  });
}

TEST(JsonSchema, NamesWhatItRefuses) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "#: a schema is an object"},
      {"false", "#: no value satisfies it"},
      {R"({"properties":{"a":{"unevaluatedProperties":false}}})",
       "#/properties/a: 'unevaluatedProperties' is not supported"},
      {R"({"not":{}})", "no value satisfies it"},
      {R"({"not":{"required":["a"]}})", "'not' is supported for 'enum', 'const' and 'type' only, not for 'required'"},
      {R"({"type":"number","not":{"type":"integer"}})", "'not': numbers that are no integers"},
      {R"({"not":{"const":[1]}})", "'not': arrays and objects that are left out"},
      {R"({"if":{},"then":{}})", "'if' is not supported"},
      {R"({"uniqueItems":true})", "'uniqueItems' is supported for elements of up to 200 known values"},
      {R"({"uniqueItems":true,"items":{"type":"string"}})", "'uniqueItems' is supported for elements of up to 200"},
      {R"({"uniqueItems":1})", "'uniqueItems' must be true or false"},
      {R"({"patternProperties":[]})", "'patternProperties' must be an object of schemas"},
      {R"~({"patternProperties":{"(?!a)":true}})~", "'(?!' (negative lookahead) is not supported"},
      {R"({"multipleOf":0})", "'multipleOf' must be above 0"},
      {R"({"multipleOf":"1"})", "'multipleOf' must be a number"},
      {R"({"multipleOf":1e-20})", "'multipleOf': takes more than 15 digits"},
      {R"({"multipleOf":999983})", "'multipleOf': takes more than 4000 rules"},
      {R"({"requierd":["a"]})", "'requierd' is not supported"},
      {R"({"type":"text"})", "'type' must be null, boolean"},
      {R"({"type":[]})", "'type' names no type"},
      {R"({"type":"string","minLength":-1})", "'minLength' must be a whole number from 0"},
      {R"({"type":"string","minLength":5,"maxLength":4})", "#: no value satisfies it"},
      {R"({"type":"integer","minimum":1.2,"maximum":1.8})", "#: no value satisfies it"},
      {R"({"minimum":"1"})", "'minimum' must be a number"},
      {R"({"minimum":1e300})", "'minimum' takes more than 40 digits"},
      {R"({"enum":[]})", "'enum' must be a list of at least one value"},
      {R"({"type":"string","enum":["a"],"pattern":"b"})", "'enum' or 'const' beside other keywords"},
      {R"({"type":"string","format":"regex"})", "'format': 'regex' is not supported"},
      {R"({"type":"string","pattern":"^[a-f]*$","format":"date"})", "#: no value satisfies it"},
      {R"~({"properties":{"p":{"pattern":"(?=a)"}}})~", "#/properties/p: 'pattern': '(?=' (lookahead) is not supported"},
      {R"~({"pattern":"(?!a)b"})~", "'(?!' (negative lookahead) is not supported"},
      {R"~({"pattern":"(?<=a)b"})~", "'(?<=' (lookbehind) is not supported"},
      {R"~({"pattern":"(?<!a)b","maxLength":3})~", "'(?<!' (negative lookbehind) is not supported"},
      {R"~({"pattern":"(?i)b"})~", "expected ':', or a name in '<' and '>', after '(?'"},
      {R"({"pattern":"\\p{L}"})", "'\\p' is not supported"},
      {R"({"pattern":"(a)\\1"})", "'\\1' is not supported"},
      {R"~({"pattern":"(^a)"})~", "'^' is supported only at the ends"},
      {R"({"pattern":"(a"})", "a '(' is never closed"},
      {R"~({"pattern":"a)"})~", "this ')' closes nothing"},
      {R"({"pattern":"[b-a]"})", "goes from one character up to another"},
      {R"({"pattern":"[^\\d\\D]"})", "no character is in this class"},
      {R"({"pattern":"a**"})", "a repetition of a repetition"},
      {R"({"pattern":"a{2,1}"})", "wrong order"},
      {R"({"required":"a"})", "'required' must be a list of names"},
      {R"({"required":["a"],"additionalProperties":false})", "#: no value satisfies it: 'required' names 'a'"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})",
       "#: no value satisfies it: 'required' names 'a', which no property has and 'additionalProperties' forbids"},
      {R"({"type":"object","required":["a"],"propertyNames":{"pattern":"^b"}})",
       "#: no value satisfies it: 'propertyNames' forbids the required 'a'"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})", "#: no value satisfies it"},
      {R"({"properties":[]})", "'properties' must be an object of schemas"},
      {R"({"items":3})", "'items' must hold schemas"},
      {R"({"type":"object","minProperties":2})", "'minProperties' above 1"},
      {R"({"properties":{"a":{},"b":{}},"maxProperties":1})", "beside optional 'properties'"},
      {R"({"anyOf":[]})", "'anyOf' must be a list of at least one schema"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "'oneOf': alternatives 0 and 1 may both match one value"},
      {R"({"allOf":[{"type":"integer"},{"type":"string"}]})", "#: no value satisfies it"},
      {R"({"$ref":"other.json"})", "'$ref' is supported within the schema only; no schema in it is called 'other.json'"},
      {R"({"$ref":"#nowhere"})", "no schema in it is called '#nowhere'"},
      {R"({"$ref":"b.json#/x","$defs":{"b":{"$id":"b.json"}}})", "'$ref': there is no 'b.json#/x'"},
      {R"({"enum":[{"$id":"b.json"}],"$ref":"b.json"})", "no schema in it is called 'b.json'"},
      {R"({"$ref":"#/$defs/x"})", "'$ref': there is no '#/$defs/x'"},
      {R"({"$ref":"#"})", "'$ref' names itself"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "refers to itself without a value between"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "never comes to an end"},
  };
  for (const auto& [schema, message] : cases) {
    SCOPED_TRACE(schema);
    try {
      (void)json_schema_grammar(Json::parse(schema));
      EXPECT_EQ(message, "");
    } catch (const Error& error) {
      ASSERT_NE(message, "") << error.what();
      EXPECT_THAT(error.what(), testing::StartsWith("json_schema: "));
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(JsonSchema, SeveralSchemasShareOneGrammar) {
  WorkBudget budget(grammar_compile_units, "compiling");
  GrammarBuilder builder(budget);
  JsonGrammar json(builder);
  std::vector<GrammarNode> parts;
  for (const char* schema :
       {R"({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}})",
        R"({"type": "array", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "boolean"}}})"}) {
    parts.insert(parts.end(), {json_schema_value(Json::parse(schema), json, budget), builder.literal(";")});
  }
  const auto matcher = GrammarMatcher::create(builder.finish(builder.sequence(parts)), small_trie());
  EXPECT_TRUE(matches(matcher, R"({"a": null};[true, false];)"));
  EXPECT_FALSE(matches(matcher, R"({"a": true};[true];)"));
  EXPECT_FALSE(matches(matcher, R"({"a": null};[null];)"));
}

TEST(JsonSchemaScale, HostileSchemasAreRefusedSoon) {
  Json deep = {{"type", "null"}};
  for (int i = 0; i < 2000; ++i) {
    deep = {{"items", deep}};
  }
  Json doubling = {{"$defs", {{"d0", {{"type", "integer"}}}}}, {"$ref", "#/$defs/d40"}};
  for (int i = 1; i <= 40; ++i) {
    const Json reference = {{"$ref", fmt::format("#/$defs/d{}", i - 1)}};
    doubling["$defs"][fmt::format("d{}", i)] = {{"allOf", Json::array({reference, reference})}};
  }
  Json product = Json::object();
  for (int i = 0; i < 12; ++i) {
    product["allOf"].push_back(
        {{"anyOf", Json::array({Json{{"minimum", i}}, Json{{"minLength", i}}, Json{{"minItems", i}}})}});
  }
  Json wide = Json::object();
  for (int i = 0; i < 30'000; ++i) {
    wide["properties"][fmt::format("p{}", i)] = {{"type", "integer"}};
  }
  Json chain = {{"$defs", Json::object()}, {"$ref", "#/$defs/c0"}};
  for (int i = 0; i < 5000; ++i) {
    chain["$defs"][fmt::format("c{}", i)] = {
        {"properties", {{"n", {{"$ref", fmt::format("#/$defs/c{}", (i + 1) % 5000)}}}}}};
  }
  const Json counted =
      Json::parse(R"({"items":{"items":{"items":{"type":"string","minLength":3000},"minItems":3000},"minItems":3000}})");
  for (const auto& [schema, message] :
       std::vector<std::pair<Json, std::string>>{{deep, "nested deeper"},
                                                 {doubling, "too many combinations"},
                                                 {product, "more than 200 alternatives"},
                                                 {wide, "too "},
                                                 {chain, "nested deeper than 200"},
                                                 {Json{{"type", "string"}, {"minLength", 999'999}}, "100000 repetitions"},
                                                 {counted, ""}}) {
    try {  // work that doubles with each level would not end
      WorkBudget budget(grammar_compile_units, "compiling");
      static_cast<void>(ByteAutomaton(json_schema_grammar(schema, budget), budget));
      EXPECT_EQ(message, "");
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(JsonSchema, EveryAnswerToRandomSchemasIsValid) {
  std::vector<std::shared_ptr<const TokenTrie>> tries;
  for (const char* name : {"llama-spm", "gpt-2"}) {
    tries.push_back(std::make_shared<const TokenTrie>(*test::load_golden(name)));
  }
  std::vector<test::Walker> walkers(tries.begin(), tries.end());
  int valid = 0, unfinished = 0;
  for (std::uint32_t seed = 0; seed < 240; ++seed) {
    const Json schema = test::RandomSchema(seed).make();
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, schema.dump()));
    const auto& trie = tries[seed % tries.size()];
    const auto matcher = GrammarMatcher::create(json_schema_grammar(schema), trie);
    test::SchemaValidator validator(schema);
    std::mt19937 random(seed);
    for (int walk = 0; walk < 3; ++walk) {
      const auto constraint = make_grammar_constraint(matcher);
      const test::Walk answer = walkers[seed % tries.size()].walk(*constraint, random, static_cast<std::size_t>(walk) * 25);
      if (!answer.ended) {
        ++unfinished;
        continue;
      }
      ++valid;
      const Json value = Json::parse(answer.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << answer.text;
      ASSERT_TRUE(validator.accepts(value)) << answer.text;
    }
  }
  EXPECT_GT(valid, 700);
  EXPECT_LT(unfinished, 20);
}

TEST(JsonObject, AnyObjectAndNothingElse) {
  const auto trie = small_trie();
  const auto matcher = GrammarMatcher::create(json_object_grammar(), trie);
  const auto nested = [](int depth) {
    std::string text = "1";
    for (int i = 0; i < depth; ++i) {
      text = i % 2 == 0 ? "{\"a\":" + text + "}" : "[" + text + "]";
    }
    return "{\"r\":" + text + "}";
  };
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"a": 1, "b": [true, {"c": null}], "": "x"})"), nested(15)}) {
    EXPECT_TRUE(matches(matcher, text)) << text;
  }
  for (const std::string& text :
       {std::string("[]"), std::string("1"), std::string("{\"a\"}"), std::string("{'a':1}"), nested(16)}) {
    EXPECT_FALSE(matches(matcher, text)) << text;
  }
  std::mt19937 random(4);
  const auto large = std::make_shared<const TokenTrie>(*test::load_golden("deepseek-coder"));
  const auto free = GrammarMatcher::create(json_object_grammar(), large);
  test::Walker walker(large);
  for (int walk = 0; walk < 10; ++walk) {
    const test::Walk answer = walker.walk(*make_grammar_constraint(free), random, 40);
    ASSERT_TRUE(answer.ended) << answer.text;
    EXPECT_TRUE(Json::parse(answer.text, nullptr, false).is_object()) << answer.text;
  }
}

}  // namespace
}  // namespace rocmforge
