// Parts, items and tools that agents send beside texts and functions: what the model sees of them, and what names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic/anthropic_request.h"
#include "server/api/content_parts.h"
#include "server/api/openai/responses_request.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A request as it was read, and the names of what was not taken as it was sent.
struct Converted {
  Conversation conversation;
  ChatRequest chat;
  std::vector<std::string> named;
};

Converted of_anthropic(const Json& body) {
  Fields fields(body);
  FreeReading reading;
  Conversation read = read_anthropic(fields, reading);
  show_media(fields, read, {});
  ChatRequest chat = read.request();
  return {std::move(read), std::move(chat), fields.unknown().names};
}

Converted of_responses(const Json& body) {
  Fields fields(body);
  OfferedTools tools;
  FreeReading reading;
  Conversation read = read_responses(fields, {}, tools, reading);
  show_media(fields, read, {});
  ChatRequest chat = read.request();
  return {std::move(read), std::move(chat), fields.unknown().names};
}

std::string shown(const Json& part) {
  Fields fields(part);
  return shown_text(fields);
}

TEST(ShownParts, AreTextsOrPlaceholders) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"type", "text"}, {"text", "a"}}, "a"},
      {{{"type", "refusal"}, {"refusal", "no"}}, "no"},
      {{{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", "AAAA"}}}},
       "[image: this model reads text alone and can't see it]"},
      {{{"type", "image_url"}, {"image_url", {{"url", "https://example.org/a.png"}}}},
       "[image https://example.org/a.png: this model reads text alone and can't see it]"},
      {{{"type", "input_image"}, {"image_url", "data:image/png;base64,AAAA"}},
       "[image: this model reads text alone and can't see it]"},
      {{{"type", "input_audio"}, {"input_audio", {{"data", "AAAA"}, {"format", "wav"}}}},
       "[audio: this model reads text alone and can't see it]"},
      {{{"type", "document"},
        {"title", "Notes"},
        {"source", {{"type", "text"}, {"media_type", "text/plain"}, {"data", "buy milk"}}}},
       "Notes\nbuy milk"},
      {{{"type", "document"}, {"source", {{"type", "content"}, {"content", {{{"type", "text"}, {"text", "a"}}}}}}}, "a"},
      {{{"type", "document"},
        {"title", "P"},
        {"source", {{"type", "base64"}, {"media_type", "application/pdf"}, {"data", "AAAA"}}}},
       "[file P: this model reads text alone and can't see it]"},
      {{{"type", "input_file"}, {"filename", "a.txt"}, {"file_data", "data:text/plain;base64,aGVsbG8="}}, "a.txt\nhello"},
      {{{"type", "file"}, {"file", {{"filename", "b.json"}, {"file_data", "data:application/json;base64,e30="}}}},
       "b.json\n{}"},
      {{{"type", "file"}, {"file", {{"filename", "b.txt"}, {"file_data", "data:text/plain;base64,/w=="}}}},
       "[file b.txt: this model reads text alone and can't see it]"},
      {{{"type", "tool_reference"}, {"tool_name", "grep"}}, "[tool grep]"},
      {{{"type", "search_result"},
        {"title", "T"},
        {"source", "https://example.org"},
        {"content", {{{"type", "text"}, {"text", "found"}}}}},
       "T\nhttps://example.org\nfound"},
      {{{"type", "server_tool_use"}, {"id", "s1"}, {"name", "web_search"}, {"input", {{"query", "q"}}}},
       R"([server_tool_use {"name":"web_search","input":{"query":"q"}}])"},
      {{{"type", "web_search_tool_result"},
        {"tool_use_id", "s1"},
        {"content", {{{"type", "web_search_result"}, {"title", "T"}, {"encrypted_content", "zzz"}}}}},
       R"([web_search_tool_result {"content":[{"title":"T"}]}])"},
      {{{"type", "hologram"}}, "[hologram: this model reads text alone and can't see it]"},
      {{{"type", "annotated"}, {"text", "still a text"}}, "still a text"},
  };
  for (const auto& [part, text] : cases) {
    EXPECT_EQ(shown(part), text) << part.dump();
  }
}

TEST(AnthropicAgents, SendMoreThanTexts) {
  const Json result = {{"type", "tool_result"},
                       {"tool_use_id", "c1"},
                       {"content",
                        {{{"type", "tool_reference"}, {"tool_name", "grep"}},
                         {{"type", "image"}, {"source", {{"type", "url"}, {"url", "https://example.org/x.png"}}}}}}};
  const Json search = {{"type", "server_tool_use"}, {"id", "s1"}, {"name", "web_search"}, {"input", {{"query", "q"}}}};
  const Converted made = of_anthropic(
      {{"messages",
        {user("hello"),
         {{"role", "system"}, {"content", "The date has changed."}},
         {{"role", "assistant"},
          {"content", {search, {{"type", "tool_use"}, {"id", "c1"}, {"name", "bash"}, {"input", {{"command", "ls"}}}}}}},
         user(Json::array({result}))}},
       {"tools",
        {{{"type", "bash_20250124"}, {"name", "bash"}},
         {{"type", "text_editor_20250728"}, {"name", "str_replace_based_edit_tool"}, {"max_characters", 1000}},
         {{"type", "memory_20250818"}, {"name", "memory"}},
         {{"type", "web_search_20250305"}, {"name", "web_search"}, {"max_uses", 5}}}}});
  const Json& messages = made.chat.messages;
  ASSERT_EQ(messages.size(), 4u) << messages.dump(1);
  EXPECT_EQ(messages[1], Json({{"role", "system"}, {"content", "The date has changed."}}));
  EXPECT_THAT(messages[2]["content"].get<std::string>(), HasSubstr(R"("query":"q")"));
  EXPECT_EQ(messages[2]["tool_calls"].size(), 1u);
  EXPECT_EQ(messages[3]["role"], "tool");
  EXPECT_EQ(messages[3]["content"][0]["text"], "[tool grep]");
  EXPECT_THAT(messages[3]["content"][1]["text"].get<std::string>(), HasSubstr("[image https://example.org/x.png"));
  ASSERT_EQ(made.chat.tools.size(), 3u);
  EXPECT_EQ(made.chat.tools[0]["function"]["name"], "bash");
  EXPECT_TRUE(made.chat.tools[0]["function"]["parameters"]["properties"].contains("command"));
  EXPECT_EQ(made.chat.tools[1]["function"]["parameters"]["required"], Json({"command", "path"}));
  EXPECT_EQ(made.chat.tools[2]["function"]["name"], "memory");
  EXPECT_THAT(made.named,
              ElementsAre("messages[2].content[0].server_tool_use", "messages[3].content[0].content[0].tool_reference",
                          "tools[3].web_search_20250305", "messages[3].content[0].content[1].image"));
}

TEST(AnthropicAgents, AreToldInTheHeaderAndTheLog) {
  const FakeServer server(options_that_show_all(), say("hi", {}, '|'));
  const Json image = {{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", "AA"}}}};
  const Json request = {{"max_tokens", 9},
                        {"messages", {user(Json::array({image})), {{"role", "system"}, {"content", "s"}}, user("q")}}};
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens"}) {
    const HttpAnswer answer = post(server.port(), path, request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.headers.at("x-ignored-fields"), "messages[0].content[0].image") << path;
  }
  EXPECT_THAT(server.log(), HasSubstr("messages[].content[].image, which the model does not get as it was sent"));
}

const Json patch_tool = {{"type", "custom"},
                         {"name", "apply_patch"},
                         {"description", "Edits files."},
                         {"format", {{"type", "grammar"}, {"syntax", "lark"}, {"definition", "start: \"x\""}}}};
const Json plain_parameters = {{"type", "object"}, {"properties", {{"a", {{"enum", {1}}}}}}, {"required", {"a"}}};
const Json notes_namespace = {
    {"type", "namespace"},
    {"name", "mcp__notes"},
    {"description", "Notes."},
    {"tools",
     {{{"type", "function"}, {"name", "read"}, {"description", "d"}, {"parameters", plain_parameters}},
      {{"type", "function"}, {"name", "add"}, {"description", "d"}, {"parameters", plain_parameters}}}}};

TEST(ResponsesAgents, OfferToolsOfAllKinds) {
  const Converted made = of_responses(
      {{"input", "q"},
       {"tools",
        {{{"type", "function"}, {"name", "add"}, {"parameters", plain_parameters}},
         notes_namespace,
         patch_tool,
         {{"type", "local_shell"}},
         {{"type", "tool_search"}, {"execution", "client"}, {"description", "d"}, {"parameters", plain_parameters}},
         {{"type", "web_search"}},
         {{"type", "image_generation"}, {"output_format", "png"}}}},
       {"tool_choice", {{"type", "custom"}, {"name", "apply_patch"}}}});
  std::vector<std::string> names;
  for (const Json& tool : made.chat.tools) {
    names.push_back(tool["function"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("add", "read", "mcp__notes__add", "apply_patch", "local_shell", "tool_search"));
  EXPECT_EQ(made.chat.tools[3]["function"]["description"], "Edits files.\nThe input has this syntax:\nstart: \"x\"");
  EXPECT_TRUE((*made.conversation.tools)[3].is_relaxed);
  EXPECT_EQ(made.conversation.selection.choice.name, "apply_patch");
  EXPECT_THAT(made.named, ElementsAre("tools[5].web_search", "tools[6].image_generation"));
}

TEST(ResponsesAgents, SendItemsOfAllKinds) {
  const Json shell = {{"type", "exec"}, {"command", {"ls"}}};
  const Json input = {
      {{"role", "user"},
       {"content", {{{"type", "input_text"}, {"text", "see"}}, {{"type", "input_image"}, {"image_url", "data:x"}}}}},
      {{"type", "item_reference"}, {"id", "msg_1"}},
      {{"type", "web_search_call"},
       {"id", "ws_1"},
       {"status", "completed"},
       {"action", {{"type", "search"}, {"query", "q"}}}},
      {{"type", "local_shell_call"}, {"call_id", "c1"}, {"status", "completed"}, {"action", shell}},
      {{"type", "local_shell_call_output"}, {"id", "c1"}, {"output", "file"}},
      {{"type", "custom_tool_call"}, {"call_id", "c2"}, {"name", "apply_patch"}, {"input", "*** Begin"}},
      {{"type", "custom_tool_call_output"}, {"call_id", "c2"}, {"output", "done"}},
      {{"type", "function_call"}, {"call_id", "c3"}, {"name", "add"}, {"namespace", "mcp__notes"}, {"arguments", "{}"}},
      {{"type", "function_call_output"},
       {"call_id", "c3"},
       {"output", {{{"type", "input_text"}, {"text", "x"}}, {{"type", "input_image"}, {"image_url", "data:x"}}}}},
      {{"type", "compaction"}, {"encrypted_content", "zzz"}},
      {{"type", "ghost_snapshot"}, {"ghost_commit", Json::object()}}};
  const Converted made = of_responses(
      {{"input", input},
       {"tools", {{{"type", "function"}, {"name", "add"}, {"parameters", plain_parameters}}, notes_namespace, patch_tool}}});
  const Json& messages = made.chat.messages;
  const std::string text = messages.dump();
  EXPECT_THAT(text, HasSubstr("[image: this model"));
  EXPECT_THAT(text, HasSubstr("which is not kept here"));
  EXPECT_THAT(text, HasSubstr(R"(\"query\":\"q\")"));
  EXPECT_THAT(text, HasSubstr("encrypted form"));
  EXPECT_THAT(text, Not(HasSubstr("zzz")));
  std::vector<std::string> calls, results;
  for (const Json& message : messages) {
    for (const Json& call : message.value("tool_calls", Json::array())) {
      calls.push_back(call["function"]["name"].get<std::string>() + call["function"]["arguments"].get<std::string>());
    }
    if (message["role"] == "tool") {
      results.push_back(message["tool_call_id"]);
    }
  }
  EXPECT_THAT(calls,
              ElementsAre(R"(local_shell{"command":["ls"]})", R"(apply_patch{"input":"*** Begin"})", "mcp__notes__add{}"));
  EXPECT_THAT(results, ElementsAre("c1", "c2", "c3"));
  for (const char* name : {"input[0].content[1].input_image", "input[1].item_reference", "input[2].web_search_call",
                           "input[9].compaction", "input[10].ghost_snapshot"}) {
    EXPECT_THAT(made.named, Contains(name));
  }
}

Json text_tool(const char* syntax, const char* definition) {
  return {{"type", "custom"},
          {"name", "write"},
          {"format", {{"type", "grammar"}, {"syntax", syntax}, {"definition", definition}}}};
}
/// The same for chat completions.
Json chat_text_tool(const Json& tool) {
  Json custom = {{"name", tool["name"]}, {"format", {{"type", "grammar"}, {"grammar", tool["format"]}}}};
  custom["format"]["grammar"].erase("type");
  return {{"type", "custom"}, {"custom", custom}};
}

TEST(CustomTools, AreHeldToARegularExpressionAndOtherSyntaxesAreNamed) {
  struct Case {
    const char* syntax;
    const char* definition;
    const char* text;
    bool is_allowed, is_relaxed;
  };
  for (const Case& one : {Case{"regex", "[a-c]{3}-[0-9]", "abc-7", true, false},
                          {"regex", "[a-c]{3}-[0-9]", "abc-7 and more", false, false},
                          {"regex", "yes|no", "yes", true, false},
                          {"regex", "yes|no", "yes or no", false, false},
                          {"regex", "(?=a)b", "anything", true, true},
                          {"lark", "start: \"x\"", "anything", true, true}}) {
    const std::string call =
        "<tool_call>\n" + Json{{"name", "write"}, {"arguments", {{"input", one.text}}}}.dump() + "\n</tool_call>";
    const LocalServer server(options_that_show_all(), say(call, {}, '|'));
    const Json tool = text_tool(one.syntax, one.definition);
    const HttpAnswer response = post(server, "/v1/responses", {{"input", "q"}, {"tools", {tool}}});
    const HttpAnswer chat =
        post(server, "/v1/chat/completions", {{"messages", {user("q")}}, {"tools", {chat_text_tool(tool)}}});
    for (const HttpAnswer& answer : {response, chat}) {
      EXPECT_EQ(answer.status, one.is_allowed ? 200 : 500) << one.definition << ": " << answer.body;
      EXPECT_EQ(answer.headers.contains("x-relaxed-tools"), one.is_relaxed) << one.definition;
      EXPECT_FALSE(answer.headers.contains("x-ignored-fields")) << one.definition;
    }
    if (one.is_allowed) {
      EXPECT_EQ(response.json()["output"][0]["type"], "custom_tool_call");
      EXPECT_EQ(response.json()["output"][0]["input"], one.text);
    }
    if (one.is_relaxed) {
      EXPECT_EQ(response.headers.at("x-relaxed-tools"), "write");
    }
  }
  const LocalServer server(options_that_show_all());
  const Json wrong = {{"type", "custom"}, {"custom", {{"name", "w"}, {"format", {{"type", "grammar"}}}}}};
  const HttpAnswer refused = post(server, "/v1/chat/completions", {{"messages", {user("q")}}, {"tools", {wrong}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "tools[0].custom.format.grammar") << refused.body;
}

// The model writes a call as its template's grammar asks for it: on a line of its own.
TEST(ResponsesAgents, GetCallsInTheFormOfTheirTools) {
  const Json function = {{"type", "function"}, {"name", "add"}, {"parameters", plain_parameters}};
  const Json tools = {function, notes_namespace, patch_tool, {{"type", "local_shell"}}};
  const auto answer_of = [&](const std::string& call) {
    const LocalServer server(options_that_show_all(), say("<tool_call>\n" + call + "\n</tool_call>", {}, '|'));
    const std::vector<Json> events = named_events(server, "/v1/responses", {{"input", "q"}, {"tools", tools}});
    Json item = events.back()["response"]["output"][0];
    bool is_told = false;
    for (const Json& event : events) {
      is_told = is_told || (event["type"] == "response.output_item.done" && event["item"] == item);
    }
    EXPECT_TRUE(is_told) << item.dump();
    return item;
  };
  const Json text = answer_of(R"({"name": "apply_patch", "arguments": {"input": "*** Begin\n"}})");
  EXPECT_EQ(text["type"], "custom_tool_call");
  EXPECT_EQ(text["name"], "apply_patch");
  EXPECT_EQ(text["input"], "*** Begin\n");
  const Json in_namespace = answer_of(R"({"name": "mcp__notes__add", "arguments": {"a": 1}})");
  EXPECT_EQ(in_namespace["type"], "function_call");
  EXPECT_EQ(in_namespace["name"], "add");
  EXPECT_EQ(in_namespace["namespace"], "mcp__notes");
  const Json plain = answer_of(R"({"name": "add", "arguments": {"a": 1}})");
  EXPECT_EQ(plain["name"], "add");
  EXPECT_FALSE(plain.contains("namespace"));
  const Json shell = answer_of(R"({"name": "local_shell", "arguments": {"command": ["ls", "-l"]}})");
  EXPECT_EQ(shell["type"], "local_shell_call");
  EXPECT_EQ(shell["action"]["type"], "exec");
  EXPECT_EQ(shell["action"]["command"], Json({"ls", "-l"}));
}

}  // namespace
}  // namespace rocmforge
