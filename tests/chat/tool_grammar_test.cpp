#include "chat/tool_grammar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/written_calls.h"

namespace rocmforge::test::tool_grammar_test {
namespace {

using nlohmann::ordered_json;
using Style = ToolCallStyle;

ordered_json tools() {
  return ordered_json::parse(R"([
    {"type": "function", "function": {"name": "add", "parameters": {"type": "object",
      "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/few"}}, "required": ["a"], "additionalProperties": false,
      "$defs": {"few": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}}}},
    {"type": "function", "function": {"name": "now", "description": "The time"}},
    {"name": "bare", "parameters": {"type": "object", "properties": {"$ref": {"type": "string"}, "x": {"enum": ["#"]}},
      "required": ["x"], "additionalProperties": false}}])");
}

ToolGrammar grammar_of(Style style, const ordered_json& tools, const ToolChoice& choice) {
  WorkBudget budget(grammar_compile_units, "compiling the grammar");
  return make_tool_grammar(style, tools, choice, budget);
}
ToolGrammar grammar_of(Style style, const ToolChoice& choice) { return grammar_of(style, tools(), choice); }

const std::string add_call = R"({"name": "add", "arguments": {"a": 5, "b": [true]}})";
const std::string now_call = R"({"name": "now", "arguments": {}})";
const std::string bare_call = R"({"name": "bare", "arguments": {"$ref": "#", "x": "#"}})";

TEST(ToolGrammar, RequiredCalls) {
  for (const Style style : styles_with_several_calls) {
    const ToolGrammar grammar = grammar_of(style, {.is_required = true});
    const auto fits = [&](const std::vector<std::string>& calls) {
      const std::string answer = written(style, calls);
      EXPECT_TRUE(answer.starts_with(grammar.opening)) << answer;
      return accepts(grammar, answer.substr(grammar.opening.size()));
    };
    EXPECT_TRUE(fits({add_call})) << name(style);
    EXPECT_TRUE(fits({now_call})) << name(style);
    EXPECT_TRUE(fits({bare_call, add_call})) << name(style);
    EXPECT_FALSE(fits({R"({"name": "other", "arguments": {}})"})) << name(style);
    EXPECT_FALSE(fits({R"({"name": "add", "arguments": {"a": "five"}})"})) << name(style);
    EXPECT_FALSE(fits({R"({"name": "add", "arguments": {"a": 5, "b": [1]}})"})) << name(style);
    EXPECT_FALSE(fits({R"({"name": "now", "arguments": {"a": 5}})"})) << name(style);
    EXPECT_FALSE(accepts(grammar, "")) << name(style);
    EXPECT_FALSE(accepts(grammar, "I would rather not.")) << name(style);
  }
}

TEST(ToolGrammar, TextInTagsIsAnythingButTheEndOfTheTag) {
  const auto text_tool = ordered_json::parse(R"([{"name": "say", "parameters": {"type": "object", "required": ["text"],
      "properties": {"text": {"type": "string"}, "loud": {"type": "boolean"}}}}, {"name": "any", "parameters": {"type": "object"}}])");
  const ToolGrammar grammar = grammar_of(Style::seed, text_tool, {.is_required = true});
  const auto fits = [&](const std::string& text) {
    return accepts(grammar, "\n<function=say>\n<parameter=text>" + text + "</parameter>\n</function>\n</seed:tool_call>");
  };
  EXPECT_TRUE(fits("a < b </para </parame<</p> \n\"{}"));
  EXPECT_TRUE(fits(""));
  EXPECT_TRUE(fits("x</parameter>\n<parameter=loud>true"));
  EXPECT_FALSE(fits("x</parameter>y"));
  EXPECT_TRUE(accepts(grammar, "\n<function=any>\n<parameter=x>1</parameter>\n</function>\n</seed:tool_call>"));
  const ToolGrammar python = grammar_of(Style::lfm2, text_tool, {.is_required = true});
  EXPECT_TRUE(accepts(python, "[say(text=\"a\", loud=True), any(x=[1], y=2)]<|tool_call_end|>"));
  EXPECT_FALSE(accepts(python, "[say(loud=True)]<|tool_call_end|>"));
}

TEST(ToolGrammar, OneOfThemByNameAndOneAtATime) {
  for (const Style style : styles_with_several_calls) {
    const ToolGrammar named = grammar_of(style, {.is_required = true, .name = "add", .parallel = false});
    const auto rest = [&](const std::vector<std::string>& calls) {
      return written(style, calls).substr(named.opening.size());
    };
    EXPECT_TRUE(accepts(named, rest({add_call}))) << name(style);
    EXPECT_FALSE(accepts(named, rest({now_call}))) << name(style);
    EXPECT_FALSE(accepts(named, rest({add_call, add_call}))) << name(style);
    EXPECT_FALSE(grammar_of(style, {.parallel = false}).repeats);
    const ToolGrammar only_named = grammar_of(style, {.is_required = true, .name = "add"});
    EXPECT_TRUE(only_named.grammar == named.grammar) << "a function that is named is called once";
    EXPECT_FALSE(only_named.repeats);
  }
  EXPECT_THROW(static_cast<void>(grammar_of(Style::hermes, {.is_required = true, .name = "nope"})), Error);
  EXPECT_THROW(static_cast<void>(grammar_of(Style::hermes, ordered_json::array(), {})), Error);
}

TEST(ToolGrammar, AfterTheTriggerWhereACallIsFree) {
  for (const Style style : styles_with_several_calls) {
    const ToolGrammar grammar = grammar_of(style, {});
    EXPECT_EQ(grammar.opening, "");
    const std::string answer = written(style, {add_call});
    ASSERT_TRUE(answer.starts_with(grammar.trigger)) << answer;
    const std::size_t skipped = grammar.trigger_is_part_of_grammar ? 0 : grammar.trigger.size();
    EXPECT_TRUE(accepts(grammar, answer.substr(skipped))) << name(style);
    EXPECT_EQ(grammar.trigger_at_start_only, style == Style::llama3 || style == Style::generic);
    EXPECT_EQ(grammar.repeats, style == Style::hermes || style == Style::mistral_named || style == Style::qwen_coder ||
                                   style == Style::seed || style == Style::glm || style == Style::gemma4);
  }
}

TEST(ToolGrammar, ACallOfTheHarmonyFormatEndsTheAnswer) {
  const ToolGrammar grammar = grammar_of(Style::harmony, {.is_required = true});
  EXPECT_EQ(grammar.opening, "<|channel|>commentary to=functions.");
  const std::string add = R"(add <|constrain|>json<|message|>{"a": 5, "b": [true]})";
  EXPECT_TRUE(accepts(grammar, add));
  EXPECT_TRUE(accepts(grammar, "now <|constrain|>json<|message|>{}"));
  EXPECT_FALSE(accepts(grammar, add + grammar.opening + add));
  EXPECT_FALSE(accepts(grammar, add + add));
  EXPECT_FALSE(accepts(grammar, R"(add <|constrain|>json<|message|>{"a": "five"})"));
  EXPECT_FALSE(accepts(grammar, "other <|constrain|>json<|message|>{}"));
  const ToolGrammar free = grammar_of(Style::harmony, {});
  EXPECT_EQ(free.trigger, grammar.opening);
  EXPECT_FALSE(free.repeats || free.trigger_is_part_of_grammar);
  EXPECT_TRUE(accepts(free, add));
  AnswerFormat format{.has_tools = true, .style = Style::harmony};
  format.in_channels = format.header_is_open = true;
  EXPECT_EQ(parse_answer(grammar.opening + add, format), (ParsedAnswer{"", "", {{"", "add", R"({"a": 5, "b": [true]})"}}}));
}

TEST(ToolGrammar, WhatFitsIsParsedBack) {
  for (const Style style : styles_with_several_calls) {
    AnswerFormat format;
    format.has_tools = true;
    format.style = style;
    format.tool_names = {"add", "now", "bare"};
    ParsedAnswer answer = parse_answer(written(style, {add_call, now_call}), format);
    for (ToolCall& call : answer.calls) {
      call.id.clear();
      call.arguments = ordered_json::parse(call.arguments).dump();
    }
    EXPECT_EQ(answer, (ParsedAnswer{"", "", {{"", "add", R"({"a":5,"b":[true]})"}, {"", "now", "{}"}}})) << name(style);
  }
}

}  // namespace
}  // namespace rocmforge::test::tool_grammar_test
