// OpenAI's Responses API: the conversion of requests for the template, the format of answers and streams, and stored
// responses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "error_of.h"
#include "server/api/openai/response_store.h"
#include "server/api/openai/responses_request.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

template <class Server>
Json ask(const Server& server, const Json& request) {
  const HttpAnswer answer = post(server, "/v1/responses", request);
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json();
}

/// The events of a stream, numbered from 0.
template <class Server>
std::vector<Json> events_of(const Server& server, const Json& request) {
  const std::vector<Json> events = named_events(server, "/v1/responses", request);
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  return events;
}

const Json tool = {{"type", "function"},
                   {"name", "add"},
                   {"parameters", {{"type", "object"}, {"properties", {{"a", {{"enum", {1, 2}}}}}}, {"required", {"a"}}}}};

TEST(ResponsesRequest, BecomesAConversation) {
  const Json body = {
      {"instructions", "S"},
      {"input",
       {{{"role", "user"}, {"content", "hello"}},
        {{"type", "reasoning"},
         {"id", "rs_1"},
         {"summary", Json::array()},
         {"content", {{{"type", "reasoning_text"}, {"text", "hm"}}}}},
        {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "let me see"}}}}},
        {{"type", "function_call"}, {"call_id", "c1"}, {"name", "add"}, {"arguments", "{}"}},
        {{"type", "function_call"}, {"call_id", "c2"}, {"name", "add"}, {"arguments", "{}"}},
        {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "2"}},
        {{"role", "user"},
         {"content", {{{"type", "input_text"}, {"text", "a"}}, {{"type", "input_text"}, {"text", "b"}}}}}}},
      {"tools", {tool, {{"type", "web_search"}}}},
      {"tool_choice", {{"type", "function"}, {"name", "add"}}},
      {"text", {{"format", {{"type", "json_schema"}, {"name", "n"}, {"schema", {{"type", "object"}}}}}}},
      {"reasoning", {{"effort", "low"}}},
      {"max_output_tokens", 9},
      {"top_p", 0.5}};
  Fields fields(body);
  OfferedTools tools;
  FreeReading reading;
  const Conversation read = read_responses(fields, {text_message(Role::user, "before")}, tools, reading);
  const ChatRequest chat = read.request();
  const auto call = [](const char* id) {
    return Json{{"id", id}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", "{}"}}}};
  };
  const Json parts = {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}};
  const Json answer = {{"role", "assistant"},
                       {"content", "let me see"},
                       {"reasoning_content", "hm"},
                       {"tool_calls", {call("c1"), call("c2")}}};
  const Json expected = {{{"role", "system"}, {"content", "S"}},
                         {{"role", "user"}, {"content", "before"}},
                         {{"role", "user"}, {"content", "hello"}},
                         answer,
                         {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "2"}},
                         {{"role", "user"}, {"content", parts}}};
  EXPECT_EQ(chat.messages, expected) << chat.messages.dump(1);
  EXPECT_EQ(chat.tools.size(), 1u);
  EXPECT_EQ(chat.tools[0]["function"]["name"], "add");
  EXPECT_EQ(fields.unknown().names, std::vector<std::string>{"tools[1].web_search"}) << "is named among what is ignored";
  EXPECT_EQ(read.selection.choice.name, "add");
  ASSERT_TRUE(read.format.has_value());
  EXPECT_EQ(*read.format->schema, Json({{"type", "object"}}));
  EXPECT_EQ(read.format->field, "text.format.schema");
  EXPECT_EQ(read.reasoning.effort, "low");
  EXPECT_EQ(read_max_tokens(fields, -1, false, responses_fields), 9);
}

TEST(ResponsesRequest, HoldsAtMostSoManyTools) {
  const Json body = {{"input", "a"}, {"tools", std::vector<Json>(513, tool)}};
  Fields fields(body);
  OfferedTools tools;
  FreeReading reading;
  EXPECT_THAT(test::error_of([&] { static_cast<void>(read_responses(fields, {}, tools, reading)); }),
              HasSubstr("tools holds 513 tools, at most 512"));
}

TEST(Responses, TokensAreCountedBeforehand) {
  const LocalServer server(options_that_show_all(), say("well then", {}, '|'));
  const Json request = {{"input", "q"}, {"instructions", "be brief"}};
  const Json first = ask(server, request);
  const Json counted = post(server, "/v1/responses/input_tokens", request).json();
  EXPECT_EQ(counted, Json({{"object", "response.input_tokens"}, {"input_tokens", first["usage"]["input_tokens"]}}));
  const Json next = {{"input", "and"}, {"previous_response_id", first["id"]}};
  EXPECT_EQ(post(server, "/v1/responses/input_tokens", next).json()["input_tokens"],
            ask(server, next)["usage"]["input_tokens"]);
  EXPECT_EQ(post(server, "/v1/responses/input_tokens", Json::object()).status, 400);
}

TEST(Responses, GoOnFromOneThatWasKept) {
  const LocalServer server(options_that_show_all(), say("well", {}, '|'));
  const Json first = ask(server, {{"input", "q"}, {"instructions", "of the first alone"}});
  const std::string id = first["id"];
  const Json second = ask(server, {{"input", "r"}, {"previous_response_id", id}});
  EXPECT_EQ(second["previous_response_id"], id);
  const Json whole = ask(server, {{"input",
                                   {{{"role", "user"}, {"content", "q"}},
                                    {{"role", "assistant"}, {"content", "well"}},
                                    {{"role", "user"}, {"content", "r"}}}}});
  EXPECT_EQ(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]) << "the same prompt";
  EXPECT_EQ(get(server, "/v1/responses/" + id).json(), first);

  const Json unkept = ask(server, {{"input", "q"}, {"store", false}});
  EXPECT_EQ(get(server, "/v1/responses/" + unkept["id"].get<std::string>()).status, 404);
  const HttpAnswer lost = post(server, "/v1/responses", {{"input", "q"}, {"previous_response_id", "resp_x"}});
  EXPECT_EQ(lost.status, 404);
  EXPECT_THAT(lost.json()["error"]["message"].get<std::string>(), HasSubstr("'resp_x'"));

  const HttpAnswer removed = server.request("DELETE", "/v1/responses/" + id);
  EXPECT_EQ(removed.status, 200);
  EXPECT_EQ(removed.json()["deleted"], true);
  EXPECT_EQ(get(server, "/v1/responses/" + id).status, 404);
}

ResponseStore::Text text(std::string of) { return std::make_shared<const std::string>(std::move(of)); }

TEST(ResponseStore, HoldsSoManyAndSoMuch) {
  ResponseStore store;
  for (std::size_t i = 0; i <= ResponseStore::most_responses; ++i) {
    store.add(std::to_string(i), {.client = "a", .messages = text("[]"), .response = "{}"});
  }
  EXPECT_FALSE(store.find("0", "")) << "the oldest made room";
  EXPECT_TRUE(store.find("1", ""));
  store.add("next", {.client = "a"});
  EXPECT_TRUE(store.find("1", "")) << "was used after the next older one";
  EXPECT_FALSE(store.find("2", ""));
  store.add("too large", {.client = "a", .messages = text(std::string(ResponseStore::most_bytes, ' '))});
  EXPECT_FALSE(store.find("too large", ""));
  EXPECT_TRUE(store.remove("1", ""));
  EXPECT_FALSE(store.remove("1", ""));
}

TEST(ResponseStore, WhoHoldsMostMakesRoom) {
  ResponseStore store;
  store.add("small", {.client = "b", .messages = text("[]")});
  const std::string quarter(ResponseStore::most_bytes / 4, ' ');
  for (int i = 0; i < 8; ++i) {
    store.add("large " + std::to_string(i), {.client = "a", .messages = text(quarter)});
  }
  EXPECT_TRUE(store.find("small", "")) << "another client's";
  EXPECT_TRUE(store.find("large 7", ""));
  EXPECT_FALSE(store.find("large 0", ""));
}

TEST(ResponseStore, OneClientsEntriesDoNotDriveOutTheFewOfAnother) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{4} << 20}) {
    ResponseStore store;
    for (int i = 0; i < 3; ++i) {
      store.add("few " + std::to_string(i), {.client = "b", .messages = text(std::string(size, ' '))});
    }
    for (std::size_t i = 0; i < ResponseStore::most_responses + 16; ++i) {
      store.add("many " + std::to_string(i), {.client = "a", .messages = text("[]")});
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(store.find("few " + std::to_string(i), "")) << i << ", of " << size << " bytes";
    }
    store.add("huge", {.client = "c", .messages = text(std::string(ResponseStore::most_bytes - 100, ' '))});
    EXPECT_FALSE(store.find("huge", "")) << "others store less than it";
    EXPECT_TRUE(store.find("few 0", ""));
    store.add("last", {.client = "c", .messages = text("[]")});
    EXPECT_TRUE(store.find("last", "")) << "who stores most makes room";
  }
}

TEST(ResponseStore, GivesAnEntryToItsOwnerAlone) {
  ResponseStore store;
  store.add("x", {.client = "b", .owner = "key 0"});
  EXPECT_FALSE(store.find("x", "key 1"));
  EXPECT_FALSE(store.find("x", ""));
  EXPECT_FALSE(store.remove("x", "key 1"));
  EXPECT_TRUE(store.find("x", "key 0"));
  EXPECT_TRUE(store.remove("x", "key 0"));
}

TEST(Responses, BelongToTheKeyThatMadeThem) {
  TestServerOptions options = options_that_show_all();
  options.server.keys = {"alpha", "beta"};
  FakeServer server(options, say(std::string(200, 'x'), std::chrono::milliseconds(20), '|'));
  const std::vector<std::string> alpha = {"Authorization: Bearer alpha"}, beta = {"Authorization: Bearer beta"};
  const HttpAnswer made =
      post(server.port(), "/v1/responses", {{"input", "q"}, {"max_output_tokens", 1}, {"store", true}}, alpha);
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = made.json()["id"];
  EXPECT_EQ(id.find(made.headers.at("x-request-id")), std::string::npos) << "the request's id is in the log";
  EXPECT_EQ(server.log().find(id.substr(5)), std::string::npos);

  EXPECT_EQ(get(server.port(), "/v1/responses/" + id, beta).status, 404);
  const Json more = {{"input", "r"}, {"previous_response_id", id}, {"max_output_tokens", 1}};
  EXPECT_EQ(post(server.port(), "/v1/responses", more, beta).status, 404);
  Connection removal(server.port());
  removal.send(request_text("DELETE", "/v1/responses/" + id, "", beta));
  EXPECT_EQ(removal.read_answer().status, 404);
  EXPECT_EQ(get(server.port(), "/v1/responses/" + id, alpha).status, 200);
  EXPECT_EQ(post(server.port(), "/v1/responses", more, alpha).status, 200);

  Connection running(server.port());
  running.send(request_text("POST", "/v1/responses", Json{{"input", "q"}, {"stream", true}}.dump(), alpha));
  ASSERT_TRUE(running.read_until("response.output_text.delta"));
  const std::size_t at = running.received().find("resp_");
  const std::string path = "/cancel/" + running.received().substr(at, running.received().find('"', at) - at);
  EXPECT_EQ(post(server.port(), path, Json::object(), beta).status, 404);
  EXPECT_EQ(post(server.port(), path, Json::object(), alpha).status, 200);
}

/// Metadata of so many bytes, which every response repeats.
Json large_metadata(std::size_t bytes) { return {{"note", std::string(bytes, 'm')}}; }

TEST(Responses, AStreamThatRepeatsALargeRequestIsWhole) {
  TestServerOptions options = options_that_show_all();
  options.server.http.unread_bytes = 100'000;
  const FakeServer server(options, say("hi", {}, '|'));
  const Json metadata = large_metadata(2'000'000);
  const Json request = {{"input", "q"}, {"metadata", metadata}, {"max_output_tokens", 8}};
  const std::vector<Json> events = events_of(server, request);
  ASSERT_GE(events.size(), 3u);
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, events.size() - 1}) {
    EXPECT_EQ(events[i]["response"]["metadata"], metadata) << events[i]["type"];
  }
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "hi");
  const Json whole = ask(server, request);
  EXPECT_EQ(whole["metadata"], metadata);
  const HttpAnswer stored = get(server.port(), "/v1/responses/" + whole["id"].get<std::string>());
  EXPECT_EQ(stored.json(), whole);
  EXPECT_EQ(stored.headers.at("transfer-encoding"), "chunked");
}

TEST(Responses, StoredOnesCountUntilTheirReadersHaveThem) {
  TestServerOptions options = options_that_show_all();
  options.server.request_memory = 192 << 20;
  const FakeServer server(options, say("hi", {}, '|'));
  const Json whole = ask(server, {{"input", "q"}, {"metadata", large_metadata(6'000'000)}, {"max_output_tokens", 8}});
  const std::string path = "/v1/responses/" + whole["id"].get<std::string>();
  std::vector<std::unique_ptr<Connection>> readers;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    Connection& reader = *readers.emplace_back(std::make_unique<Connection>(server.port()));
    reader.receive_slowly();
    reader.send(request_text("GET", path));
    EXPECT_TRUE(reader.read_until("\r\n\r\n"));
    const bool is_refused = reader.received().starts_with("HTTP/1.1 503");
    EXPECT_TRUE(is_refused || reader.received().starts_with("HTTP/1.1 200")) << reader.received().substr(0, 200);
    refused += is_refused ? 1 : 0;
  }
  EXPECT_GT(refused, 10) << "192 MiB hold no more than 32 of them, and one client does not get all";
  EXPECT_LT(refused, 40);
  Connection other(server.port(), "127.0.0.2");
  other.send(request_text("POST", "/v1/responses", Json{{"input", "q"}, {"max_output_tokens", 2}}.dump()));
  EXPECT_EQ(other.read_answer().status, 200);
  readers.clear();
  int status = 503;
  for (int i = 0; i < 1000 && status == 503; ++i) {  // until all who have left are known to have
    status = get(server.port(), path).status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(status, 200);
}

}  // namespace
}  // namespace rocmforge
