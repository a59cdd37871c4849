// Calls of functions as clients see them, from the fake model.
#include <gtest/gtest.h>

#include "server/local_server.h"

namespace rocmforge {
namespace {

/// A template that shows tools, calls and results, with `mark` before each call, and ends a message with '>'.
TestServerOptions options_with(const std::string& mark) {
  TestServerOptions options;
  options.server.chat_template =
      "{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{% for m in messages %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}" +
      mark + "{{ c.function | tojson }}{% endfor %}>{% endfor %}";
  return options;
}

/// Each of its few calls is short.
Json request_with(const Json& more) {
  const Json parameters = {
      {"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};
  const auto tool = [&](const char* name) {
    return Json{{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}};
  };
  Json request = {{"messages", {{{"role", "user"}, {"content", "q"}}}}, {"tools", {tool("add"), tool("see")}}};
  request.update(more);
  return request;
}

Json ask(const LocalServer& server, const Json& more) {
  const HttpAnswer answer = post(server, "/v1/chat/completions", request_with(more));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json()["choices"][0];
}

/// The content of a stream, combined to a choice.
Json ask_streamed(const LocalServer& server, Json more) {
  more["stream"] = true;
  Json message = {{"content", nullptr}};
  Json reason;
  for (const Json& event : post(server, "/v1/chat/completions", request_with(more)).events()) {
    const Json& choice = event["choices"][0];
    if (const auto content = choice["delta"].find("content"); content != choice["delta"].end() && content->is_string()) {
      message["content"] =
          (message["content"].is_null() ? "" : message["content"].get<std::string>()) + content->get<std::string>();
    }
    for (const Json& call : choice["delta"].value("tool_calls", Json::array())) {
      if (call.contains("id")) {
        message["tool_calls"].push_back(call);
      } else {
        Json& arguments = message["tool_calls"][call["index"].get<std::size_t>()]["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
    reason = choice["finish_reason"].is_null() ? reason : choice["finish_reason"];
  }
  return {{"message", message}, {"finish_reason", reason}};
}

/// Marks of the harmony format, by which its templates are detected.
constexpr const char* channels = "<|channel|>commentary<|channel|>analysis<|message|>";

const Json add_by_name = {{"type", "function"}, {"function", {{"name", "add"}}}};

void expect_one_call(const Json& choice) {
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice.dump();
  EXPECT_TRUE(choice["message"]["content"].is_null()) << choice.dump();
  const Json calls = choice["message"].value("tool_calls", Json::array());
  ASSERT_EQ(calls.size(), 1u) << choice.dump();
  EXPECT_EQ(calls[0]["function"]["name"], "add");
  EXPECT_TRUE(Json::parse(calls[0]["function"]["arguments"].get<std::string>()).contains("a"));
}

// A schema that can't be enforced takes nothing away from the other tools, and the answer says which one it is.
TEST(RelaxedTools, AreNamedAndAlone) {
  const LocalServer server(options_with("<tool_call>"));
  const auto tool = [](const char* name, const Json& parameters) {
    return Json{{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}};
  };
  const Json closed = {
      {"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}, {"additionalProperties", false}};
  for (const char* keyword : {"unevaluatedProperties", "dependentSchemas", "if"}) {
    const Json odd = {{"type", "object"}, {keyword, Json::object()}};
    for (const bool is_strict : {false, true}) {
      SCOPED_TRACE(keyword);
      Json request = request_with({{"tools", {tool("add", closed), tool("odd", odd)}}, {"max_tokens", 4}});
      request["tools"][0]["function"]["strict"] = is_strict;
      const HttpAnswer answer = post(server, "/v1/chat/completions", request);
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_EQ(answer.headers.at("x-relaxed-tools"), "odd");
      request["tool_choice"] = add_by_name;
      request["max_tokens"] = 200;
      const HttpAnswer forced = post(server, "/v1/chat/completions", request);
      EXPECT_FALSE(forced.headers.contains("x-relaxed-tools"));
      expect_one_call(forced.json()["choices"][0]);
    }
    Json strict = request_with({{"tools", {tool("add", closed), tool("odd", odd)}}, {"max_tokens", 4}});
    strict["tools"][1]["function"]["strict"] = true;
    const HttpAnswer refused = post(server, "/v1/chat/completions", strict);
    EXPECT_EQ(refused.status, 400);
    EXPECT_NE(refused.body.find("'odd'"), std::string::npos) << refused.body;
  }
}

// The model never gives an end token: only the grammar ends the answer.
TEST(NamedTool, IsCalledOnce) {
  for (const char* mark :
       {"<tool_call>", "[TOOL_CALLS]", "[TOOL_CALLS][ARGS]", "<|tool_call|>", "<|python_tag|>", channels}) {
    SCOPED_TRACE(mark);
    const LocalServer server(options_with(mark));
    for (int seed = 0; seed < 3; ++seed) {
      expect_one_call(ask(server, {{"tool_choice", add_by_name}, {"seed", seed}}));
      expect_one_call(ask_streamed(server, {{"tool_choice", add_by_name}, {"seed", seed}}));
    }
  }
}

TEST(NamedTool, IsCalledOnceWhereTheTemplateHasNoPlaceForTools) {
  TestServerOptions options;
  options.server.chat_template = "{% for m in messages %}{{ m.content[-14:] }}>{% endfor %}";
  const LocalServer server(options);
  expect_one_call(ask(server, {{"tool_choice", add_by_name}}));
}

TEST(ToolCallsAtALimit, AreNeverShownAsText) {
  const LocalServer required(options_with("<tool_call>"));
  const LocalServer free(options_with("[TOOL_CALLS]"), say(R"(Wait. [TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}])"));
  for (int limit = 1; limit < 60; ++limit) {
    for (const auto& choice : {ask(required, {{"tool_choice", "required"}, {"max_tokens", limit}}),
                               ask_streamed(required, {{"tool_choice", "required"}, {"max_tokens", limit}})}) {
      EXPECT_TRUE(choice["message"]["content"].is_null() || choice["message"]["content"] == "") << choice.dump();
    }
    const Json choice = ask_streamed(free, {{"max_tokens", limit}});
    const Json& content = choice["message"]["content"];
    EXPECT_TRUE(content.is_null() || std::string("Wait. ").starts_with(content.get<std::string>())) << choice.dump();
  }
}

TEST(Tools, OfTheDocumentedNumberAreServed) {
  TestServerOptions options = options_with("<tool_call>");
  options.server.chat_template.replace(options.server.chat_template.find("tools or []"), 11, "(tools or [])[:1]");
  const LocalServer server(options);
  Json request = request_with({{"tool_choice", "required"}, {"parallel_tool_calls", false}});
  const Json tool = request["tools"][0];
  for (std::size_t i = request["tools"].size(); i < 512; ++i) {
    request["tools"].push_back(tool);
    request["tools"].back()["function"]["name"] = "tool_" + std::to_string(i);
  }
  const HttpAnswer answer = post(server, "/v1/chat/completions", request);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["choices"][0]["message"]["tool_calls"].size(), 1u);
  request["tools"].push_back(tool);
  const HttpAnswer refused = post(server, "/v1/chat/completions", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["message"], "tools holds 513 tools, at most 512");
}

TEST(Tools, WhoseSchemasAreTooLargeAreA400) {
  TestServerOptions options = options_with("<tool_call>");
  options.server.chat_template.replace(options.server.chat_template.find("tools or []"), 11, "(tools or [])[:1]");
  const LocalServer server(options);
  Json request = request_with({{"tool_choice", "required"}});
  Json& function = request["tools"][0]["function"];
  function["name"] = std::string(300'000, 'n');
  const HttpAnswer answer = post(server, "/v1/chat/completions", request);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "tools");
  EXPECT_LT(answer.body.size(), 1000u);
}

}  // namespace
}  // namespace rocmforge
