// Every construct of a grammar, repeated up to a million times. Each is compiled, or refused in one line that names a limit,
// with work that grows linearly with its text. Work is counted, not timed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/byte_automaton.h"
#include "grammar/json_schema.h"
#include "grammar_testing.h"
#include "small_stack.h"

namespace rocmforge::scale_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int million = 1'000'000;

struct Outcome {
  std::string problem;  ///< "" when it was compiled
  std::uint64_t spent = 0;
};

Outcome outcome_of(const std::function<void(WorkBudget&)>& compile) {
  Outcome outcome;
  test::on_small_stack([&] {
    WorkBudget budget(grammar_compile_units, "compiling");
    try {
      compile(budget);
    } catch (const Error& error) {
      outcome.problem = error.what();
    }
    outcome.spent = budget.spent();
  });
  EXPECT_LT(outcome.problem.size(), 500u);
  EXPECT_EQ(outcome.problem.find('\n'), std::string::npos);
  return outcome;
}

Outcome compile_gbnf(const std::string& text) {
  return outcome_of([&](WorkBudget& budget) { ByteAutomaton(parse_gbnf(text, budget), budget); });
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// "|": served, or refused with a limit.
void expect_problem(const Outcome& outcome, const std::string& problem) {
  if (problem.empty()) {
    EXPECT_EQ(outcome.problem, "");
  } else if (problem == "|") {
    EXPECT_THAT(outcome.problem, AnyOf("", HasSubstr("more than")));
  } else {
    EXPECT_THAT(outcome.problem, HasSubstr(problem));
  }
}

struct Case {
  std::string name, text, problem;
};

TEST(GrammarScale, EveryConstructAMillionTimes) {
  std::string chain = "root ::= r0\n", wide_chain = chain;
  for (int i = 0; i < 19'000; ++i) {
    chain += fmt::format("r{} ::= r{}\n", i, i + 1);
    wide_chain += fmt::format("r{} ::= r{} r{} | \"\"\n", i, i + 1, i + 1);
  }
  chain += "r19000 ::= \"x\"";
  wide_chain += "r19000 ::= \"x\"?";
  std::string rules;
  for (int i = 0; i < million / 10; ++i) {
    rules += fmt::format("r{} ::= \"\"\n", i);
  }
  std::string circle = "root ::= r0\n";
  for (int i = 0; i < 19'000; ++i) {
    circle += fmt::format("r{} ::= \"\" r{} \"x\" | \"y\"\n", i, (i + 1) % 19'000);
  }
  const std::vector<Case> cases = {
      {"open groups", "root ::= " + repeated("(", million), "nested deeper than 200"},
      {"groups", "root ::= " + repeated("(", million) + "\"a\"" + repeated(")", million), "nested deeper than 200"},
      {"closed groups", "root ::= \"a\"" + repeated(")", million), "closes nothing"},
      {"groups in a row", "root ::= " + repeated("()", million), ""},
      {"groups of groups", "root ::= " + repeated(repeated("(", 200) + repeated(")", 200), million / 400), ""},
      {"repeated groups", "root ::= " + repeated("()*", million), "|"},
      {"repetitions of repetitions", "root ::= \"a\"" + repeated("*", million), "more than 4 repetitions"},
      {"nested repetitions", "root ::= " + repeated("(", 190) + repeated(")*+?{0,}", 190), "250000 places"},
      {"empty alternatives", "root ::= \"x\" (" + repeated("|", million) + ")", "|"},
      {"lines of alternatives", "root ::= \"x\"" + repeated("\n | ", million / 4), ""},
      {"alternatives", "root ::= \"a\"" + repeated("|\"a\"", million), ""},
      {"alternatives of rules", "root ::= a" + repeated("|a", million) + "\na ::= \"x\"", "|"},
      {"alternatives of long rules", "root ::= a" + repeated("|a", million) + "\na ::= \"x\" a?", "|"},
      {"references", "root ::= a" + repeated(" a", million) + "\na ::= \"x\"", "250000 places"},
      {"references to nothing", "root ::= a" + repeated(" a", million) + "\na ::= \"\"", "|"},
      {"references to a long rule", "root ::= a" + repeated(" a", 500'000) + "\na ::= " + repeated("[a]", 500'000),
       "250000 places"},
      {"references that may be left out", "root ::= a" + repeated(" a", 100'000) + "\na ::= \"x\" a?", "|"},
      {"references to what may be nothing", "root ::= a" + repeated(" a", million / 8) + "\na ::= (\"x\" a)?", "more than"},
      {"optional pieces", "root ::= " + repeated("\"a\"?", million / 8), "more than"},
      {"rules", rules, "more than 20000 rules"},
      {"a chain of rules", chain, ""},
      {"a chain of choices", wide_chain, ""},
      {"a circle of rules", circle, "is left-recursive"},
      {"a literal", "root ::= \"" + repeated("a", million) + "\"", "250000 places"},
      {"escapes", "root ::= \"" + repeated("\\n", million) + "\"", "250000 places"},
      {"an open literal", "root ::= \"" + repeated("a", million), "never closed"},
      {"literals", "root ::= " + repeated("\"\" ", million), ""},
      {"a class", "root ::= [" + repeated("a", million) + "]", ""},
      {"a class of ranges", "root ::= [" + repeated("a-z", million) + "]", ""},
      {"negated classes", "root ::= " + repeated("[^a]", million), "|"},
      {"any characters", "root ::= " + repeated(".", million), "|"},
      {"a name", repeated("n", million) + " ::= \"a\"", "no rule 'root'"},
      {"a name without a rule", "root ::= " + repeated("n", million), "is not defined"},
      {"a name twice", repeated("n", million) + " ::= \"a\"\n" + repeated("n", million) + " ::= \"a\"", "defined twice"},
      {"an endless rule", "root ::= " + repeated("n", million) + "\n" + repeated("n", million) + " ::= \"a\" root",
       "never comes to an end"},
      {"digits", "root ::= \"a\"{" + repeated("9", million) + "}", "more than 100000 repetitions"},
      {"repetitions", "root ::= (\"a\" | [b-z] \"c\"){40000}", ""},
      {"products of repetitions", "root ::= (((\"a\"{100000}){100000}){100000}){100000}", "too large"},
      {"a comment", "root ::= \"a\" #" + repeated("x", million), ""},
      {"blank lines", "root ::= \"a\"" + repeated("\n", million), ""},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Outcome outcome = compile_gbnf(one.text);
    EXPECT_LE(outcome.spent, grammar_compile_units);
    expect_problem(outcome, one.problem);
  }
}

TEST(GrammarScale, WorkGrowsAsTheTextDoes) {
  const std::vector<std::pair<std::string, std::function<std::string(int)>>> cases = {
      {"empty alternatives", [](int n) { return "root ::= (" + repeated("|", n) + ")"; }},
      {"groups", [](int n) { return "root ::= " + repeated("(\"a\" | \"b\")", n); }},
      {"alternatives", [](int n) { return "root ::= \"x\"" + repeated("|[ab]", n); }},
      {"references", [](int n) { return "root ::= b" + repeated(" b", n) + "\nb ::= " + repeated("[a]", n); }},
      {"a chain",
       [](int n) {
         std::string text = "root ::= r0\n";
         for (int i = 0; i < n; ++i) {
           text += fmt::format("r{} ::= r{} | \"x\" r{}\n", i, i + 1, i + 1);
         }
         return text + fmt::format("r{} ::= \"x\"", n);
       }},
  };
  for (const auto& [name, make] : cases) {
    SCOPED_TRACE(name);
    const Outcome small = compile_gbnf(make(200)), large = compile_gbnf(make(200 * 32));
    EXPECT_EQ(small.problem, "");
    EXPECT_EQ(large.problem, "");
    EXPECT_LE(large.spent, 64 * small.spent);
  }
}

TEST(GrammarScale, ACompileStopsWhenItsResultIsNoLongerWanted) {
  WorkBudget budget(grammar_compile_units, "compiling");
  budget.stop();
  EXPECT_THROW(parse_gbnf("root ::= \"a\"", budget), Interrupted);
  EXPECT_THROW((void)json_schema_grammar(Json{{"type", "integer"}}, budget), Interrupted);
  const Grammar grammar = parse_gbnf("root ::= [a-z]{2,40}");
  EXPECT_THROW(ByteAutomaton(grammar, budget), Interrupted);
  WorkBudget small(30, "compiling");
  try {
    ByteAutomaton{grammar, small};
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "compiling takes more than the 30 units of work that are allowed");
  }
}

/// Appends a member without comparing it with earlier ones.
void append(Json& object, std::string name, Json value) {
  std::vector<Json::object_t::value_type>& members = object.get_ref<Json::object_t&>();
  members.emplace_back(std::move(name), std::move(value));
}

Json nested(const char* keyword, int depth) {
  Json schema = Json::object();
  for (int i = 0; i < depth; ++i) {
    Json outer = Json::object();
    const std::string name = keyword;
    if (name == "properties") {
      outer["properties"]["a"] = std::move(schema);
    } else if (name == "items" || name == "additionalProperties" || name == "enum") {
      outer[name] = std::move(schema);
    } else {
      outer[name] = Json::array();
      outer[name].push_back(std::move(schema));
    }
    schema = std::move(outer);
  }
  return schema;
}

/// Definitions, each of which is `link` of the next one.
Json chain(int count, const std::function<Json(Json)>& link) {
  Json definitions = Json::object();
  for (int i = 0; i < count; ++i) {
    append(definitions, fmt::format("d{}", i), link({{"$ref", fmt::format("#/$defs/d{}", i + 1)}}));
  }
  append(definitions, fmt::format("d{}", count), {{"type", "null"}});
  Json schema = {{"$ref", "#/$defs/d0"}};
  append(schema, "$defs", std::move(definitions));
  return schema;
}

Json list_of(const char* keyword, int count, const Json& part) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().assign(static_cast<std::size_t>(count), part);
  Json schema = Json::object();
  append(schema, keyword, std::move(list));
  return schema;
}

Json object_of(int count, const Json& part) {
  Json properties = Json::object();
  for (int i = 0; i < count; ++i) {
    append(properties, fmt::format("p{}", i), part);
  }
  Json schema = Json::object();
  append(schema, "properties", std::move(properties));
  return schema;
}

Outcome compile_schema(const Json& schema) {
  return outcome_of([&](WorkBudget& budget) { ByteAutomaton(json_schema_grammar(schema, budget), budget); });
}

Json with_pattern(const std::string& pattern) { return {{"type", "string"}, {"pattern", pattern}}; }

TEST(SchemaScale, EveryConstructAMillionTimes) {
  const Json null = {{"type", "null"}}, any = Json::object();
  const std::string digits = repeated("9", million);
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {repeated("(", million), "at most 4096"},
      {repeated("a|", million), "at most 4096"},
      {repeated("[a]", million), "at most 4096"},
      {repeated("(", 4000), "nested deeper than 50"},
      {repeated("(a)", 1300), ""},
      {repeated("|", 4000), ""},
      {"[^" + repeated("\\d", 2000) + "]", ""},
      {"[^" + repeated("a", 4000) + "]", ""},
      {"a{20000}", ""},
      {"(a{20000}){20000}", "too large"},
      {"a{" + repeated("9", 4000) + "}", "more than 20000 repetitions"},
      {repeated("(a?)", 1000), "|"},
  };
  for (const auto& [pattern, problem] : patterns) {
    SCOPED_TRACE(pattern.substr(0, 20));
    const Outcome outcome = compile_schema(with_pattern(pattern));
    expect_problem(outcome, problem);
  }
  const std::vector<std::pair<std::function<Json()>, std::string>> cases = {
      {[&] { return nested("items", million); }, "nested deeper than 100"},
      {[&] { return nested("properties", million); }, "nested deeper than 100"},
      {[&] { return nested("additionalProperties", million); }, "nested deeper than 100"},
      {[&] { return nested("allOf", million); }, "nested deeper than 100"},
      {[&] { return nested("anyOf", million); }, "nested deeper than 100"},
      {[&] { return nested("oneOf", million); }, "nested deeper than 100"},
      {[&] { return nested("items", 99); }, ""},
      {[&] { return nested("properties", 49); }, ""},
      {[&] { return nested("oneOf", 49); }, ""},
      {[&] { return chain(60'000, [](Json next) { return next; }); }, "more than 100000 parts"},
      {[&] { return chain(30'000, [](Json next) { return next; }); }, "names itself"},
      {[&] { return chain(20'000, [](Json next) {
               return Json{{"allOf", Json::array({next})}};
             }); },
       "more than 200 schemas"},
      {[&] { return chain(20'000, [](Json next) {
               return Json{{"anyOf", Json::array({next})}};
             }); },
       "more than 200 schemas"},
      {[&] { return chain(20'000, [](Json next) {
               return Json{{"items", next}};
             }); }, "nested deeper than 200"},
      {[&] { return chain(190, [](Json next) {
               return Json{{"items", next}};
             }); }, ""},
      {[&] { return list_of("allOf", million, any); }, "more than 100000 parts"},
      {[&] { return list_of("anyOf", million, null); }, "more than 100000 parts"},
      {[&] { return list_of("allOf", 90'000, any); }, ""},
      {[&] { return list_of("anyOf", 45'000, null); }, "more than 15000 rules"},
      {[&] { return list_of("oneOf", 45'000, null); }, "more than 200 alternatives"},
      {[&] { return list_of("prefixItems", 90'000, any); }, "|"},
      {[&] { return list_of("enum", million, 5); }, "more than 100000 parts"},
      {[&] { return list_of("enum", 90'000, repeated("a", 30)); }, ""},
      {[&] { return list_of("required", million, "a"); }, "more than 100000 parts"},
      {[&] { return object_of(million, any); }, "more than 100000 parts"},
      {[&] { return object_of(90'000, any); }, "more than 15000 rules"},
      {[&] { return object_of(4'000, any); }, ""},
      {[&] {
         return Json{{"properties", {{repeated("n", million), any}}}};
       },
       "250000 places"},
      {[&] {
         return Json{{"properties", {{repeated("n", million), {{"items", {{"items", 7}}}}}}}};
       },
       "'items' must hold"},
      {[&] {
         return Json{{"const", repeated("c", million)}};
       },
       "250000 places"},
      {[&] {
         return Json{{"$ref", "#/" + repeated("a/", million)}};
       },
       "there is no"},
      {[&] {
         return Json{{"type", repeated("t", million)}};
       },
       "must be null, boolean"},
      {[&] {
         return Json{{"format", repeated("f", million)}};
       },
       ""},
      {[&] {
         return Json{{repeated("k", million), 1}};
       },
       "is not supported"},
      {[&] {
         return Json{{"type", "string"}, {"minLength", million}};
       },
       "100000 repetitions"},
      {[&] {
         return Json{{"type", "array"}, {"minItems", million}};
       },
       "100000 repetitions"},
      {[&] {
         return Json{{"type", "string"}, {"maxLength", 999'999'999'999}};
       },
       ""},
      {[&] {
         return Json{{"type", "integer"}, {"minimum", 1e39}};
       },
       ""},
      {[&] {
         return Json{{"type", "integer"}, {"minimum", 1e300}};
       },
       "more than 40 digits"},
      {[&] {
         return Json{{"type", "number"}, {"minimum", 1e-30}, {"maximum", 1e30}};
       },
       ""},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Outcome outcome = compile_schema(cases[i].first());
    expect_problem(outcome, cases[i].second);
    EXPECT_LE(outcome.spent, grammar_compile_units);
  }
}

TEST(SchemaScale, NamesThatLookLikeRulesCostNoSearch) {
  Json schema = {{"properties", Json::object()}};
  for (int i = 0; i < 4'000; ++i) {
    append(schema["properties"], fmt::format("a-{}", 4'000 + i), true);
  }
  EXPECT_EQ(compile_schema(schema).problem, "");
}

}  // namespace
}  // namespace rocmforge::scale_test
