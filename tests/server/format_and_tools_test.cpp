// Tools together with a format of the answer, in all four APIs: a call, or a text of that format.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/other_api.h"

namespace rocmforge {
namespace {

const Json schema = {
    {"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};
const Json function = {{"name", "add"}, {"description", "Adds."}, {"parameters", schema}};
const Json wrapped = {{"type", "function"}, {"function", function}};
const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 2}}\n</tool_call>";
const std::string text = R"({"a": 1})";

/// What came of a request: a text, or the call's name and arguments.
struct Outcome {
  int status = 0;
  std::string text, name;
  Json arguments;
};

struct Api {
  const char* name;
  HttpAnswer (*ask)(std::uint16_t port);
  Outcome (*read)(const Json& answer);
};

Outcome of_chat(const Json& answer) {
  const Json& message = answer["choices"][0]["message"];
  if (!message.contains("tool_calls")) {
    return {200, message["content"], "", {}};
  }
  const Json& made = message["tool_calls"][0]["function"];
  return {200, "", made["name"], Json::parse(made["arguments"].get<std::string>())};
}
HttpAnswer ask_chat(std::uint16_t port) {
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  return post(port, "/v1/chat/completions", {{"messages", {user("q")}}, {"tools", {wrapped}}, {"response_format", format}});
}
/// As llama-server documents it: the schema is beside the type.
HttpAnswer ask_chat_with_schema_beside(std::uint16_t port) {
  const Json format = {{"type", "json_schema"}, {"schema", schema}};
  return post(port, "/v1/chat/completions", {{"messages", {user("q")}}, {"tools", {wrapped}}, {"response_format", format}});
}

Outcome of_response(const Json& answer) {
  const Json& item = answer["output"][0];
  if (item["type"] == "message") {
    return {200, item["content"][0]["text"], "", {}};
  }
  return {200, "", item["name"], Json::parse(item["arguments"].get<std::string>())};
}
HttpAnswer ask_responses(std::uint16_t port) {
  Json tool = function;
  tool["type"] = "function";
  const Json format = {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}};
  return post(port, "/v1/responses", {{"input", "q"}, {"tools", {tool}}, {"text", {{"format", format}}}});
}

Outcome of_anthropic(const Json& answer) {
  const Json& block = answer["content"][0];
  if (block["type"] == "text") {
    return {200, block["text"], "", {}};
  }
  return {200, "", block["name"], block["input"]};
}
HttpAnswer ask_anthropic(std::uint16_t port) {
  const Json tool = {{"name", "add"}, {"description", "Adds."}, {"input_schema", schema}};
  const Json format = {{"type", "json_schema"}, {"schema", schema}};
  return post(port, "/v1/messages",
              {{"max_tokens", 100}, {"messages", {user("q")}}, {"tools", {tool}}, {"output_config", {{"format", format}}}});
}

Outcome of_ollama(const Json& answer) {
  const Json& message = answer["message"];
  if (!message.contains("tool_calls")) {
    return {200, message["content"], "", {}};
  }
  const Json& made = message["tool_calls"][0]["function"];
  return {200, "", made["name"], made["arguments"]};
}
HttpAnswer ask_ollama(std::uint16_t port) {
  return post(port, "/api/chat", {{"stream", false}, {"messages", {user("q")}}, {"tools", {wrapped}}, {"format", schema}});
}

constexpr Api apis[] = {{"chat", ask_chat, of_chat},
                        {"chat, the schema beside the type", ask_chat_with_schema_beside, of_chat},
                        {"responses", ask_responses, of_response},
                        {"anthropic", ask_anthropic, of_anthropic},
                        {"ollama", ask_ollama, of_ollama}};

TEST(ToolsWithAFormat, GiveACallOrAnAnswerOfTheSchema) {
  const FakeServer calling(options_that_show_all(), say(call, {}, '|'));
  const FakeServer answering(options_that_show_all(), say(text, {}, '|'));
  for (const Api& api : apis) {
    SCOPED_TRACE(api.name);
    const HttpAnswer called = api.ask(calling.port());
    ASSERT_EQ(called.status, 200) << called.body;
    const Outcome made = api.read(called.json());
    EXPECT_EQ(made.name, "add") << called.body;
    EXPECT_EQ(made.arguments, Json({{"a", 2}})) << called.body;
    const HttpAnswer answered = api.ask(answering.port());
    ASSERT_EQ(answered.status, 200) << answered.body;
    EXPECT_EQ(api.read(answered.json()).text, text) << answered.body;
  }
}

/// The model wants to write something that is neither: no token of it is allowed.
TEST(ToolsWithAFormat, AllowNothingElse) {
  for (const char* neither : {"Hello.", R"({"a": 3})", "<tool_call>\n{\"name\": \"sub\"",
                              "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 7"}) {
    const FakeServer server(options_that_show_all(), say(neither, {}, '|'));
    for (const Api& api : apis) {
      const HttpAnswer answer = api.ask(server.port());
      EXPECT_EQ(answer.status, 500) << api.name << ": " << answer.body;
      EXPECT_NE(answer.body.find("all are forbidden"), std::string::npos) << answer.body;
    }
  }
}

// The call's opening ends the prompt.
TEST(ToolsWithAFormat, ARequiredCallLeavesTheFormatAside) {
  const FakeServer server(options_that_show_all(), say(call, {}, '|'));
  const HttpAnswer answer = post(server.port(), "/v1/chat/completions",
                                 {{"messages", {user("q")}},
                                  {"tools", {wrapped}},
                                  {"tool_choice", "required"},
                                  {"response_format", {{"type", "json_object"}}}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(of_chat(answer.json()).name, "add") << answer.body;
}

TEST(Refusals, OfTheHistoryAreRead) {
  const FakeServer server(options_that_show_all(), say("hi", {}, '|'));
  const Json part = {{"type", "refusal"}, {"refusal", "I won't."}};
  for (const Json& message : {Json{{"role", "assistant"}, {"content", Json::array({part})}},
                              Json{{"role", "assistant"}, {"content", nullptr}, {"refusal", "I won't."}}}) {
    const Json request = {{"messages", {user("q"), message, user("why?")}}};
    const HttpAnswer rendered = post(server.port(), "/apply-template", request);
    ASSERT_EQ(rendered.status, 200) << rendered.body;
    EXPECT_NE(rendered.json()["prompt"].get<std::string>().find("I won't."), std::string::npos) << rendered.body;
  }
  const Json item = {{"type", "message"}, {"role", "assistant"}, {"content", Json::array({part})}};
  const Json input = {{{"role", "user"}, {"content", "q"}}, item, {{"role", "user"}, {"content", "why?"}}};
  EXPECT_EQ(post(server.port(), "/v1/responses", {{"input", input}}).status, 200);
}

}  // namespace
}  // namespace rocmforge
