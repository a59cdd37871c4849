// Answers of models that write messages in channels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "chat/answer_parser.h"
#include "chat/chat_template_files.h"

namespace rocmforge::test {
namespace {

AnswerFormat harmony() {
  AnswerFormat format;
  format.in_channels = format.header_is_open = true;
  format.reasoning = {"<|channel|>analysis<|message|>", "<|channel|>final<|message|>"};
  format.has_tools = true;
  format.style = ToolCallStyle::harmony;
  format.tool_names = {"add", "look_up"};
  return format;
}

TEST(Harmony, WhatTheFormatSays) {
  const std::string call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 1}";
  AnswerFormat format = harmony();
  format.single_call = true;
  EXPECT_EQ(parse_answer(call + "<|call|><|start|>assistant" + call, format),
            (ParsedAnswer{"", "", {{"", "add", "{\"a\": 1}"}}}));
  format.has_tools = false;
  EXPECT_EQ(parse_answer(call, format), (ParsedAnswer{"", call, {}}));
  format.splits_reasoning = false;
  const std::string thought = "<|channel|>analysis<|message|>a";
  EXPECT_EQ(parse_answer(thought + "<|start|>assistant<|channel|>final<|message|>b", format),
            (ParsedAnswer{"", thought + "\n\nb", {}}));
  AnswerFormat continued = harmony();
  continued.header_is_open = false;
  EXPECT_EQ(parse_answer("to=x <|end|>", continued), (ParsedAnswer{"", "to=x ", {}}));
  continued.reasoning_is_open = true;
  EXPECT_EQ(parse_answer("on<|start|>assistant<|channel|>final<|message|>b", continued), (ParsedAnswer{"on", "b", {}}));
}

TEST(Harmony, KnowsWhetherACallIsWhole) {
  const std::string begin = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": ";
  for (const bool is_cut : {false, true}) {
    AnswerParser parser(harmony());
    parser.add(begin + "1");
    EXPECT_TRUE(parser.is_inside_call());
    parser.finish(is_cut);
    EXPECT_TRUE(parser.is_inside_call());
    AnswerParser whole(harmony());
    whole.add(begin + "1}");
    EXPECT_FALSE(whole.is_inside_call());
    EXPECT_EQ(whole.finish(is_cut), std::vector<AnswerDelta>());
  }
  // An incomplete mark or header is not part of the text.
  EXPECT_EQ(parse_answer("<|channel|>final<|message|>a <|en", harmony(), true), (ParsedAnswer{"", "a ", {}}));
  EXPECT_EQ(parse_answer("<|channel|>comm", harmony(), true), (ParsedAnswer{"", "", {}}));
}

/// Each mark is examined once: a text of only marks takes no longer than another text.
TEST(Harmony, AHeaderThatNeverEndsIsText) {
  const std::string long_header = "<|channel|>" + std::string(2000, 'x');
  EXPECT_EQ(parse_answer(long_header, harmony()), (ParsedAnswer{"", long_header, {}}));
  std::string marks;
  for (int i = 0; i < 20000; ++i) {
    marks += "<|start|>";
  }
  EXPECT_FALSE(parse_answer(marks, harmony()).content.empty());
}

TEST(Harmony, OfTheTemplateOfGptOss) {
  const ChatTemplate gpt_oss = chat_template_of("openai-gpt-oss-120b");
  EXPECT_EQ(detect_tool_call_style(gpt_oss), ToolCallStyle::harmony);
  ChatRequest request;
  request.messages = {{{"role", "user"}, {"content", "Hi"}}};
  ChatPrompt prompt = gpt_oss.prompt(request);
  EXPECT_TRUE(prompt.in_channels && prompt.header_is_open && !prompt.reasoning_is_open);
  EXPECT_EQ(prompt.reasoning.end, "<|channel|>final<|message|>");
  request.messages.push_back({{"role", "assistant"}, {"content", "Hello, "}});
  prompt = gpt_oss.prompt(request);
  EXPECT_TRUE(prompt.in_channels && !prompt.header_is_open && !prompt.reasoning_is_open);
  EXPECT_THAT(text_of(prompt.segments), testing::EndsWith("<|start|>assistant<|channel|>final<|message|>Hello, "));
  EXPECT_FALSE(chat_template_of("Qwen-Qwen3-0.6B").prompt(request).in_channels);
}

}  // namespace
}  // namespace rocmforge::test
