// Schemas of the largest size that a request may have. Quadratic work would take minutes here, and recursion would overflow
// the stack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "grammar/byte_automaton.h"
#include "grammar/json_schema.h"
#include "grammar_testing.h"

namespace rocmforge::schema_limits_test {
namespace {

using Json = nlohmann::ordered_json;
using test::matches;
using test::small_trie;
using testing::HasSubstr;

/// Appends a member without comparing it with earlier ones.
void append(Json& object, std::string name, Json value) {
  std::vector<Json::object_t::value_type>& members = object.get_ref<Json::object_t&>();
  members.emplace_back(std::move(name), std::move(value));
}

std::string problem_of(const Json& schema) {
  try {
    WorkBudget budget(grammar_compile_units, "compiling");
    static_cast<void>(ByteAutomaton(json_schema_grammar(schema, budget), budget));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(JsonSchemaLimits, ALongNameBesideOtherKeys) {
  const std::string name(22'000, 'n');
  const Json schema = {{"properties", {{name, {{"type", "integer"}}}, {"n", {{"type", "null"}}}}},
                       {"additionalProperties", {{"type", "boolean"}}}};
  const auto matcher = GrammarMatcher::create(json_schema_grammar(schema), small_trie());
  EXPECT_TRUE(matches(matcher, "{\"" + name + "\": 5, \"other\": true}"));
  EXPECT_TRUE(matches(matcher, R"({"n": null, "nn": true, "m": false})"));
  EXPECT_FALSE(matches(matcher, "{\"" + name + "\": true}"));
  EXPECT_FALSE(matches(matcher, R"({"n": true})"));
  EXPECT_TRUE(matches(matcher, "{\"" + std::string(63, 'n') + "\": true}"));
  EXPECT_FALSE(matches(matcher, "{\"" + std::string(64, 'n') + "\": true}")) << "is not told apart, so not written";
  Json longest = {{"properties", Json::object()}, {"additionalProperties", true}};
  append(longest["properties"], std::string(1'000'000, 'n'), true);
  EXPECT_THAT(problem_of(longest), HasSubstr("250000 places"));
}

TEST(JsonSchemaLimits, ManyNamesBesideOtherKeys) {
  Json schema = {{"properties", Json::object()}, {"additionalProperties", true}};
  for (int i = 0; i < 4'000; ++i) {
    append(schema["properties"], fmt::format("{:x}{}", i * 2654435761u, std::string(50, 'n')), true);
  }
  EXPECT_THAT(problem_of(schema), HasSubstr("too large"));
}

/// Definitions of which each is only the next one, the last is null.
Json chain(const char* keyword, int count) {
  Json definitions = Json::object();
  for (int i = 0; i < count; ++i) {
    append(definitions, fmt::format("d{}", i), {{keyword, Json::array({{{"$ref", fmt::format("#/$defs/d{}", i + 1)}}})}});
  }
  append(definitions, fmt::format("d{}", count), {{"type", "null"}});
  return {{"$ref", "#/$defs/d0"}, {"$defs", std::move(definitions)}};
}

TEST(SchemaLimitsScale, ChainsOfReferences) {
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    EXPECT_EQ(problem_of(chain(keyword, 90)), "") << keyword;
    EXPECT_THAT(problem_of(chain(keyword, 5'000)), HasSubstr("more than 200 schemas lie in one another")) << keyword;
  }
  EXPECT_THAT(problem_of(chain("allOf", 1'000'000)), HasSubstr("more than 100000 parts"));
}

TEST(JsonSchemaLimits, ManyValues) {
  Json values = Json::array();
  for (int i = 0; i < 99'000; ++i) {
    values.push_back(i);
  }
  const auto matcher = GrammarMatcher::create(json_schema_grammar({{"enum", values}}), small_trie());
  EXPECT_TRUE(matches(matcher, "98999"));
  EXPECT_FALSE(matches(matcher, "99000"));
}

TEST(JsonSchemaLimits, ManyRequiredNames) {
  Json required = Json::array();
  Json halves = Json::array();
  for (int i = 0; i < 90'000; ++i) {
    required.push_back(fmt::format("name {}", i));
  }
  EXPECT_THAT(problem_of({{"required", required}}), HasSubstr("too large"));
  for (int half = 0; half < 2; ++half) {
    Json part = {{"required", Json::array()}, {"additionalProperties", false}};
    for (int i = 0; i < 45'000; ++i) {
      part["required"].push_back(required[static_cast<std::size_t>(45'000 * half + i)]);
    }
    halves.push_back(std::move(part));
  }
  EXPECT_THAT(problem_of({{"allOf", halves}}), HasSubstr("no value satisfies it: 'required' names 'name 0'"));
  EXPECT_THAT(problem_of({{"allOf", halves}, {"type", "object"}}), HasSubstr("no value satisfies it"));
  required.get_ref<Json::array_t&>().resize(300);
  EXPECT_EQ(problem_of({{"required", required}}), "");
}

TEST(JsonSchemaLimits, ManyPartsOfOneValue) {
  Json parts = Json::array();
  for (int i = 0; i < 33'000; ++i) {
    parts.push_back({{"properties", {{"a", Json::object()}}}});
  }
  EXPECT_THAT(problem_of({{"allOf", std::move(parts)}}), HasSubstr("too "));
}

TEST(JsonSchemaLimits, ManyChoices) {
  Json choices = Json::array();
  for (int i = 0; i < 600; ++i) {
    choices.push_back({{"properties", {{"name", {{"const", fmt::format("tool {}", i)}}}, {"n", {{"type", "integer"}}}}},
                       {"required", {"name"}},
                       {"additionalProperties", false}});
  }
  const auto matcher = GrammarMatcher::create(json_schema_grammar({{"anyOf", choices}}), small_trie());
  EXPECT_TRUE(matches(matcher, R"({"name": "tool 599", "n": 5})"));
  EXPECT_FALSE(matches(matcher, R"({"name": "tool 600"})"));
}

}  // namespace
}  // namespace rocmforge::schema_limits_test
