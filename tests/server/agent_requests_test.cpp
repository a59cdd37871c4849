// The first requests of agents and chat programs, as they are sent (tests/golden/agent-requests): none is refused, whatever
// rules the model's chat template has.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paths.h"
#include "server/local_server.h"

namespace rocmforge {
namespace {

std::string text_of_file(const std::string& name) {
  std::ifstream stream(test::test_data("golden/" + name), std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

class AgentRequests : public testing::TestWithParam<const char*> {};

TEST_P(AgentRequests, AreNotRefused) {
  TestServerOptions options;
  options.server.chat_template = text_of_file(GetParam());
  options.context_length = 16384;
  options.engine.kv_tokens = 32768;
  options.engine.max_batch_tokens = 1024;
  ASSERT_FALSE(options.server.chat_template.empty());
  const LocalServer server(options);
  for (const char* client : {"claude-code", "codex", "open-webui", "continue", "sillytavern", "aider"}) {
    const Json file = Json::parse(text_of_file(std::string("agent-requests/") + client + ".json"));
    ASSERT_EQ(file["requests"].size(), 10u) << client;
    int number = 0;
    for (const Json& request : file["requests"]) {
      const std::string path = request["path"];
      if (request["method"] == "GET") {
        EXPECT_EQ(get(server, path).status, 200) << client << " " << path;
      } else {
        Json body = request["body"];
        for (const char* limit : {"max_tokens", "max_output_tokens", "max_completion_tokens", "n_predict"}) {
          if (body.contains(limit)) {
            body[limit] = 2;  // the fake model is slow in long answers
          }
        }
        if (path == "/v1/responses") {
          body["max_output_tokens"] = 2;
        } else if (path.find("/chat/") != std::string::npos) {
          body["max_tokens"] = 2;
          body.erase("max_completion_tokens");
        }
        const HttpAnswer answer = post(server, path, body);
        EXPECT_EQ(answer.status, 200) << client << " " << number << ": " << answer.body.substr(0, 500);
        EXPECT_EQ(answer.body.find("\"error\":{"), std::string::npos) << client << " " << number << answer.body;
      }
      ++number;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, AgentRequests,
                         testing::Values("chat-templates/more/Qwen3.5-4B.jinja", "chat-templates/Qwen-Qwen3-0.6B.jinja",
                                         "chat-templates/more/Mistral-Small-3.2-24B-Instruct-2506.jinja",
                                         "chat-templates/openai-gpt-oss-120b.jinja"),
                         [](const auto& test) {
                           std::string name = std::filesystem::path(test.param).stem();
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace rocmforge
