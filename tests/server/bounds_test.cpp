// The limits of one client's requests: work, memory, places, priority.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/client.h"
#include "server/local_server.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

std::string message(const HttpAnswer& answer) { return answer.json()["error"]["message"].get<std::string>(); }

TEST(Work, OfReadingARequestHasALimitThatTheAnswerNames) {
  TestServerOptions options;
  options.server.request_work = 10'000;
  options.server.chat_template = "{% for i in range(100000) %}{% endfor %}>";
  const LocalServer server(options, say("hi"));
  const std::string limit = "reading the request takes more than the 10000 units of work that are allowed";
  const HttpAnswer parsed = post_text(
      server, "/v1/completions", "{\"a\": [" + [] {
        std::string list = "0";
        for (int i = 0; i < 20'000; ++i) {
          list += ",0";
        }
        return list;
      }() + "]}");
  EXPECT_EQ(parsed.status, 400);
  EXPECT_EQ(message(parsed), limit);
  const HttpAnswer encoded = post(server, "/tokenize", {{"content", std::string(20'000, 'a')}});
  EXPECT_EQ(encoded.status, 400);
  EXPECT_EQ(message(encoded), limit);
  const HttpAnswer rendered = post(server, "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}});
  EXPECT_EQ(rendered.status, 400);
  EXPECT_EQ(message(rendered), limit);
  EXPECT_EQ(post(server, "/v1/completions", {{"prompt", "x>"}}).status, 200);
}

/// A server on which reading a conversation takes a very long time.
TestServerOptions endless_reading() {
  TestServerOptions options;
  options.server.request_work = 1'000'000'000'000'000;
  options.server.chat_template =
      "{% if messages[0].content == 'long' %}{% for i in range(4000) %}{% for j in range(4000) %}{% endfor %}{% endfor %}"
      "{% endif %}>";
  return options;
}
const Json long_request = {{"messages", {{{"role", "user"}, {"content", "long"}}}}};

TEST(Reading, EndsAtTheRequestsTime) {
  TestServerOptions options = endless_reading();
  options.server.request_time = milliseconds(50);
  const FakeServer server(options, say("hi"));
  const HttpAnswer answer = post(server.port(), "/v1/chat/completions", long_request);
  EXPECT_EQ(answer.status, 504);
  EXPECT_EQ(message(answer), "the request took longer than 0.05 s");
}

TEST(Reading, EndsWhenTheClientLeaves) {
  FakeServer server(endless_reading(), say("hi"));
  for (int i = 0; i < 20; ++i) {  // more than there are threads
    Connection connection(server.port());
    connection.send(request_text("POST", "/v1/chat/completions", long_request.dump()));
  }
  EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}}).status, 200);
  const std::string left = "http_responses_total{status=\"499\"";
  const std::string read = "http_responses_total{status=\"400\"";
  while (std::max(server.metric(left), 0.0) + std::max(server.metric(read), 0.0) < 20.0) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(server.metric(left), 20.0) << "none was read to its end";
}

TEST(Reading, ThatTakesLongDoesNotHoldUpShortRequestsOfOthers) {
  const FakeServer server(endless_reading(), say("hi"));
  std::vector<std::unique_ptr<Connection>> endless;
  for (int i = 0; i < 24; ++i) {  // each of another client, so that each gets its turn
    endless.push_back(std::make_unique<Connection>(server.port(), fmt::format("127.0.0.{}", 2 + i)));
    endless.back()->send(request_text("POST", "/v1/chat/completions", long_request.dump()));
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}}).status, 200);
  }
  EXPECT_EQ(server.metric("http_responses_total{status=\"200\""), 8.0) << "of the long ones none";
}

TEST(Reading, BeginsAgainWhereItTakesLongAndGivesTheSameAnswer) {
  TestServerOptions options;
  options.server.chat_template =
      "{% for i in range(messages[0].content | length * 1000) %}{% endfor %}{% for m in messages %}{{ m.content }}>{% "
      "endfor %}";
  const FakeServer server(options, say("hi"));
  const auto ask = [&](std::size_t length) {
    return post(server.port(), "/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", std::string(length, 'a')}}}}, {"unknown", 1}});
  };
  const HttpAnswer quick = ask(1);
  const HttpAnswer slow = ask(60);
  EXPECT_EQ(slow.status, 200) << slow.body;
  EXPECT_EQ(slow.json()["choices"], quick.json()["choices"]);
  EXPECT_EQ(slow.headers.at("x-ignored-fields"), "unknown");
}

TEST(Reading, EndsWithTheServersDrain) {
  FakeServer server(endless_reading(), say("hi"));
  Connection connection(server.port());
  connection.send(request_text("POST", "/v1/chat/completions", long_request.dump()));
  EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}}).status, 200);
  EXPECT_FALSE(server.server().drain(milliseconds(10)));
  const HttpAnswer answer = connection.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(message(answer), "the server is shutting down");
}

TEST(Memory, IsSharedByAllRequestsAndGivenBack) {
  TestServerOptions options;
  options.server.request_memory = 4 << 20;
  options.server.max_waiting = 200;
  options.server.client_share = 100;
  const FakeServer server(options, say("hi"));
  const Json large = {{"content", std::string(200'000, 'a')}};
  const HttpAnswer refused = post(server.port(), "/tokenize", large);
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(message(refused).starts_with("there is no memory for this request beside the others: ")) << message(refused);
  for (int i = 0; i < 50; ++i) {  // each takes a large part of it, one after the other
    EXPECT_EQ(post(server.port(), "/tokenize", {{"content", std::string(50'000, 'a')}}).status, 200);
  }
  Json biased = {{"prompt", "x>"}, {"n", 64}, {"logit_bias", Json::object()}};
  for (int i = 3; i < 250; ++i) {
    biased["logit_bias"][std::to_string(i)] = 0;
  }
  EXPECT_EQ(post(server.port(), "/v1/completions", biased).status, 200);
  biased["n"] = 128;
  EXPECT_EQ(post(server.port(), "/v1/completions", biased).status, 503) << "each answer has its own";
}

TEST(Memory, OfAnAnswerThatGrowsTooLargeEndsThatOneAlone) {
  TestServerOptions options;
  options.server.request_memory = 1 << 20;
  options.server.client_share = 100;
  const FakeServer server(options, say(std::string(200, 'a')));
  const HttpAnswer large =
      post(server.port(), "/generate", {{"prompt", "x>"}, {"n", 60}, {"n_probs", 20}, {"n_predict", 200}});
  EXPECT_EQ(large.status, 503);
  EXPECT_TRUE(message(large).starts_with("there is no memory for this request beside the others: ")) << message(large);
  int status = 503;  // until the abandoned answer has freed its memory
  for (int i = 0; i < 1000 && status == 503; ++i) {
    status = post(server.port(), "/v1/completions", {{"prompt", "x>"}}).status;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(status, 200);
}

TEST(LargeAnswers, AreWholeAndTheSameInPieces) {
  const FakeServer server({}, say(std::string(150, 'a')));
  const Json one = {{"prompt", "x>"}, {"logprobs", 5}, {"echo", true}, {"max_tokens", 200}, {"temperature", 0}};
  Json many = one;
  many["n"] = 16;
  const HttpAnswer small = post(server.port(), "/v1/completions", one);
  const HttpAnswer large = post(server.port(), "/v1/completions", many);
  EXPECT_TRUE(small.headers.contains("content-length"));
  EXPECT_EQ(large.headers.at("transfer-encoding"), "chunked");
  ASSERT_TRUE(large.complete);
  const Json choices = large.json()["choices"];
  ASSERT_EQ(choices.size(), 16u);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Json expected = small.json()["choices"][0];
    expected["index"] = i;
    EXPECT_EQ(choices[i], expected);
  }
  const std::string text(90'000, 'b');
  const Json ids = post(server.port(), "/tokenize", {{"content", text}}).json();
  const Json pieces = post(server.port(), "/tokenize", {{"content", text}, {"with_pieces", true}}).json()["tokens"];
  ASSERT_EQ(pieces.size(), ids["tokens"].size());
  EXPECT_EQ(pieces.back(), (Json{{"id", ids["tokens"].back()}, {"piece", "b"}}));
  const std::string content = post(server.port(), "/detokenize", ids).json()["content"];
  EXPECT_TRUE(content.ends_with(text)) << content.size();
}

TEST(Places, OneClientsAnswersLeaveRoomForOthers) {
  TestServerOptions options;
  options.engine.max_sequences = 2;
  options.server.max_waiting = 78;
  FakeServer server(options, say(std::string(200, 'a'), milliseconds(2)));
  Connection first(server.port());
  first.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "n": 70, "max_tokens": 200})"));
  while (server.metric("num_requests_running") + server.metric("num_requests_waiting") < 70.0) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  const HttpAnswer more = post(server.port(), "/v1/completions", {{"prompt", "x>"}});
  EXPECT_EQ(more.status, 429);
  EXPECT_EQ(message(more), "the queue is full for this client: it has 70 answers under way and may have 70 now");
  Connection other(server.port(), "127.0.0.2");
  other.send(request_text("POST", "/v1/completions", R"({"prompt": "y>", "max_tokens": 2})"));
  EXPECT_EQ(other.read_answer().status, 200);
  EXPECT_GE(server.metric("num_requests_running") + server.metric("num_requests_waiting"), 40.0)
      << "it has not waited for all that came before it";
}

TEST(Priority, IsRaisedOnlyAsFarAsAllowed) {
  TestServerOptions options;
  options.server.max_priority = 2;
  options.server.keys = {"usual", ApiKey("better", 100), ApiKey("none", 0)};
  const FakeServer server(options, say("hi"));
  const auto ask = [&](const std::string& key, int priority) {
    return post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"priority", priority}},
                {"Authorization: Bearer " + key});
  };
  EXPECT_EQ(ask("usual", 1000).status, 200);
  EXPECT_EQ(ask("usual", -2).status, 200);
  const HttpAnswer refused = ask("usual", -3);
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(message(refused), "priority is -3, must be -2 to 1000");
  EXPECT_EQ(refused.json()["error"]["param"], "priority");
  EXPECT_EQ(ask("better", -100).status, 200);
  EXPECT_EQ(ask("none", -1).status, 400);
}

/// How many tokens of the prompt came from the cache.
int cached_tokens(const FakeServer& server, const Json& more, const std::string& key) {
  Json request = {{"prompt", std::string(100, 'p') + ">"}, {"max_tokens", 1}};
  request.update(more);
  const HttpAnswer answer = post(server.port(), "/v1/completions", request, {"Authorization: Bearer " + key});
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>();
}

TEST(Prefixes, OfOneKeyAreNotSeenByAnother) {
  TestServerOptions options;
  options.server.keys = {"alpha", "beta"};
  const FakeServer server(options, say("hi"));
  EXPECT_EQ(cached_tokens(server, Json::object(), "alpha"), 0);
  EXPECT_GT(cached_tokens(server, Json::object(), "alpha"), 0);
  EXPECT_EQ(cached_tokens(server, Json::object(), "beta"), 0);
  EXPECT_GT(cached_tokens(server, Json::object(), "beta"), 0);
  EXPECT_EQ(cached_tokens(server, {{"cache_salt", "a user"}}, "alpha"), 0);
  EXPECT_GT(cached_tokens(server, {{"cache_salt", "a user"}}, "alpha"), 0);
  EXPECT_EQ(cached_tokens(server, {{"cache_salt", "another"}}, "alpha"), 0);
  EXPECT_EQ(cached_tokens(server, {{"cache_salt", "a user"}}, "beta"), 0);
}

TEST(Prefixes, AreSharedWhereThatIsWanted) {
  TestServerOptions options;
  options.server.keys = {"alpha", "beta"};
  options.server.share_prefixes = true;
  const FakeServer server(options, say("hi"));
  EXPECT_EQ(cached_tokens(server, Json::object(), "alpha"), 0);
  EXPECT_GT(cached_tokens(server, Json::object(), "beta"), 0);
  EXPECT_EQ(cached_tokens(server, {{"cache_salt", "a user"}}, "alpha"), 0) << "a salt keeps apart all the same";
  EXPECT_GT(cached_tokens(server, {{"cache_salt", "a user"}}, "beta"), 0);
}

TEST(Prefixes, OfKeysThatAreIsolatedAreNotShared) {
  TestServerOptions options;
  options.server.keys = {"alpha", "beta"};
  options.server.share_prefixes = true;
  options.server.isolate_keys = true;
  const FakeServer server(options, say("hi"));
  EXPECT_EQ(cached_tokens(server, Json::object(), "alpha"), 0);
  EXPECT_EQ(cached_tokens(server, Json::object(), "beta"), 0);
  EXPECT_GT(cached_tokens(server, Json::object(), "beta"), 0);
}

TEST(Bodies, WithBytesBehindANulAreRefused) {
  const LocalServer server({}, say("hi"));
  const std::string body = R"({"prompt": "x>"})";
  EXPECT_EQ(post_text(server, "/v1/completions", body).status, 200);
  for (const std::string& more : {std::string("\0", 1), std::string("\0{\"prompt\": 1}", 15)}) {
    const HttpAnswer answer = post_text(server, "/v1/completions", body + more);
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(message(answer), "the body is not valid JSON: byte 17 is NUL");
  }
}

TEST(Errors, QuoteOnlySoMuchOfARequest) {
  const LocalServer server({}, say("hi"));
  const std::string name(1'000'000, 'n');
  for (const Json& body :
       {Json{{"prompt", "x>"}, {"temperature", name}}, Json{{"prompt", "x>"}, {"grammar", name}},
        Json{{"prompt", "x>"}, {"response_format", {{"type", name}}}}, Json{{"prompt", "x>"}, {"logit_bias", {{name, 1}}}},
        Json{{"prompt", {name, {name}}}}, Json{{"prompt", "x>"}, {"json_schema", {{name, 1}, {"type", name}}}}}) {
    const HttpAnswer answer = post(server, "/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << answer.body.substr(0, 300);
    EXPECT_LT(answer.body.size(), 1000u) << answer.body.substr(0, 300);
  }
}

TEST(Watching, IsPossibleHoweverManyConnectionsThereAre) {
  TestServerOptions options;
  options.server.http.connections = 8;
  options.server.http.reserved_connections = 2;
  const FakeServer server(options, say("hi"));
  std::vector<std::unique_ptr<Connection>> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(std::make_unique<Connection>(server.port()));
    silent.back()->send("POST /v1/completions HTTP/1.1\r\n");
  }
  for (const char* path : {"/health", "/v1/health", "/ready", "/metrics"}) {
    EXPECT_EQ(get(server.port(), path).status, 200) << path;
  }
}

}  // namespace
}  // namespace rocmforge
