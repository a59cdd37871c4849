// Anthropic's Messages API: the conversion of requests for the template, and the format of answers and streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic/anthropic_request.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

const Json tool = {{"name", "add"},
                   {"description", "adds"},
                   {"input_schema", {{"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}}}};

TEST(AnthropicRequest, BecomesAConversation) {
  const Json body = {
      {"model", "m"},
      {"max_tokens", 7},
      {"system",
       {{{"type", "text"}, {"text", "S"}, {"cache_control", {{"type", "ephemeral"}}}}, {{"type", "text"}, {"text", "T"}}}},
      {"messages",
       {user("hello"),
        {{"role", "assistant"},
         {"content",
          {{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "x"}},
           {{"type", "text"}, {"text", "let me see"}},
           {{"type", "tool_use"}, {"id", "c1"}, {"name", "add"}, {"input", {{"a", 1}}}}}}},
        user({{{"type", "tool_result"}, {"tool_use_id", "c1"}, {"content", {{{"type", "text"}, {"text", "2"}}}}},
              {{"type", "text"}, {"text", "and now?"}}})}},
      {"tools", {tool}},
      {"tool_choice", {{"type", "tool"}, {"name", "add"}, {"disable_parallel_tool_use", true}}},
      {"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}},
      {"stop_sequences", {"END"}},
      {"output_config", {{"format", {{"type", "json_schema"}, {"schema", {{"type", "object"}}}}}, {"effort", "low"}}},
      {"top_k", 5}};
  Fields fields(body);
  FreeReading reading;
  const Conversation read = read_anthropic(fields, reading);
  const ChatRequest chat = read.request();
  const Json system_parts = {{{"type", "text"}, {"text", "S"}}, {{"type", "text"}, {"text", "T"}}};
  const Json call = {{"id", "c1"}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", R"({"a":1})"}}}};
  EXPECT_EQ(chat.messages,
            Json({{{"role", "system"}, {"content", system_parts}},
                  {{"role", "user"}, {"content", "hello"}},
                  {{"role", "assistant"}, {"content", "let me see"}, {"reasoning_content", "hm"}, {"tool_calls", {call}}},
                  {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "2"}},
                  {{"role", "user"}, {"content", "and now?"}}}));
  EXPECT_EQ(chat.tools[0]["function"]["parameters"], tool["input_schema"]);
  EXPECT_EQ(chat.tools[0]["function"]["description"], "adds");
  EXPECT_EQ(read.selection.choice.name, "add");
  EXPECT_TRUE(read.selection.choice.is_required);
  EXPECT_FALSE(read.selection.choice.parallel);
  EXPECT_EQ(read.reasoning.is_on, true);
  EXPECT_EQ(read.reasoning.budget, 1024);
  EXPECT_EQ(read.reasoning.budget_field, "thinking.budget_tokens");
  EXPECT_EQ(read.reasoning.effort, "low");
  ASSERT_TRUE(read.format.has_value());
  EXPECT_EQ(*read.format->schema, Json({{"type", "object"}}));
  EXPECT_EQ(read.format->field, "output_config.format.schema");
  for (const char* name : {"system", "output_config", "tool_choice"}) {
    EXPECT_TRUE(fields.was_asked_for(name)) << name;
  }
}

TEST(AnthropicMessages, RefuseInTheirOwnForm) {
  TestServerOptions options = options_that_show_all();
  options.server.keys = {"secret"};
  const FakeServer server(options, say("hi", {}, '|'));
  const HttpAnswer stranger = post(server.port(), "/v1/messages", {{"messages", {user("q")}}});
  EXPECT_EQ(stranger.status, 401);
  EXPECT_EQ(stranger.json()["type"], "error");
  EXPECT_EQ(stranger.json()["error"]["type"], "authentication_error");
  const HttpAnswer wrong = post(server.port(), "/v1/messages", {{"messages", 1}}, {"x-api-key: secret"});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json()["error"]["type"], "invalid_request_error");
  EXPECT_THAT(wrong.json()["error"]["message"].get<std::string>(), HasSubstr("messages"));
  EXPECT_EQ(wrong.json().size(), 2u);
}

}  // namespace
}  // namespace rocmforge
