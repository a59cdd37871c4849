#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "apps/program.h"

namespace rocmforge {
namespace {

using nlohmann::json;

/// A tool whose arguments can only be {"city": "Rome"}.
constexpr const char* weather_tool = R"([{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome"]}}, "required": ["city"], "additionalProperties": false}}}])";
const std::string weather_call = R"(get_weather({"city": "Rome"}))";

/// Tools of `run` and `chat`. The demo model calls what it must call.
class ProgramTools : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_demo_model()) {
      GTEST_SKIP() << demo_model() << " is absent";
    }
  }

  /// Runs a command with the tool, which must succeed.
  ProgramResult run(std::vector<std::string> arguments, const std::string& input = "") const {
    const std::string file = folder_.write("t.json", weather_tool);
    arguments.insert(arguments.end(), {"--greedy", "--tools-file", file, "--tool-choice", "get_weather"});
    ProgramResult result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  TemporaryFolder folder_;
};

TEST_F(ProgramTools, RunShowsCalls) {
  EXPECT_EQ(run({"run", "-p", "Weather?"}).out, weather_call + "\n");
  const json answer = json::parse(run({"run", "-p", "Weather?", "--json"}).out);
  EXPECT_EQ(answer.at("content"), "");
  ASSERT_EQ(answer.at("tool_calls").size(), 1U);
  EXPECT_EQ(answer.at("tool_calls")[0].at("function"),
            (json{{"name", "get_weather"}, {"arguments", R"({"city": "Rome"})"}}));
}

TEST_F(ProgramTools, ChatGoesOnWithTheResultsOfCalls) {
  const std::vector<std::string> lines = lines_of(run({"chat"}, "Weather?\n21 degrees\nAnd now?\n/22 degrees\n").out);
  ASSERT_EQ(lines.size(), 4U);
  const std::string answer = "I am only a small demo model";
  EXPECT_EQ(lines[0], weather_call);
  EXPECT_TRUE(lines[1].starts_with(answer)) << "after a result no call is required: " << lines[1];
  EXPECT_EQ(lines[2], weather_call);
  EXPECT_TRUE(lines[3].starts_with(answer)) << "a result is no command: " << lines[3];
}

TEST_F(ProgramTools, ChatDropsCallsWithoutResults) {
  const ProgramResult dropped = run({"chat"}, "Weather?\n");
  EXPECT_EQ(dropped.out, weather_call + "\n");
  EXPECT_EQ(dropped.err, "(the calls were dropped, and the message before them)\n");
}

TEST_F(ProgramTools, ChatWritesCallsAsJson) {
  std::vector<json> answers;
  for (const std::string& line : lines_of(run({"chat", "--json"}, "Weather?\n21 degrees\nAnd now?\n").out)) {
    answers.push_back(json::parse(line));
  }
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_FALSE(answers[1].contains("tool_calls"));
  EXPECT_GT(answers[1].at("prompt_tokens"), answers[0].at("prompt_tokens")) << "the result is part of the prompt";
  EXPECT_NE(answers[0].at("tool_calls")[0].at("id"), answers[2].at("tool_calls")[0].at("id"));
}

TEST_F(ProgramTools, FilesThatHoldNoToolAreRefused) {
  const auto refusal = [&](const std::string& text, const std::string& choice) {
    const ProgramResult result =
        run_program({"run", "-p", "Hi", "--tools-file", folder_.write("t.json", text), "--tool-choice", choice});
    EXPECT_EQ(result.exit_code, 2) << text;
    return result.err.substr(std::min(result.err.find("t.json"), result.err.size()));
  };
  EXPECT_EQ(refusal("{}", "auto"), "t.json: tools is an object, must be an array\n");
  EXPECT_EQ(refusal("[]", "auto"), "t.json: there is no tool in it\n");
  EXPECT_EQ(refusal(R"([{"type": "function"}])", "auto"), "t.json: tools[0].function is missing\n");
  EXPECT_EQ(refusal(R"([{"type": "web_search"}])", "auto"),
            "t.json: tools[0].web_search is neither a function nor a custom tool\n");
  EXPECT_EQ(refusal(weather_tool, "other"), "t.json has no tool 'other'\n");
  EXPECT_EQ(run_program({"run", "-p", "Hi", "--tool-choice", "none"}).err, "rocmforge: --tool-choice needs --tools-file\n");
}

}  // namespace
}  // namespace rocmforge
