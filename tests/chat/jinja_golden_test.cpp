// Compares with the output of Python's jinja2 for the same templates; tools/chat_template_golden.py writes the files.

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "chat/chat_template_files.h"
#include "chat/jinja/json_text.h"
#include "chat/jinja/template.h"

namespace rocmforge::test {
namespace {

using nlohmann::ordered_json;

ordered_json read_json(const std::string& name) { return ordered_json::parse(read_chat_template_file(name)); }

/// 9 October 2025, 14:05:06.
std::tm golden_time() {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mon = 9;
  time.tm_mday = 9;
  time.tm_hour = 14;
  time.tm_min = 5;
  time.tm_sec = 6;
  time.tm_wday = 4;
  time.tm_yday = 281;
  return time;
}

std::string rendered(const jinja::Template& parsed, const ordered_json& variables) {
  const jinja::Value values = jinja::from_json(variables);
  return parsed.render(*values.mapping(), golden_time).bytes();
}

TEST(JinjaGolden, ExpressionsAndBlocks) {
  const ordered_json golden = read_json("expressions.json");
  const ordered_json& variables = golden.at("variables");
  ASSERT_GT(golden.at("snippets").size(), 700U);
  for (const ordered_json& snippet : golden.at("snippets")) {
    const std::string source = snippet[0];
    try {
      const std::string text = rendered(jinja::Template(source), variables);
      if (snippet[1].is_string()) {
        EXPECT_EQ(text, snippet[1].get<std::string>()) << source;
      } else {
        ADD_FAILURE() << source << "\nis no error but gives: " << text;
      }
    } catch (const jinja::TemplateError& error) {
      if (snippet[1].is_string()) {
        ADD_FAILURE() << source << "\nshould give " << snippet[1] << "\n" << error.what();
        continue;
      }
      EXPECT_EQ(error.position().line, snippet[1].at("line").get<int>()) << source << "\n" << error.what();
      EXPECT_EQ(error.raised(), snippet[1].contains("raised")) << source;
      if (error.raised()) {
        EXPECT_EQ(error.message(), snippet[1].at("raised").get<std::string>());
      }
    }
  }
}

class TemplateGolden : public testing::TestWithParam<std::string> {};

TEST_P(TemplateGolden, EveryConversation) {
  const ordered_json shared = read_json("conversations.json");
  const ordered_json golden = read_json(GetParam() + ".json");
  const jinja::Template parsed(read_chat_template_file(GetParam() + ".jinja"));
  ASSERT_GE(golden.size(), shared.at("conversations").size());
  for (const auto& [key, expected] : golden.items()) {
    const std::size_t dot = key.find('.');
    const ordered_json& conversation = shared.at("conversations").at(key.substr(0, dot));
    ordered_json variables = {{"messages", conversation.at("messages")}, {"tools", nullptr}, {"documents", nullptr}};
    variables.update(shared.at("tokens"));
    variables.update(shared.at("variants").at(dot == std::string::npos ? "" : key.substr(dot + 1)));
    if (conversation.contains("tools")) {
      variables["tools"] = conversation.at("tools");
    }
    if (conversation.contains("options")) {
      variables.update(conversation.at("options"));
    }
    try {
      const std::string text = rendered(parsed, variables);
      EXPECT_EQ(expected, ordered_json(text)) << key;
    } catch (const jinja::TemplateError& error) {
      ASSERT_TRUE(expected.is_object()) << key << ": " << error.what();
      EXPECT_EQ(error.raised(), expected.contains("raised")) << key << ": " << error.what();
      if (error.raised()) {
        EXPECT_EQ(error.message(), expected.at("raised").get<std::string>()) << key;
      }
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, TemplateGolden,
                         testing::Values("GLM-4.6", "HuggingFaceTB-SmolLM3-3B",
                                         "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "Qwen-Qwen2.5-7B-Instruct",
                                         "Qwen-Qwen3-0.6B", "deepseek-ai-DeepSeek-V3.1", "google-gemma-2-2b-it",
                                         "google-gemma-4-31B-it", "ibm-granite-granite-3.3-2B-Instruct",
                                         "meta-llama-Llama-3.1-8B-Instruct", "microsoft-Phi-3.5-mini-instruct",
                                         "mistralai-Mistral-Nemo-Instruct-2407", "openai-gpt-oss-120b"),
                         test_name);

}  // namespace
}  // namespace rocmforge::test
