#include "chat/tool_call_styles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/json.h"
#include "chat/answer_parser.h"
#include "chat/chat_template_files.h"

namespace rocmforge::test {
namespace {

using Style = ToolCallStyle;

TEST(ToolCallStyles, AreKnownByTheTemplate) {
  const std::pair<const char*, Style> known[] = {{"Qwen-Qwen3-0.6B", Style::hermes},
                                                 {"Qwen-Qwen2.5-7B-Instruct", Style::hermes},
                                                 {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", Style::hermes},
                                                 {"meta-llama-Llama-3.1-8B-Instruct", Style::llama3},
                                                 {"mistralai-Mistral-Nemo-Instruct-2407", Style::mistral},
                                                 {"GLM-4.6", Style::glm},
                                                 {"microsoft-Phi-3.5-mini-instruct", Style::generic},
                                                 {"google-gemma-2-2b-it", Style::generic}};
  for (const auto& [file, style] : known) {
    EXPECT_EQ(name(detect_tool_call_style(chat_template_of(file))), name(style)) << file;
  }
}

/// A template that contains `mark` and shows tools and calls.
ChatTemplate template_with(const std::string& mark) {
  return ChatTemplate(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role ~ (m.content or '') }}"
      "{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}{{ '' if true else '" +
      mark + "' }}");
}

TEST(ToolCallStyles, AreKnownByTheMarksOfTheTemplate) {
  const std::pair<const char*, Style> known[] = {{"<seed:tool_call>", Style::seed},
                                                 {"<|tool_calls_section_begin|>", Style::kimi},
                                                 {"<minimax:tool_call>", Style::minimax_m2},
                                                 {"<tool_calls>", Style::minimax_m1},
                                                 {"<TOOLCALL>", Style::nemotron},
                                                 {"<|tool_call_start|>", Style::lfm2},
                                                 {"<|tool_call>", Style::gemma4},
                                                 {"<tool_call><function=", Style::qwen_coder},
                                                 {"<tool_call><arg_key>", Style::glm},
                                                 {"<｜tool▁calls▁begin｜>", Style::deepseek},
                                                 {"<｜tool▁calls▁begin｜>```json", Style::deepseek_v3},
                                                 {"[TOOL_CALLS][ARGS]", Style::mistral_named}};
  for (const auto& [mark, style] : known) {
    EXPECT_EQ(name(detect_tool_call_style(template_with(mark))), name(style)) << mark;
  }
}

TEST(ToolCallStyles, ATemplateWithoutCallsShowsThemAsTheModelWritesThem) {
  const std::pair<const char*, const char*> written[] = {
      {"<|tool_list_start|>", "<|tool_call_start|>[add(a=1, b=[True,\"x\"])]<|tool_call_end|>"},
      {"<|im_system|>tool_declare",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
       "{\"a\":1,\"b\":[true,\"x\"]}<|tool_call_end|><|tool_calls_section_end|>"},
      {"<tool_calls>", "<tool_calls>\n{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":[true,\"x\"]}}\n</tool_calls>"}};
  for (const auto& [mark, text] : written) {
    const ChatTemplate shows_tools(
        "{% if tools %}" + std::string(mark) +
        "{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.role ~ m.content }}{% endfor %}");
    ChatRequest request;
    request.messages =
        nlohmann::ordered_json::parse(R"([{"role": "user", "content": "Q"}, {"role": "assistant", "tool_calls": [
        {"function": {"name": "add", "arguments": "{\"a\": 1, \"b\": [true, \"x\"]}"}}]}, {"role": "user", "content": "R"}])");
    request.tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "add", "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array"}}}}}])");
    EXPECT_THAT(text_of(shows_tools.prompt(request).segments), testing::HasSubstr(text)) << mark;
  }
}

TEST(ToolCalls, SeedMarksItsReasoningInItsOwnWay) {
  const ChatTemplate seed("{% for m in messages %}{{ m.content }}{% endfor %}{{ '<seed:think>' }}");
  ChatRequest request;
  request.messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "Q"}])");
  const ChatPrompt prompt = seed.prompt(request);
  EXPECT_TRUE(prompt.reasoning_is_open);
  EXPECT_EQ(prompt.reasoning.end, "</seed:think>");
  AnswerFormat format;
  format.reasoning_is_open = prompt.reasoning_is_open;
  format.reasoning = prompt.reasoning;
  EXPECT_EQ(parse_answer("Hm.</seed:think>\nYes", format), (ParsedAnswer{"Hm.", "Yes", {}}));
}

TEST(ToolCalls, Gemma4ThinksInAChannel) {
  const ChatTemplate gemma = chat_template_of("google-gemma-4-31B-it");
  EXPECT_EQ(name(detect_tool_call_style(gemma)), "gemma4");
  EXPECT_EQ(gemma.reasoning_marks().begin, "<|channel>thought");
  ChatRequest request;
  request.messages = nlohmann::ordered_json::parse(R"([{"role": "user", "content": "Q"}])");
  EXPECT_THAT(text_of(gemma.prompt(request).segments), testing::EndsWith("<|turn>model\n<|channel>thought\n<channel|>"));
  request.arguments = {{"enable_thinking", true}};
  const ChatPrompt prompt = gemma.prompt(request);
  EXPECT_THAT(text_of(prompt.segments), testing::EndsWith("<|turn>model\n"));
  EXPECT_FALSE(prompt.reasoning_is_open);
  AnswerFormat format;
  format.reasoning = prompt.reasoning;
  EXPECT_EQ(parse_answer("<|channel>thought\nHm.\n<channel|>Yes", format), (ParsedAnswer{"Hm.", "Yes", {}}));
}

}  // namespace
}  // namespace rocmforge::test
