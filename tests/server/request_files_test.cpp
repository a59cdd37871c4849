// Runs the files of tests/server/requests, whose form request_file.h says: on the routes of this process, and the answers
// over a port too.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "paths.h"
#include "server/local_server.h"
#include "server/other_api.h"
#include "server/request_file.h"

namespace rocmforge {
namespace {

using Ask = std::function<HttpAnswer(const RequestBlock&, const std::string& body)>;

std::vector<RequestSection> sections_of(const std::string& name) {
  return read_request_file(test::test_data("server/requests/" + name + ".test"));
}

/// An answer in the form of a file of requests.
std::string shown(const std::vector<Json>& events) {
  std::string text;
  for (const Json& event : events) {
    text += (event == "[DONE]" ? "[DONE]" : event.dump()) + "\n";
  }
  return text;
}

void expect_refusal(const ExpectedAnswer& expected, const HttpAnswer& answer) {
  EXPECT_EQ(wrong_refusal(answer.json(), expected.field), "");
}

void expect_stream(const ExpectedAnswer& expected, const HttpAnswer& answer) {
  const std::vector<Json> events = stream_events(answer.body);
  EXPECT_EQ(difference(expected.events, events), "") << shown(events);
}

void expect_answer(const ExpectedAnswer& expected, const HttpAnswer& answer) {
  SCOPED_TRACE("line " + std::to_string(expected.line) + ": " + answer.body.substr(0, 300));
  ASSERT_EQ(answer.status, expected.status);
  for (const auto& [name, value] : expected.headers) {
    const auto found = answer.headers.find(name);
    EXPECT_EQ(found == answer.headers.end() ? "" : found->second, value) << name;
  }
  if (!expected.field.empty()) {
    expect_refusal(expected, answer);
  } else if (expected.is_stream) {
    expect_stream(expected, answer);
  } else if (!expected.events.empty()) {
    const Json body = answer.json();
    EXPECT_EQ(difference(expected.events.front(), body), "") << shown(std::vector<Json>{body});
  }
}

void expect_answers(const RequestSection& section, const Ask& ask) {
  for (const RequestBlock& block : section.blocks) {
    for (const ExpectedAnswer& expected : block.expected) {
      std::string body = block.body;
      if (expected.is_stream) {
        Json request = Json::parse(body);
        request["stream"] = true;
        body = request.dump();
      }
      expect_answer(expected, ask(block, body));
    }
  }
}

TestServerOptions options_of(const RequestSection& section) {
  TestServerOptions options = options_that_show_all();
  if (!section.chat_template.empty()) {
    options.server.chat_template = section.chat_template;
  }
  options.encoder = {.is_encoder = section.is_encoder, .labels = section.is_reranker ? 1 : 0};
  return options;
}

FakeModel::Script script_of(const RequestSection& section) {
  return section.script ? say(*section.script, {}, section.mark) : FakeModel::Script();
}

class RequestFiles : public testing::TestWithParam<std::string> {};

TEST_P(RequestFiles, AreAnsweredAsTheySay) {
  SCOPED_TRACE(GetParam());
  for (const RequestSection& section : sections_of(GetParam())) {
    const LocalServer server(options_of(section), script_of(section));
    expect_answers(section, [&](const RequestBlock& block, const std::string& body) {
      return server.request(block.method, block.path, body);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Refusals, RequestFiles,
                         testing::Values("chat_refusals", "responses_refusals", "anthropic_refusals", "ollama_refusals",
                                         "completion_refusals", "encoder_refusals"),
                         [](const auto& test) { return test.param; });
const auto files_of_answers = testing::Values("anthropic_answers", "chat_answers", "completion_answers", "contradictions",
                                              "encoder_answers", "llama_server_answers", "ollama_answers", "prompts",
                                              "responses_answers", "tool_call_answers", "tools_with_a_format");
INSTANTIATE_TEST_SUITE_P(Answers, RequestFiles, files_of_answers, [](const auto& test) { return test.param; });

class RequestFilesOverAPort : public testing::TestWithParam<std::string> {};

TEST_P(RequestFilesOverAPort, AreAnsweredAsTheySay) {
  SCOPED_TRACE(GetParam());
  for (const RequestSection& section : sections_of(GetParam())) {
    const FakeServer server(options_of(section), script_of(section));
    expect_answers(section, [&](const RequestBlock& block, const std::string& body) {
      Connection connection(server.port());
      connection.send(request_text(block.method, block.path, body));
      return connection.read_answer();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Answers, RequestFilesOverAPort, files_of_answers, [](const auto& test) { return test.param; });

}  // namespace
}  // namespace rocmforge
