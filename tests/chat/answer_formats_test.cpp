// Every format of the table with a model that writes it: whole, cut at every byte, in reasoning, twice, with text around it.
#include "tokenizer/answer_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chat/answer_parser.h"
#include "chat/chat_template.h"
#include "chat/tool_call_styles.h"
#include "chat/written_calls.h"

namespace rocmforge::test {
namespace {

using Style = ToolCallStyle;
using nlohmann::ordered_json;

constexpr std::string_view first_call = R"({"name": "add", "arguments": {"a": 1}})";
constexpr std::string_view second_call = R"({"name": "look_up", "arguments": {"b": "c"}})";

std::string text_of_calls(Style style, int count) {
  std::vector<std::string> calls(1, std::string(first_call));
  if (count == 2) {
    calls.emplace_back(second_call);
  }
  return written(style, calls);
}

AnswerFormat format_of(Style style) {
  AnswerFormat format;
  format.has_tools = true;
  format.style = style;
  format.tool_names = {"add", "look_up"};
  format.tools = std::make_shared<const ordered_json>(ordered_json::parse(R"([
      {"function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}},
      {"function": {"name": "look_up", "parameters": {"properties": {"b": {"type": "string"}}}}}])"));
  return format;
}

ParsedAnswer joined_bytes(std::string_view text, const AnswerFormat& format) {
  AnswerParser parser(format);
  ParsedAnswer answer;
  const auto take = [&](std::vector<AnswerDelta> deltas) {
    for (const AnswerDelta& delta : deltas) {
      if (delta.kind == AnswerDelta::Kind::call) {
        answer.calls.push_back({delta.id, delta.text, ""});
      } else if (delta.kind == AnswerDelta::Kind::arguments) {
        answer.calls.back().arguments += delta.text;
      } else {
        (delta.kind == AnswerDelta::Kind::content ? answer.content : answer.reasoning) += delta.text;
      }
    }
  };
  for (const char c : text) {
    take(parser.add({&c, 1}));
  }
  take(parser.finish());
  return answer;
}

/// Parses the text whole, in two pieces cut at every byte, and byte by byte, which must give the same.
ParsedAnswer parsed(const std::string& text, const AnswerFormat& format) {
  const ParsedAnswer whole = parse_answer(text, format);
  EXPECT_EQ(joined_bytes(text, format), whole) << text;
  return whole;
}

std::vector<std::string> names_of(const ParsedAnswer& answer) {
  std::vector<std::string> names;
  for (const ToolCall& call : answer.calls) {
    names.push_back(call.name);
    EXPECT_TRUE(ordered_json::accept(call.arguments)) << call.arguments;
  }
  return names;
}

class EachFormat : public testing::TestWithParam<Style> {};

TEST_P(EachFormat, IsReadOnceAndTwiceWithTextAround) {
  const AnswerFormat format = format_of(GetParam());
  const bool is_marked = tool_call_format(GetParam()).is_marked;
  for (const int count : {1, 2}) {
    const std::string calls = text_of_calls(GetParam(), count);
    const std::vector<std::string> names =
        count == 1 ? std::vector<std::string>{"add"} : std::vector<std::string>{"add", "look_up"};
    const ParsedAnswer alone = parsed(calls, format);
    EXPECT_EQ(names_of(alone), names) << calls;
    EXPECT_EQ(alone.content, "") << calls;
    const ParsedAnswer among = parsed((is_marked ? "Well.\n" : "") + calls + "\nDone.", format);
    EXPECT_EQ(names_of(among), names) << calls;
    EXPECT_EQ(among.content, is_marked ? "Well.Done." : "Done.") << calls;
  }
}

TEST_P(EachFormat, IsACallInReasoningThatIsNeverClosed) {
  AnswerFormat format = format_of(GetParam());
  const std::string calls = text_of_calls(GetParam(), 2);
  const ParsedAnswer begun = parsed("<think>I look.\n" + calls, format);
  EXPECT_EQ(names_of(begun), (std::vector<std::string>{"add", "look_up"})) << calls;
  EXPECT_EQ(begun.reasoning, "I look.");
  EXPECT_EQ(begun.content, "");
  format.reasoning_is_open = true;
  EXPECT_EQ(names_of(parsed("I look.\n" + calls + "\n", format)), (std::vector<std::string>{"add", "look_up"})) << calls;
}

TEST_P(EachFormat, IsReasoningWhereThisIsClosed) {
  const std::string calls = text_of_calls(GetParam(), 1);
  const ParsedAnswer mentioned = parsed("<think>I could write " + calls + " now.</think>\n\nNo.", format_of(GetParam()));
  EXPECT_EQ(mentioned.calls.size(), 0u) << calls;
  EXPECT_EQ(mentioned.reasoning, "I could write " + calls + " now.");
  EXPECT_EQ(mentioned.content, "No.");
  const ParsedAnswer both = parsed("<think>So: " + calls + "</think>\n" + calls, format_of(GetParam()));
  EXPECT_EQ(names_of(both), std::vector<std::string>{"add"}) << calls;
  EXPECT_EQ(both.reasoning, "So: " + calls);
}

TEST_P(EachFormat, IsNoCallInReasoningWhereItIsOnlyNamed) {
  const ToolCallFormat& format = tool_call_format(GetParam());
  const std::string text = "I begin with " + std::string(format.is_marked ? format.opening : format.bare) + ", then ?.";
  const ParsedAnswer answer = parsed("<think>" + text, format_of(GetParam()));
  EXPECT_EQ(answer.reasoning, text);
  EXPECT_EQ(answer.calls.size(), 0u);
  EXPECT_EQ(answer.content, "");
}

INSTANTIATE_TEST_SUITE_P(Styles, EachFormat, testing::ValuesIn(styles_with_several_calls), [](const auto& test) {
  std::string label(name(test.param));
  std::ranges::replace(label, '-', '_');
  return label;
});

TEST(AnswerFormats, ACallThatALimitCutsOffInReasoningIsNoCall) {
  const std::string text = "<think>I look.\n" + text_of_calls(Style::hermes, 1);
  EXPECT_EQ(parse_answer(text, format_of(Style::hermes), /*is_cut=*/true).calls.size(), 0u);
}

// Each mention is read once: many of them, and calls that never end, take time in proportion to the text.
TEST(AnswerFormats, ManyMentionsInReasoningTakeLinearTime) {
  std::string text = "<think>";
  for (int i = 0; i < 20'000; ++i) {
    text += R"(<tool_call>{"a":[)";
  }
  EXPECT_EQ(parse_answer(text, format_of(Style::hermes)).reasoning.size(), text.size() - 7);
}

TEST(AnswerFormats, AQwenCoderCallMayLackItsOpening) {
  for (const Style style : {Style::qwen_coder, Style::hermes, Style::seed}) {
    const ParsedAnswer answer = parsed("Well.\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
                                       format_of(style == Style::seed ? Style::qwen_coder : style));
    EXPECT_EQ(names_of(answer), std::vector<std::string>{"add"});
    EXPECT_EQ(answer.content, "Well.");
  }
  const ParsedAnswer unknown = parsed("Write <function=f> then </function>.", format_of(Style::qwen_coder));
  EXPECT_EQ(unknown.content, "Write <function=f> then </function>.");
  const std::string invoke = "<invoke name=\"add\">\n<parameter name=\"a\">1</parameter>\n</invoke>\n</minimax:tool_call>";
  EXPECT_EQ(names_of(parsed(invoke, format_of(Style::minimax_m2))), std::vector<std::string>{"add"});
}

TEST(AnswerFormats, ReasoningHasTheMarksOfItsModel) {
  const std::pair<const char*, const char*> marks[] = {{"[THINK]", "[/THINK]"},
                                                       {"<|START_THINKING|>", "<|END_THINKING|>"},
                                                       {"<|inner_prefix|>", "<|inner_suffix|>"},
                                                       {"<seed:think>", "</seed:think>"},
                                                       {"<think>", "</think>"}};
  for (const auto& [begin, end] : marks) {
    AnswerFormat format = format_of(Style::mistral_named);
    format.reasoning = reasoning_marks_of(std::string("{{ x }}") + begin);
    const ParsedAnswer answer =
        parsed(begin + std::string("Hm.") + end + "Yes.[TOOL_CALLS]add[CALL_ID]abcdef123[ARGS]{\"a\": 1}", format);
    EXPECT_EQ(answer.reasoning, "Hm.");
    EXPECT_EQ(answer.content, "Yes.");
    EXPECT_EQ(answer.calls, (std::vector<ToolCall>{{"abcdef123", "add", "{\"a\": 1}"}}));
  }
}

TEST(AnswerFormats, TheMarksAroundACommandModelsTextAreNotShown) {
  AnswerFormat format = format_of(Style::cohere);
  format.reasoning = reasoning_marks_of("<|START_THINKING|>");
  const std::string text = "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>";
  EXPECT_EQ(parsed(text, format), (ParsedAnswer{"Hm.", "Yes.", {}}));
  format.has_tools = false;
  EXPECT_EQ(parsed(text, format), (ParsedAnswer{"Hm.", "Yes.", {}}));
  EXPECT_EQ(parse_answer("<|START_RESPONSE|>Yes.<|END_RESP", format, true), (ParsedAnswer{"", "Yes.", {}}));
}

// The table decides which control tokens are text: none of a format's own is hidden or masked.
TEST(AnswerFormats, TheTokenizerShowsTheMarks) {
  const std::set<std::string_view> tokens(answer_mark_tokens().begin(), answer_mark_tokens().end());
  for (const char* mark : {"[TOOL_CALLS]",     "[ARGS]",           "[CALL_ID]",          "[THINK]",
                           "[/THINK]",         "<|START_ACTION|>", "<|END_ACTION|>",     "<|tools_prefix|>",
                           "<|tools_suffix|>", "<|inner_suffix|>", "<|START_RESPONSE|>", "<|tool_call_end|>",
                           "<|message|>",      "<|start|>",        "<|constrain|>",      "<|\"|>",
                           "</tool_call>",     "<arg_value>",      "<TOOLCALL>",         "<\uFF5Ctool\u2581sep\uFF5C>",
                           "\uFF5CDSML\uFF5C", "</think>"}) {
    EXPECT_TRUE(tokens.contains(mark)) << mark;
  }
  EXPECT_EQ(tokens.size(), answer_mark_tokens().size());
}

ChatRequest asked_with_tools() {
  ChatRequest request;
  request.messages = ordered_json::parse(R"([{"role": "user", "content": "Q"}, {"role": "assistant", "tool_calls": [
      {"id": "abcdef123", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "abcdef123", "content": "2"}, {"role": "user", "content": "R"}])");
  request.tools = ordered_json::parse(R"([{"type": "function", "function": {"name": "add", "description": "d",
      "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}])");
  return request;
}

// As DeepSeek V3.1's own template: it shows calls, but no list of tools.
TEST(AnswerFormats, ATemplateThatShowsOnlyCallsKeepsItsStyle) {
  const ChatTemplate shows_calls(
      "{% for m in messages %}{{ m.role ~ ':' ~ (m.content or '') }}{% for c in m.tool_calls or [] %}"
      "{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + c.function.name + '<｜tool▁sep｜>' + c.function.arguments + "
      "'<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}{% endfor %}{% endfor %}");
  EXPECT_EQ(name(detect_tool_call_style(shows_calls)), "deepseek");
  const std::string text = text_of(shows_calls.prompt(asked_with_tools()).segments);
  EXPECT_THAT(text, testing::HasSubstr("\"name\":\"add\""));
  EXPECT_THAT(text, testing::HasSubstr("<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{"));
  EXPECT_THAT(text, testing::HasSubstr("<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("tool_calls\"")));
}

// As LFM2.5's: a list of tools without marks, and no calls.
TEST(AnswerFormats, AListOfToolsWithoutMarksTellsTheStyle) {
  const ChatTemplate lists_tools(
      "<|im_start|>system\n{% if tools %}List of tools: {{ tools | tojson }}{% endif %}<|im_end|>\n"
      "{% for m in messages %}<|im_start|>{{ m.role ~ '\n' ~ m.content }}<|im_end|>\n{% endfor %}");
  EXPECT_EQ(name(detect_tool_call_style(lists_tools)), "lfm2");
  EXPECT_THAT(text_of(lists_tools.prompt(asked_with_tools()).segments),
              testing::HasSubstr("<|tool_call_start|>[add(a=1)]<|tool_call_end|>"));
}

// As SmolLM3's: its variable for tools has another name.
TEST(AnswerFormats, SmolsToolsHaveAnotherName) {
  const ChatTemplate smol(
      "{% if xml_tools %}<tools>{% for t in xml_tools %}{{ t | string }}{% endfor %}</tools> <tool_call>\n{% endif %}"
      "{% for m in messages %}{{ m.role ~ ':' ~ m.content }}{% endfor %}");
  EXPECT_EQ(name(detect_tool_call_style(smol)), "hermes");
  EXPECT_THAT(text_of(smol.prompt(asked_with_tools()).segments), testing::HasSubstr("'name': 'add'"));
}

// A model whose template has no place for tools may still write calls as it was trained to.
TEST(AnswerFormats, ACallInTagsIsOneInTheGenericStyleToo) {
  const ParsedAnswer answer =
      parsed("Well. <tool_call>\n" + std::string(first_call) + "\n</tool_call>", format_of(Style::generic));
  EXPECT_EQ(names_of(answer), std::vector<std::string>{"add"});
  EXPECT_EQ(answer.content, "Well.");
}

}  // namespace
}  // namespace rocmforge::test
