// Runs the files of tests/server/requests: requests and what is expected of them. A file holds blocks:
//
//   # a comment
//   POST /v1/responses
//   {"input": "hi", "max_output_tokens": 0}
//   ---- 400 max_output_tokens
//
// The line after the body has the status and, of a refusal, the field that it names: its message begins with that name, and
// OpenAI's form of errors has it in `param`. A body may have several lines.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "paths.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

struct RequestBlock {
  int line = 0;  ///< of its file
  std::string path{}, body{}, field{};
  int status = 0;
};

std::vector<RequestBlock> read_blocks(const std::string& path) {
  std::ifstream file(path);
  std::vector<RequestBlock> blocks;
  bool is_open = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!is_open && (line.empty() || line.starts_with('#'))) {
      continue;
    }
    if (!is_open) {
      EXPECT_TRUE(line.starts_with("POST /")) << path << ":" << number << ": " << line;
      blocks.push_back({.line = number, .path = line.substr(5)});
      is_open = true;
    } else if (line.starts_with("---- ")) {
      blocks.back().status = std::stoi(line.substr(5));
      blocks.back().field = line.size() > 9 ? line.substr(9) : "";
      is_open = false;
    } else {
      blocks.back().body += line + "\n";
    }
  }
  EXPECT_FALSE(is_open) << path << ": the last block has no end";
  return blocks;
}

/// The message of an error in any API's form.
std::string message_of(const Json& answer) {
  const Json& error = answer.at("error");
  return error.is_string() ? error.get<std::string>() : error.at("message").get<std::string>();
}

class RequestFiles : public testing::TestWithParam<std::string> {};

TEST_P(RequestFiles, AreAnsweredAsTheySay) {
  const std::string file = test::test_data("server/requests/" + GetParam() + ".test");
  TestServerOptions options = options_that_show_all();
  options.server.chat_template =
      "{{ raise_exception('no') if messages[0].content == 'refuse' }}" + options.server.chat_template;
  const FakeServer server(options);
  const std::vector<RequestBlock> blocks = read_blocks(file);
  ASSERT_GT(blocks.size(), 10u) << file;
  for (const RequestBlock& block : blocks) {
    const HttpAnswer answer = post_text(server.port(), block.path, block.body);
    SCOPED_TRACE(file + ":" + std::to_string(block.line) + ": " + answer.body.substr(0, 300));
    ASSERT_EQ(answer.status, block.status);
    if (block.status < 400) {
      continue;
    }
    const Json refusal = answer.json();
    const bool is_template = message_of(refusal).starts_with("the chat template refuses");
    EXPECT_TRUE(is_template || message_of(refusal).starts_with(block.field)) << block.field;
    if (refusal["error"].is_object() && refusal["error"].contains("param")) {
      EXPECT_EQ(refusal["error"]["param"], block.field);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Refusals, RequestFiles,
                         testing::Values("chat_refusals", "responses_refusals", "anthropic_refusals", "ollama_refusals",
                                         "completion_refusals"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rocmforge
