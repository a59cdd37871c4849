// Anthropic's Messages API: the conversion of requests for the template, and the format of answers and streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic_request.h"
#include "server/api/api_error.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

Json ask(const FakeServer& server, const Json& more) {
  Json request = {{"model", "any"}, {"max_tokens", 100}, {"messages", {user("q")}}};
  request.update(more);
  const HttpAnswer answer = post(server.port(), "/v1/messages", request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json();
}

std::vector<Json> events_of(const FakeServer& server, const Json& more) {
  Json request = {{"model", "any"}, {"max_tokens", 100}, {"messages", {user("q")}}};
  request.update(more);
  return named_events(server, "/v1/messages", request);
}

/// A message put together from its stream.
Json joined(const std::vector<Json>& events) {
  Json message;
  std::vector<std::string> inputs;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "message_start") {
      message = event["message"];
    } else if (type == "content_block_start") {
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      inputs.emplace_back();
    } else if (type == "content_block_delta") {
      EXPECT_EQ(event["index"], message["content"].size() - 1) << "the last block";
      Json& block = message["content"].back();
      const Json& delta = event["delta"];
      if (delta["type"] == "input_json_delta") {
        inputs.back() += delta["partial_json"].get<std::string>();
      } else {
        const std::string part = delta["type"] == "text_delta" ? "text" : "thinking";
        block[part] = block[part].get<std::string>() + delta[part].get<std::string>();
      }
    } else if (type == "content_block_stop" && message["content"].back()["type"] == "tool_use") {
      message["content"].back()["input"] = Json::parse(inputs.back());
    } else if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"].update(event["usage"]);
    }
  }
  return message;
}

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

TEST(AnthropicRequest, WhatIsWrongIsNamed) {
  const Json question = Json::array({user("q")});
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"x", 1}}, "messages must be"},
      {{{"messages", Json::array()}}, "messages must be"},
      {{{"messages", {{{"role", "tool"}, {"content", "a"}}}}}, "messages[0].role"},
      {{{"messages", {user(1)}}}, "messages[0].content must be"},
      {{{"messages", {user({{{"type", "text"}}})}}}, "messages[0].content[0].text is missing"},
      {{{"messages", {user({{{"type", "tool_result"}}})}}}, "messages[0].content[0].tool_use_id is missing"},
      {{{"messages", {{{"role", "assistant"}, {"content", {{{"type", "tool_use"}, {"id", "a"}, {"name", "b"}}}}}}}},
       "messages[0].content[0].input is missing"},
      {{{"messages", question}, {"tools", {{{"name", "a"}}}}}, "tools[0].input_schema is missing"},
      {{{"messages", question}, {"tool_choice", {{"type", "tool"}}}}, "tool_choice.name is missing"},
      {{{"messages", question}, {"output_config", {{"format", {{"type", "json_schema"}}}}}}, "output_config.format.schema"}};
  for (const auto& [body, problem] : cases) {
    try {
      Fields fields(body);
      FreeReading reading;
      static_cast<void>(read_anthropic(fields, reading));
      ADD_FAILURE() << body.dump();
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      EXPECT_THAT(error.message, HasSubstr(problem)) << body.dump();
    }
  }
}

TEST(AnthropicMessages, AnswersAndStreamsSayTheSame) {
  const FakeServer server(options_that_show_all(), say("<think>so so</think>well then", {}, '|'));
  const Json answer = ask(server, Json::object());
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(answer["type"], "message");
  EXPECT_EQ(answer["role"], "assistant");
  EXPECT_EQ(answer["content"], Json({{{"type", "thinking"}, {"thinking", "so so"}, {"signature", ""}},
                                     {{"type", "text"}, {"text", "well then"}}}));
  EXPECT_EQ(answer["stop_reason"], "end_turn");
  EXPECT_TRUE(answer["stop_sequence"].is_null());
  const std::vector<Json> events = events_of(server, Json::object());
  EXPECT_EQ(events.front()["type"], "message_start");
  EXPECT_EQ(events.front()["message"]["content"], Json::array());
  EXPECT_EQ(events.back()["type"], "message_stop");
  const Json streamed = joined(events);
  EXPECT_EQ(streamed["content"], answer["content"]);
  EXPECT_EQ(streamed["stop_reason"], "end_turn");
  const auto input = [](const Json& message) {
    return message["usage"]["input_tokens"].get<int>() + message["usage"]["cache_read_input_tokens"].get<int>();
  };
  EXPECT_EQ(input(streamed), input(answer)) << "read anew or from the cache";
  EXPECT_EQ(streamed["usage"]["output_tokens"], answer["usage"]["output_tokens"]);
  EXPECT_EQ(events.front()["message"]["usage"]["input_tokens"], input(answer));
  const Json counted = post(server.port(), "/v1/messages/count_tokens", {{"messages", {user("q")}}}).json();
  EXPECT_EQ(counted, Json({{"input_tokens", input(answer)}}));
}

TEST(AnthropicMessages, EndForOneOfFourReasons) {
  const FakeServer server(options_that_show_all(), say("one two three", {}, '|'));
  const Json cut = ask(server, {{"max_tokens", 3}});
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["content"][0]["text"], "one");
  const Json stopped = ask(server, {{"stop_sequences", {"two"}}});
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "two");
  EXPECT_EQ(joined(events_of(server, {{"stop_sequences", {"two"}}}))["stop_sequence"], "two");
}

TEST(AnthropicMessages, CallsToolsByBlocks) {
  const FakeServer server(options_that_show_all());
  for (int seed = 0; seed < 3; ++seed) {
    const Json more = {{"tools", {tool}}, {"tool_choice", {{"type", "tool"}, {"name", "add"}}}, {"seed", seed}};
    const Json answer = ask(server, more);
    EXPECT_EQ(answer["stop_reason"], "tool_use") << answer.dump();
    ASSERT_EQ(answer["content"].size(), 1u) << answer.dump();
    const Json& call = answer["content"][0];
    EXPECT_EQ(call["type"], "tool_use");
    EXPECT_EQ(call["name"], "add");
    EXPECT_TRUE(call["input"].contains("a"));
    EXPECT_FALSE(call["id"].get<std::string>().empty());
    const Json streamed = joined(events_of(server, more));
    EXPECT_EQ(streamed["stop_reason"], "tool_use");
    EXPECT_EQ(streamed["content"][0]["input"], call["input"]);
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
