// What the templates of models make of a call is what those models write: the parser that the table of marks chooses for a
// template reads the call from its prompt.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/json_document.h"
#include "chat/answer_parser.h"
#include "chat/chat_template_files.h"
#include "chat/message_json.h"
#include "chat/tool_call_styles.h"

namespace rocmforge::test {
namespace {

using nlohmann::ordered_json;
using Style = ToolCallStyle;

struct Official {
  const char* file;
  Style style;
};

constexpr Official official_templates[] = {
    {"Qwen-Qwen3-0.6B", Style::hermes},
    {"mistralai-Mistral-Nemo-Instruct-2407", Style::mistral},
    {"more/Mistral-Small-3.2-24B-Instruct-2506", Style::mistral_named},
    {"more/mistralai-Ministral-3-14B-Reasoning-2512", Style::mistral_named},
    {"ibm-granite-granite-3.3-2B-Instruct", Style::granite},
    {"more/ibm-granite-granite-4.0", Style::hermes},
    {"more/Kimi-K2-Instruct", Style::kimi},
    {"more/Kimi-K2-Thinking", Style::kimi},
    {"more/Qwen3-Coder", Style::qwen_coder},
    {"more/Qwen3.5-4B", Style::qwen_coder},
    {"more/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", Style::qwen_coder},
    {"more/ByteDance-Seed-OSS", Style::seed},
    {"more/MiniMax-M1", Style::minimax_m1},
    {"more/MiniMax-M2", Style::minimax_m2},
    {"more/LFM2-8B-A1B", Style::lfm2},
    {"more/LFM2.5-Instruct", Style::lfm2},
    {"more/NVIDIA-Nemotron-Nano-v2", Style::nemotron},
    {"GLM-4.6", Style::glm},
    {"more/GLM-4.7-Flash", Style::glm},
    {"deepseek-ai-DeepSeek-V3.1", Style::deepseek},
    {"more/deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", Style::deepseek_v3},
    {"more/deepseek-ai-DeepSeek-V3.2", Style::deepseek_dsml},
    {"google-gemma-4-31B-it", Style::gemma4},
    {"openai-gpt-oss-120b", Style::harmony},
    {"more/CohereForAI-c4ai-command-r7b-12-2024-tool_use", Style::cohere},
    {"more/Apertus-8B-Instruct", Style::apertus},
};

const ordered_json parameters = {
    {"type", "object"},
    {"properties",
     {{"word", {{"type", "string"}, {"description", "A word."}}}, {"count", {{"type", "integer"}, {"description", "n"}}}}},
    {"required", {"word"}}};
const ordered_json tools = ordered_json::array(
    {wrapped_function({{"name", "look_up"}, {"description", "Looks up a word."}, {"parameters", parameters}})});
const ordered_json arguments = {{"word", "ä \"b\""}, {"count", 3}};
constexpr std::string_view question = "What does it mean?", result = "a letter and a letter", thanks = "Thank you.";

std::string conversation_of(const ChatTemplate& chat_template) {
  ordered_json calling = plain_message("assistant", "");
  calling["tool_calls"] = ordered_json::array({call_message("callaaaa1", "look_up", json_text(arguments))});
  ChatRequest request;
  request.messages = {plain_message("user", question),
                      calling,
                      {{"role", "tool"}, {"tool_call_id", "callaaaa1"}, {"name", "look_up"}, {"content", result}},
                      plain_message("assistant", "Two letters."),
                      plain_message("user", thanks)};
  request.tools = tools;
  return text_of(chat_template.prompt(request).segments);
}

class OfficialTemplates : public testing::TestWithParam<Official> {};

TEST_P(OfficialTemplates, ShowACallAsTheirModelWritesIt) {
  const ChatTemplate chat_template = chat_template_of(GetParam().file);
  ASSERT_EQ(name(detect_tool_call_style(chat_template)), name(GetParam().style));
  const std::string prompt = conversation_of(chat_template);
  const std::size_t asked = prompt.find(question);
  const std::size_t answered = prompt.find(result);
  ASSERT_NE(asked, std::string::npos) << prompt;
  ASSERT_NE(answered, std::string::npos) << prompt;
  EXPECT_LT(asked, answered);
  EXPECT_LT(answered, prompt.find(thanks)) << prompt;

  // The answer's own text: from the first mark of the style to the result.
  const std::string between = prompt.substr(asked + question.size(), answered - asked - question.size());
  AnswerFormat format;
  format.style = GetParam().style;
  format.has_tools = true;
  format.single_call = true;
  format.in_channels = GetParam().style == Style::harmony;
  format.reasoning = chat_template.reasoning_marks();
  format.tool_names = {"look_up"};
  format.tools = std::make_shared<const ordered_json>(tools);
  const std::string_view mark = format.in_channels ? "<|start|>" : tool_call_format(format.style).opening;
  const std::size_t begin = between.find(mark);
  ASSERT_NE(begin, std::string::npos) << between;
  const ParsedAnswer answer = parse_answer(between.substr(begin), format);
  ASSERT_EQ(answer.calls.size(), 1u) << between;
  EXPECT_EQ(answer.calls[0].name, "look_up");
  EXPECT_EQ(nlohmann::json::parse(answer.calls[0].arguments), nlohmann::json(arguments)) << between;
}

INSTANTIATE_TEST_SUITE_P(All, OfficialTemplates, testing::ValuesIn(official_templates), [](const auto& test) {
  std::string file = test.param.file;
  std::erase_if(file, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return file;
});

}  // namespace
}  // namespace rocmforge::test
