// Ollama's API: the conversion of requests for the template, and the format of answers and streams.
#include <gtest/gtest.h>

#include "server/api/ollama/ollama_request.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

std::vector<Json> lines_of(const LocalServer& server, const char* path, const Json& request) {
  const HttpAnswer answer = post(server, path, request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "application/x-ndjson");
  std::vector<Json> lines;
  for (std::size_t at = 0; at < answer.body.size();) {
    const std::size_t end = answer.body.find('\n', at);
    lines.push_back(Json::parse(answer.body.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

Conversation chat_of(const Json& body) {
  Fields fields(body);
  FreeReading reading;
  return read_ollama_chat(fields, reading);
}
OllamaText text_of_request(const Json& body) {
  Fields fields(body);
  FreeReading reading;
  return read_ollama_text(fields, reading);
}
Request options_of(const Json& body, std::vector<std::string>& unknown) {
  Fields fields(body);
  Request request;
  read_ollama_options(fields, request);
  unknown = fields.unknown().names;
  return request;
}

TEST(OllamaRequest, BecomesAConversation) {
  const Json call = {{"function", {{"name", "add"}, {"arguments", {{"a", 1}}}}}};
  const Json body = {{"model", "m"},
                     {"messages",
                      {user("hello"),
                       {{"role", "assistant"}, {"content", ""}, {"thinking", "hm"}, {"tool_calls", {call, call}}},
                       {{"role", "tool"}, {"tool_name", "add"}, {"content", "2"}},
                       {{"role", "tool"}, {"tool_name", "add"}, {"content", "3"}}}},
                     {"options", {{"num_predict", 5}, {"temperature", 0.5}, {"num_ctx", 4096}, {"stop", {"x"}}}},
                     {"format", {{"type", "object"}}},
                     {"think", "low"},
                     {"keep_alive", "5m"}};
  const Conversation read = chat_of(body);
  const Json messages = read.request().messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], R"({"a":1})");
  EXPECT_EQ(messages[2]["tool_call_id"], messages[1]["tool_calls"][0]["id"]);
  EXPECT_EQ(messages[3]["tool_call_id"], messages[1]["tool_calls"][1]["id"]);
  ASSERT_TRUE(read.format.has_value());
  EXPECT_EQ(*read.format->schema, Json({{"type", "object"}}));
  EXPECT_EQ(read.format->field, "format");
  EXPECT_EQ(read.reasoning.is_on, true);
  EXPECT_EQ(read.reasoning.effort, "low");
  std::vector<std::string> unknown;
  const Request request = options_of(body, unknown);
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(unknown, std::vector<std::string>{"options.num_ctx"}) << "is named among what is ignored";
  const Conversation json = chat_of({{"messages", {user("q")}}, {"format", "json"}});
  ASSERT_TRUE(json.format.has_value());
  EXPECT_EQ(json.format->schema, nullptr);
}

TEST(OllamaRequest, NoLimitOfTokensIsAnyNumberBelowOne) {
  for (const Json& most : {Json(0), Json(-1), Json(-2), Json(0.0)}) {
    std::vector<std::string> unknown;
    EXPECT_EQ(options_of({{"options", {{"num_predict", most}}}}, unknown).max_tokens, -1) << most;
  }
}

TEST(OllamaRequest, APromptBecomesAQuestionOrStaysOne) {
  const OllamaText asked = text_of_request({{"prompt", "q"}, {"system", "S"}, {"stream", false}});
  EXPECT_EQ(asked.conversation.request().messages,
            Json({{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "q"}}}));
  EXPECT_FALSE(asked.is_raw);
  const OllamaText raw = text_of_request({{"prompt", "q"}, {"raw", true}});
  EXPECT_EQ(raw.prompt, "q");
  EXPECT_TRUE(raw.is_raw);
  EXPECT_TRUE(raw.conversation.messages.empty());
}

TEST(Ollama, LogProbabilitiesComeWithTheirText) {
  const LocalServer server(options_that_show_all(), say("well then", {}, '|'));
  const auto text_of = [](const Json& tokens) {
    std::string text;
    for (const Json& token : tokens) {
      text += token["token"].get<std::string>();
      EXPECT_LE(token["logprob"], 0);
      EXPECT_EQ(token["top_logprobs"].size(), 2u);
    }
    return text;
  };
  for (const std::string path : {"/api/chat", "/api/generate"}) {
    Json request = {{"messages", {user("q")}}, {"prompt", "q"}, {"logprobs", true}, {"top_logprobs", 2}};
    request.erase(path == "/api/chat" ? "prompt" : "messages");
    std::string streamed;
    for (const Json& line : lines_of(server, path.c_str(), request)) {
      streamed += text_of(line.value("logprobs", Json::array()));
    }
    EXPECT_EQ(streamed, "well then");
    request["stream"] = false;
    EXPECT_EQ(text_of(post(server, path, request).json()["logprobs"]), "well then");
    request.erase("logprobs");
    EXPECT_EQ(post(server, path, request).status, 400) << "top_logprobs need logprobs";
  }
}

TEST(Ollama, CallsToolsAndTellsOfTheModel) {
  const LocalServer server(options_that_show_all());
  const Json function = {
      {"name", "add"},
      {"parameters", {{"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}}}};
  const Json request = {{"messages", {user("q")}},
                        {"tools", {{{"type", "function"}, {"function", function}}}},
                        {"tool_choice", {{"type", "function"}, {"function", {{"name", "add"}}}}}};
  bool called = false;
  for (const Json& line : lines_of(server, "/api/chat", request)) {
    for (const Json& call : line["message"].value("tool_calls", Json::array())) {
      called = true;
      EXPECT_EQ(call["function"]["name"], "add");
      EXPECT_TRUE(call["function"]["arguments"].contains("a"));
    }
  }
  EXPECT_TRUE(called);
  EXPECT_EQ(get(server, "/api/tags").json()["models"][0]["name"], "model");
  EXPECT_EQ(get(server, "/api/ps").json()["models"][0]["details"]["format"], "gguf");
  EXPECT_TRUE(post(server, "/api/show", {{"model", "model"}}).json()["model_info"].contains("general.architecture"));
  EXPECT_EQ(get(server, "/api/version").json()["version"], "test");
  const Json vectors = post(server, "/api/embed", {{"input", {"a", "b"}}}).json();
  EXPECT_EQ(vectors["embeddings"].size(), 2u);
  EXPECT_EQ(post(server, "/api/embeddings", {{"prompt", "a"}}).json()["embedding"], vectors["embeddings"][0]);
  const HttpAnswer wrong = post(server, "/api/chat", {{"messages", {{{"role", "x"}}}}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_TRUE(wrong.json()["error"].is_string());
}

}  // namespace
}  // namespace rocmforge
