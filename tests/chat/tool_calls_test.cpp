#include "chat/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "chat/chat_template_files.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

using Kind = AnswerDelta::Kind;
using Style = ToolCallStyle;

struct Case {
  std::string text;
  ParsedAnswer expected;
};

AnswerFormat format_of(Style style) {
  AnswerFormat format;
  format.has_tools = true;
  format.style = style;
  format.tool_names = {"add", "look_up"};
  return format;
}

const std::vector<Case> hermes_cases = {
    {"Hello", {"", "Hello", {}}},
    {" two words \n", {"", " two words \n", {}}},
    {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2, {\"c\": \"}\\\"{\"}]}}\n</tool_call>",
     {"", "", {{"", "add", "{\"a\": 1, \"b\": [2, {\"c\": \"}\\\"{\"}]}"}}}},
    {"I look.\n\n<tool_call>{\"name\":\"look_up\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"name\": \"add\", "
     "\"arguments\": {\"a\": "
     "\"ä日\"}}\n</tool_call>\n",
     {"", "I look.", {{"", "look_up", "{}"}, {"", "add", "{\"a\": \"ä日\"}"}}}},
    {"<tool_call>{\"arguments\": {\"a\": 1}, \"id\": \"x1\", \"name\": \"any\"}</tool_call> Done.",
     {"", "Done.", {{"x1", "any", "{\"a\": 1}"}}}},
    {"<tool_call>{\"name\": \"add\"}</tool_call>", {"", "", {{"", "add", "{}"}}}},
    {"<tool_call>{\"name\": \"add\", \"arguments\": null}</tool_call>", {"", "", {{"", "add", "{}"}}}},
    {"<tool_call>{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": \\\"\\\\n\\\"}\"}</tool_call>",
     {"", "", {{"", "add", "{\"a\": \"\\n\"}"}}}},
    {"<tool_call>{\"name\": \"a\\u0064d\", \"x\": [\"]\", {\"y\": 1}], \"z\": \"}\", \"arguments\": {\"a\": "
     "1},}</tool_call>",
     {"", "", {{"", "add", "{\"a\": 1}"}}}},
    // Broken off, by a limit for one.
    {"<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"n", {"", "", {{"", "add", "{\"a\": \"n"}}}},
    {"x <tool_call>\n{\"na", {"", "x <tool_call>\n{\"na", {}}},
    {"x <tool_call>", {"", "x <tool_call>", {}}},
    {"x <tool_c", {"", "x <tool_c", {}}},
    // None.
    {"a <tool_call>not JSON</tool_call> b", {"", "a <tool_call>not JSON</tool_call> b", {}}},
    {"<tool_call>{\"nome\": 1}</tool_call>", {"", "<tool_call>{\"nome\": 1}</tool_call>", {}}},
    {"<tool_call>{\"name\": 5}</tool_call>", {"", "<tool_call>{\"name\": 5}</tool_call>", {}}},
    {"{\"name\": \"add\", \"arguments\": {}}", {"", "{\"name\": \"add\", \"arguments\": {}}", {}}},
    {"a < b <tool <tool_callx", {"", "a < b <tool <tool_callx", {}}},
    // With reasoning.
    {"<think>\nAdd. <tool_call>\n\n</think>\n\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>",
     {"Add. <tool_call>", "", {{"", "add", "{}"}}}},
    {"\n <think>a\nb </think>  c", {"a\nb", "c", {}}},
    {"<think></think>\n\nc", {"", "c", {}}},
    {"<think>never ends </thin", {"never ends </thin", "", {}}},
    {"<think", {"", "<think", {}}},
    {"a <think>b</think>", {"", "a <think>b</think>", {}}},
    {"<think>a</think><think>b</think>", {"a", "<think>b</think>", {}}},
};

const std::vector<Case> llama3_cases = {
    {"{\"name\": \"add\", \"parameters\": {\"a\": 1}}", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {" \n{\"type\": \"function\", \"name\": \"add\", \"parameters\": {}}\n", {"", "", {{"", "add", "{}"}}}},
    {"<|python_tag|>{\"name\": \"add\", \"parameters\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"{\"name\": \"add\", \"parameters\": {}}; {\"name\": \"look_up\", \"parameters\": {\"b\": 2}}",
     {"", "", {{"", "add", "{}"}, {"", "look_up", "{\"b\": 2}"}}}},
    {"{\"name\": \"Bob\", \"age\": 5}", {"", "{\"name\": \"Bob\", \"age\": 5}", {}}},
    {"{\"a\": {\"name\": \"add\"}}", {"", "{\"a\": {\"name\": \"add\"}}", {}}},
    {"{}", {"", "{}", {}}},
    {"Sure: {\"name\": \"add\", \"parameters\": {}}", {"", "Sure: {\"name\": \"add\", \"parameters\": {}}", {}}},
    {"<|python_tag|>print(1)", {"", "<|python_tag|>print(1)", {}}},
    {"{\"name\": \"add\", \"parameters\": {\"a\": 1", {"", "", {{"", "add", "{\"a\": 1"}}}},
    {"{\"name\": \"ad", {"", "{\"name\": \"ad", {}}},
};

const std::vector<Case> mistral_cases = {
    {"[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {\"a\": 1}}]", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {"Wait. [TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": [1]}}, {\"id\": \"abcdef123\", \"name\": \"x\", "
     "\"arguments\": {}}] ok",
     {"", "Wait.ok", {{"", "add", "{\"a\": [1]}"}, {"abcdef123", "x", "{}"}}}},
    {"[TOOL_CALLS]{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"[TOOL_CALLS][]", {"", "[TOOL_CALLS][]", {}}},
    {"[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"[TOOL", {"", "[TOOL", {}}},
    {"[1, 2]", {"", "[1, 2]", {}}},
};

const std::vector<Case> named_cases = {
    {"[TOOL_CALLS]add[ARGS]{\"a\": {\"b\": \"}\"}}", {"", "", {{"", "add", "{\"a\": {\"b\": \"}\"}}"}}}},
    {"Wait.\n[TOOL_CALLS]add[CALL_ID]abcdef123[ARGS]{} [TOOL_CALLS]x{\"c\": 1}\n",
     {"", "Wait.", {{"abcdef123", "add", "{}"}, {"", "x", "{\"c\": 1}"}}}},
    {"[TOOL_CALLS]add[ARGS]{\"a\": [1", {"", "", {{"", "add", "{\"a\": [1"}}}},
    {"[TOOL_CALLS]ad", {"", "[TOOL_CALLS]ad", {}}},
    {"[TOOL_CALLS] are marks, {you} know", {"", "[TOOL_CALLS] are marks, {you} know", {}}},
    {"[TOOL_CALLS][ARGS]{}", {"", "[TOOL_CALLS][ARGS]{}", {}}},
};

const std::vector<Case> generic_cases = {
    {"{\"tool_calls\": [{\"name\": \"add\", \"arguments\": {\"a\": 1}}]}", {"", "", {{"", "add", "{\"a\": 1}"}}}},
    {"{ \"tool_calls\" :\n[ {\"name\": \"add\", \"arguments\": {}} , {\"name\": \"other\", \"arguments\": {}} ] }\n",
     {"", "", {{"", "add", "{}"}, {"", "other", "{}"}}}},
    {"{\"name\": \"add\", \"arguments\": {}}", {"", "", {{"", "add", "{}"}}}},
    {"{\"name\": \"Bob\"}", {"", "{\"name\": \"Bob\"}", {}}},
    {"{\"tool_calls\": []}", {"", "{\"tool_calls\": []}", {}}},
    {"{\"tool_calls\": 5}", {"", "{\"tool_calls\": 5}", {}}},
    {"{\"tool_ca", {"", "{\"tool_ca", {}}},
    {"{\"tool _calls\": [", {"", "{\"tool _calls\": [", {}}},
    {"plain", {"", "plain", {}}},
};

std::vector<std::pair<Style, std::vector<Case>>> all_cases() {
  std::vector<Case> granite;
  for (Case each : mistral_cases) {
    for (std::string* text : {&each.text, &each.expected.content}) {
      if (const std::size_t at = text->find("[TOOL_CALLS]"); at != std::string::npos) {
        text->replace(at, 12, "<|tool_call|>");
      }
    }
    granite.push_back(each);
  }
  return {{Style::hermes, hermes_cases},         {Style::llama3, llama3_cases},       {Style::mistral, mistral_cases},
          {Style::mistral_named, mistral_cases}, {Style::mistral_named, named_cases}, {Style::granite, granite},
          {Style::generic, generic_cases}};
}

ParsedAnswer joined(const std::vector<AnswerDelta>& deltas) {
  ParsedAnswer answer;
  for (const AnswerDelta& delta : deltas) {
    EXPECT_FALSE(delta.text.empty());
    if (delta.kind == Kind::call) {
      EXPECT_EQ(delta.index, static_cast<std::int32_t>(answer.calls.size()));
      answer.calls.push_back({delta.id, delta.text, ""});
    } else if (delta.kind == Kind::arguments) {
      EXPECT_EQ(delta.index + 1, static_cast<std::int32_t>(answer.calls.size()));
      answer.calls.back().arguments += delta.text;
    } else {
      (delta.kind == Kind::content ? answer.content : answer.reasoning) += delta.text;
    }
  }
  return answer;
}

std::string shown(const ParsedAnswer& answer) {
  std::string text = "reasoning '" + answer.reasoning + "', content '" + answer.content + "'";
  for (const ToolCall& call : answer.calls) {
    text += ", call " + call.name + "(" + call.arguments + ") id '" + call.id + "'";
  }
  return text;
}

void append(std::vector<AnswerDelta>& deltas, std::vector<AnswerDelta> more) {
  deltas.insert(deltas.end(), more.begin(), more.end());
}

TEST(ToolCalls, WholeAnswers) {
  for (const auto& [style, cases] : all_cases()) {
    for (const Case& each : cases) {
      EXPECT_EQ(shown(parse_answer(each.text, format_of(style))), shown(each.expected)) << name(style) << ": " << each.text;
    }
  }
}

TEST(ToolCalls, CutAtEveryByte) {
  for (const auto& [style, cases] : all_cases()) {
    for (const Case& each : cases) {
      for (std::size_t cut = 0; cut <= each.text.size(); ++cut) {
        AnswerParser parser(format_of(style));
        std::vector<AnswerDelta> deltas = parser.add(each.text.substr(0, cut));
        append(deltas, parser.add(each.text.substr(cut)));
        append(deltas, parser.finish());
        ASSERT_EQ(shown(joined(deltas)), shown(each.expected)) << name(style) << ", cut at " << cut << ": " << each.text;
      }
      AnswerParser parser(format_of(style));
      std::vector<AnswerDelta> deltas;
      for (const char c : each.text) {
        append(deltas, parser.add({&c, 1}));
      }
      append(deltas, parser.finish());
      ASSERT_EQ(shown(joined(deltas)), shown(each.expected)) << name(style) << ", byte by byte: " << each.text;
      ASSERT_EQ(parser.calls(), static_cast<std::int32_t>(each.expected.calls.size()));
    }
  }
}

/// Two calls as that style writes them, behind a text where it can have one.
std::string two_calls(Style style) {
  const std::string first = R"({"name": "add", "arguments": {"a": 1}})";
  const std::string second = R"({"name": "look_up", "arguments": {"b": "c"}})";
  switch (style) {
    case Style::generic:
      return "{\"tool_calls\": [" + first + ", " + second + "]}";
    case Style::hermes:
      return "Wait. <tool_call>\n" + first + "\n</tool_call>\n<tool_call>\n" + second + "\n</tool_call>";
    case Style::llama3:
      return "<|python_tag|>" + first + "; " + second;
    case Style::mistral:
      return "Wait. [TOOL_CALLS][" + first + ", " + second + "]";
    case Style::mistral_named:
      return "Wait. [TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]look_up[CALL_ID]x[ARGS]{\"b\": \"c\"}";
    case Style::granite:
      return "Wait. <|tool_call|>[" + first + ", " + second + "]";
  }
  return "";
}

constexpr Style every_style[] = {Style::generic, Style::hermes,        Style::llama3,
                                 Style::mistral, Style::mistral_named, Style::granite};

TEST(ToolCalls, ACutNeverShowsHalfACall) {
  for (const Style style : every_style) {
    const std::string text = two_calls(style);
    for (std::size_t size = 0; size <= text.size(); ++size) {
      const ParsedAnswer answer = parse_answer(text.substr(0, size), format_of(style), true);
      EXPECT_TRUE(std::string("Wait. ").starts_with(answer.content))
          << name(style) << ", " << text.substr(0, size) << ": " << answer.content;
    }
    EXPECT_EQ(parse_answer(text, format_of(style), true).calls.size(), 2u) << name(style);
  }
}

TEST(ToolCalls, ACutAnswerInJsonStaysOne) {
  for (const Style style : {Style::generic, Style::llama3}) {
    for (const char* text :
         {"{\"result\": [1, 2", "{\"name\": \"Bob\", \"ag", "{\"a\": {\"name\": \"add\", ", "x {\"name"}) {
      EXPECT_EQ(shown(parse_answer(text, format_of(style), true)), shown({"", text, {}})) << name(style);
    }
  }
}

TEST(ToolCalls, OfSeveralCallsWhereOneMayComeTheFirstCounts) {
  for (const Style style : every_style) {
    AnswerFormat format = format_of(style);
    format.single_call = true;
    const ParsedAnswer answer = parse_answer(two_calls(style), format);
    ASSERT_EQ(answer.calls.size(), 1u) << name(style);
    EXPECT_EQ(answer.calls[0].name, "add");
    EXPECT_TRUE(answer.content.empty() || answer.content == "Wait.") << answer.content;
  }
}

TEST(ToolCalls, KnowsWhetherACallIsWhole) {
  AnswerParser parser(format_of(Style::hermes));
  parser.add("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}");
  EXPECT_TRUE(parser.is_inside_call());
  parser.add("}</tool_call>");
  EXPECT_FALSE(parser.is_inside_call());
}

TEST(ToolCalls, WhatIsSureComesAtOnce) {
  AnswerParser parser(format_of(Style::hermes));
  EXPECT_EQ(parser.add("Let me"), (std::vector<AnswerDelta>{{Kind::content, "Let me", 0, ""}}));
  EXPECT_TRUE(parser.add(" ").empty());
  EXPECT_EQ(parser.add("see <tool"), (std::vector<AnswerDelta>{{Kind::content, " see", 0, ""}}));
  EXPECT_TRUE(parser.add("_call>{\"name\": \"ad").empty());
  EXPECT_EQ(parser.add("d\","), (std::vector<AnswerDelta>{{Kind::call, "add", 0, ""}}));
  EXPECT_EQ(parser.add(" \"arguments\": {\"a"), (std::vector<AnswerDelta>{{Kind::arguments, "{\"a", 0, ""}}));
  EXPECT_EQ(parser.add("\": 1}"), (std::vector<AnswerDelta>{{Kind::arguments, "\": 1}", 0, ""}}));
  EXPECT_TRUE(parser.add("}</tool_call>\n").empty());
  EXPECT_TRUE(parser.finish().empty());
}

TEST(ToolCalls, WithoutToolsNothingIsHeldBack) {
  AnswerFormat format;
  AnswerParser parser(format);
  EXPECT_EQ(parser.add("a <tool_call"), (std::vector<AnswerDelta>{{Kind::content, "a <tool_call", 0, ""}}));
  EXPECT_EQ(parser.add(" "), (std::vector<AnswerDelta>{{Kind::content, " ", 0, ""}}));
  format.splits_reasoning = false;
  EXPECT_EQ(parse_answer("<think>a</think>b", format), (ParsedAnswer{"", "<think>a</think>b", {}}));
}

TEST(ToolCalls, ReasoningThatThePromptBegan) {
  AnswerFormat format = format_of(Style::hermes);
  format.reasoning_is_open = true;
  EXPECT_EQ(parse_answer("\nHm.\n</think>\n\nYes", format), (ParsedAnswer{"Hm.", "Yes", {}}));
  EXPECT_EQ(parse_answer("Hm", format), (ParsedAnswer{"Hm", "", {}}));
}

TEST(ToolCalls, StyleByTemplate) {
  const std::pair<const char*, Style> known[] = {{"Qwen-Qwen3-0.6B", Style::hermes},
                                                 {"Qwen-Qwen2.5-7B-Instruct", Style::hermes},
                                                 {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", Style::hermes},
                                                 {"meta-llama-Llama-3.1-8B-Instruct", Style::llama3},
                                                 {"mistralai-Mistral-Nemo-Instruct-2407", Style::mistral},
                                                 {"microsoft-Phi-3.5-mini-instruct", Style::generic},
                                                 {"google-gemma-2-2b-it", Style::generic}};
  for (const auto& [file, style] : known) {
    EXPECT_EQ(name(detect_tool_call_style(chat_template_of(file))), name(style)) << file;
  }
}

TEST(ToolCalls, Ids) {
  std::set<std::string> ids;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::string id = tool_call_id(i * 0x9E3779B97F4A7C15ULL);
    EXPECT_EQ(id.size(), 9U);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000U);
}

TEST(ToolCalls, MarksThatAreControlTokensAreShown) {
  Vocabulary vocabulary = load_golden("gpt-2")->vocabulary();
  const std::vector<std::string> marks = {"<tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "</think>"};
  const auto first = static_cast<std::int32_t>(vocabulary.tokens.size());
  for (const std::string& mark : marks) {
    vocabulary.tokens.push_back(mark);
    vocabulary.types.push_back(TokenType::control);
  }
  const auto tokenizer = Tokenizer::create(std::move(vocabulary));
  for (std::size_t i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(tokenizer->token_bytes(first + static_cast<std::int32_t>(i)), marks[i]);
  }
}

}  // namespace
}  // namespace rocmforge::test
