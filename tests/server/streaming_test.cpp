// Streams and answers of the fake model, whose tokens are bytes and whose timing a script decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "server/client.h"
#include "server/local_server.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

using std::chrono::milliseconds;

std::string text_of(const std::vector<Json>& events, int index = 0) {
  std::string text;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      text += choice["index"] == index ? choice["text"].get<std::string>() : "";
    }
  }
  return text;
}

TEST(Streaming, EventsOfACompletion) {
  const LocalServer server({}, say("some words"));
  const HttpAnswer answer =
      post(server, "/v1/completions", {{"prompt", "x>"}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
  EXPECT_TRUE(answer.complete);
  EXPECT_TRUE(answer.done());
  const std::vector<Json> events = answer.events();
  ASSERT_GE(events.size(), 3u);
  EXPECT_EQ(text_of(events), "some words");
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_EQ(event["created"], events[0]["created"]);
    EXPECT_EQ(event["object"], "text_completion");
    EXPECT_EQ(event["model"], "model");
    const bool usage = i + 1 == events.size();
    const bool last = i + 2 == events.size();
    EXPECT_EQ(event["usage"].is_null(), !usage);
    EXPECT_EQ(event["choices"].empty(), usage);
    if (!usage) {
      EXPECT_EQ(event["choices"][0]["finish_reason"], last ? Json("stop") : Json(nullptr));
    }
  }
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 11);  // with the end
  EXPECT_TRUE(events[0]["id"].get<std::string>().starts_with("cmpl-"));
}

TEST(Streaming, TimingsOfTheTokensSoFarOnRequest) {
  const LocalServer server({}, say("some words", milliseconds(2)));
  Json request = {{"prompt", "x>"}, {"stream", true}};
  for (const Json& event : post(server, "/v1/completions", request).events()) {
    EXPECT_TRUE(!event.contains("timings") || !event["choices"][0]["finish_reason"].is_null()) << event;
  }
  request["timings_per_token"] = true;
  const std::vector<Json> events = post(server, "/v1/completions", request).events();
  ASSERT_EQ(events.size(), 11u) << "one for each byte, and the end";
  double before_ms = -1.0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& timings = events[i]["timings"];
    EXPECT_EQ(timings["predicted_n"], i + 1);
    EXPECT_GT(timings["predicted_ms"], before_ms) << "a step takes at least 2 ms";
    before_ms = timings["predicted_ms"];
    EXPECT_NEAR(timings["predicted_per_second"], i == 0 ? 0.0 : 1e3 * static_cast<double>(i) / before_ms, 1e-6);
    EXPECT_EQ(timings.contains("prompt_ms"), i + 1 == events.size());
  }
}

TEST(Streaming, DraftedTokensComeTogether) {
  TestServerOptions options;
  options.engine.drafts = {.most = 4, .ngram = 2, .adapts = false};
  const LocalServer server(std::move(options), say("some words again"));
  const Json request = {{"prompt", "x>"}, {"stream", true}, {"logprobs", 0}};
  const std::vector<Json> first = post(server, "/v1/completions", request).events();
  const std::vector<Json> again = post(server, "/v1/completions", request).events();  // the answer is known by now
  const auto read = [](const std::vector<Json>& events) {
    std::string text;
    std::size_t logprobs = 0;
    for (const Json& event : events) {
      const Json& choice = event["choices"][0];
      text += choice["text"].get<std::string>();
      logprobs += choice["logprobs"].is_null() ? 0 : choice["logprobs"]["tokens"].size();
    }
    return std::pair(text, logprobs);
  };
  EXPECT_EQ(read(first).first, "some words again");
  EXPECT_EQ(read(again), read(first));
  EXPECT_LT(again.size(), 8u) << "up to five tokens a step";
  EXPECT_GT(first.size(), 14u) << "hardly anything of the answer stood before";
  EXPECT_GE(again.back()["timings"]["draft_n"], again.back()["timings"]["draft_n_accepted"]);
  EXPECT_GE(again.back()["timings"]["draft_n_accepted"], 10);
  EXPECT_EQ(again.back()["timings"]["predicted_n"], first.back()["timings"]["predicted_n"]);
}

TEST(Streaming, SeveralAnswersShareAStream) {
  const LocalServer server({}, say("abc"));
  const Json request = {{"prompt", {"1>", "2>"}}, {"n", 3}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  const HttpAnswer answer = post(server, "/v1/completions", request);
  const std::vector<Json> events = answer.events();
  std::map<int, int> ends;
  for (const Json& event : events) {
    for (const Json& choice : event["choices"]) {
      ends[choice["index"]] += choice["finish_reason"].is_null() ? 0 : 1;
    }
  }
  EXPECT_EQ(ends, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}}));
  for (int index = 0; index < 6; ++index) {
    EXPECT_EQ(text_of(events, index), "abc");
  }
  EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 2 * 6)
      << "each prompt counts once: BOS, a blank of three bytes, two characters";
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 6 * 4);
}

TEST(Streaming, AnErrorHasItsStatusUntilTheStreamBegins) {
  const LocalServer server({}, [](const FakeModel::Tokens&) { return -1; });
  Json request = {{"prompt", "x>"}};
  const HttpAnswer whole = post(server, "/v1/completions", request);
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.json()["error"]["type"], "server_error");
  request["stream"] = true;
  const HttpAnswer begun = post(server, "/v1/completions", request);
  EXPECT_EQ(begun.status, 200);
  EXPECT_EQ(begun.events().back()["error"]["type"], "server_error");
  EXPECT_FALSE(begun.done());
  request["prompt"] = std::string(300, 'x');
  EXPECT_EQ(post(server, "/v1/completions", request).status, 400) << "the engine does not accept it";
}

/// A model that says nothing before it may.
FakeModel::Script say_when(const std::shared_ptr<std::atomic<bool>>& may, const std::string& text) {
  return [may, speak = say(text)](const FakeModel::Tokens& visible) {
    while (!*may) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    return speak(visible);
  };
}

TEST(Streaming, BeginsAtOnceAndShowsThatItLives) {
  TestServerOptions options;
  options.server.http.heartbeat_time = milliseconds(1);
  options.server.chat_template = "{% for m in messages %}{{ m.content }}>{% endfor %}";
  const Json chat = {{"messages", {{{"role", "user"}, {"content", "q"}}}}, {"max_tokens", 20}, {"stream", true}};
  for (const char* path : {"/v1/completions", "/completion", "/v1/chat/completions", "/v1/messages"}) {
    const auto may = std::make_shared<std::atomic<bool>>(false);
    const FakeServer server(options, say_when(may, "some words"));
    const bool is_raw = std::string_view(path).ends_with("completion") || path == std::string_view("/v1/completions");
    const Json request = is_raw ? Json{{"prompt", "x>"}, {"stream", true}} : chat;
    Connection connection(server.port());
    connection.send(request_text("POST", path, request.dump()));
    EXPECT_TRUE(connection.read_until("text/event-stream")) << path;
    EXPECT_TRUE(connection.read_until(": waiting\n\n")) << path;
    EXPECT_EQ(connection.received().find("data:"), std::string::npos) << connection.received();
    *may = true;
    const HttpAnswer answer = connection.read_answer();
    EXPECT_TRUE(answer.complete) << path;
    EXPECT_NE(answer.body.find("data:"), std::string::npos) << answer.body;
  }
}

TEST(Streaming, LinesHaveNoComments) {
  TestServerOptions options;
  options.server.http.heartbeat_time = milliseconds(1);
  const auto may = std::make_shared<std::atomic<bool>>(false);
  const FakeServer server(options, say_when(may, "hi"));
  Connection connection(server.port());
  connection.send(request_text("POST", "/api/generate", Json{{"prompt", "x>"}, {"raw", true}}.dump()));
  EXPECT_TRUE(connection.read_until("application/x-ndjson")) << "the head comes at once";
  *may = true;
  const std::string body = connection.read_answer().body;
  EXPECT_EQ(body.find("waiting"), std::string::npos) << body;
  EXPECT_EQ(body[0], '{');
}

TEST(Streaming, AnErrorAfterTheFirstTokenIsAnEvent) {
  const LocalServer server({},
                           [](const FakeModel::Tokens& visible) { return visible.size() < 9 ? byte_ids("a").front() : -1; });
  const HttpAnswer answer = post(server, "/v1/completions", {{"prompt", "x>"}, {"stream", true}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.complete);
  EXPECT_FALSE(answer.done());
  EXPECT_EQ(answer.events().back()["error"]["type"], "server_error");
}

TEST(Streaming, AClientThatGoesFreesItsBlocksWithinAStep) {
  FakeServer server({}, say(std::string(200, 'a'), milliseconds(5)));
  {
    Connection connection(server.port());
    connection.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "stream": true, "max_tokens": 200})"));
    ASSERT_TRUE(connection.read_until("\"text\":\"a\""));
    EXPECT_EQ(server.metric("num_requests_running"), 1.0);
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.metric("request_success_total{finished_reason=\"cancelled\""), 1.0);
  EXPECT_LT(server.metric("generation_tokens_total"), 100.0);
}

TEST(Streaming, AClientThatGoesWhileItWaitsForTheWholeAnswerIsCancelledToo) {
  FakeServer server({}, say(std::string(200, 'a'), milliseconds(5)));
  {
    Connection connection(server.port());
    connection.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "max_tokens": 200})"));
    while (server.metric("num_requests_running") < 1.0) {
      std::this_thread::sleep_for(milliseconds(2));
    }
  }
  EXPECT_TRUE(server.becomes_idle());
  EXPECT_EQ(server.metric("request_success_total{finished_reason=\"cancelled\""), 1.0);
}

TEST(Streaming, ASlowReaderDoesNotHoldUpTheOthers) {
  TestServerOptions options;
  options.server.http.unread_bytes = 4096;
  options.server.max_waiting = 1000;
  options.server.max_priority = 1;
  FakeServer server(options, say(std::string(200, 'a')));
  Connection slow(server.port());
  slow.receive_slowly();
  Json prompts = Json::array();
  for (int i = 0; i < 60; ++i) {
    prompts.push_back(std::to_string(i) + ">");
  }
  slow.send(request_text("POST", "/v1/completions",
                         Json{{"prompt", prompts}, {"n", 8}, {"stream", true}, {"max_tokens", 200}}.dump()));
  while (server.metric("generation_tokens_total") < 1.0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  const HttpAnswer answer = post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"priority", -1}, {"max_tokens", 50}});
  EXPECT_EQ(answer.json()["choices"][0]["text"], std::string(50, 'a'));
  EXPECT_TRUE(server.becomes_idle()) << "the slow reader is dropped";
  EXPECT_GT(server.metric("request_success_total{finished_reason=\"cancelled\""), 0.0);
}

TEST(Streaming, CancelEndsAStreamByItsId) {
  FakeServer server({}, say(std::string(200, 'a'), milliseconds(5)));
  Connection connection(server.port());
  connection.send(request_text("POST", "/generate", R"({"prompt": "x>", "stream": true})"));
  ASSERT_TRUE(connection.read_until("\"id\":\"gen-"));
  const std::string received = connection.received();
  const std::size_t at = received.find("gen-");
  const std::string id = received.substr(at, received.find('"', at) - at);
  EXPECT_EQ(post(server.port(), "/cancel/" + id, Json::object()).json()["cancelled"], true);
  const HttpAnswer answer = connection.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.events().back()["stop_type"], "cancelled");
  EXPECT_EQ(post(server.port(), "/cancel/" + id, Json::object()).status, 404);
}

TEST(Queue, IsFullWith429AndSaysWhenToComeBack) {
  TestServerOptions options;
  options.engine.max_sequences = 1;
  options.server.max_waiting = 1;
  FakeServer server(options, say(std::string(200, 'a'), milliseconds(5)));
  Connection first(server.port());
  Connection second(server.port());
  for (const Connection* connection : {&first, &second}) {
    connection->send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "max_tokens": 200})"));
  }
  while (server.metric("num_requests_running") + server.metric("num_requests_waiting") < 2.0) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  const HttpAnswer answer = post(server.port(), "/v1/completions", {{"prompt", "x>"}});
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(answer.json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(server.metric("request_rejected_total{reason=\"queue_full\""), 1.0);
}

TEST(Queue, TakesNoMoreAnswersThanItHasRoomFor) {
  TestServerOptions options;
  options.engine.max_sequences = 1;
  options.server.max_waiting = 3;
  FakeServer server(options, say(std::string(200, 'a'), milliseconds(5)));
  Connection first(server.port());
  first.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "n": 3, "max_tokens": 200})"));
  while (server.metric("num_requests_running") + server.metric("num_requests_waiting") < 3.0) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"n", 2}}).status, 429) << "there is room for one";
  const HttpAnswer never = post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"n", 5}});
  EXPECT_EQ(never.status, 400);
  EXPECT_EQ(never.json()["error"]["message"], "the request asks for 5 answers, the server takes at most 4 at once");
}

TEST(Drain, LetsRunningRequestsEnd) {
  FakeServer server({}, say(std::string(40, 'a'), milliseconds(5)));
  Connection connection(server.port());
  connection.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "stream": true, "max_tokens": 40})"));
  ASSERT_TRUE(connection.read_until("\"text\":\"a\""));
  EXPECT_TRUE(server.server().drain(std::chrono::seconds(20)));
  const HttpAnswer answer = connection.read_answer();
  EXPECT_EQ(text_of(answer.events()), std::string(40, 'a'));
  EXPECT_TRUE(answer.done());
}

TEST(Drain, CancelsWhatTakesTooLong) {
  FakeServer server({}, say(std::string(200, 'a'), milliseconds(20)));
  Connection connection(server.port());
  connection.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "stream": true, "max_tokens": 200})"));
  ASSERT_TRUE(connection.read_until("\"text\":\"a\""));
  EXPECT_FALSE(server.server().drain(milliseconds(100)));
  const HttpAnswer answer = connection.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_LT(text_of(answer.events()).size(), 100u);
}

TEST(Timeout, EndsARequestThatTakesTooLong) {
  TestServerOptions options;
  options.server.request_time = milliseconds(100);
  FakeServer server(options, say(std::string(200, 'a'), milliseconds(10)));
  const HttpAnswer whole = post(server.port(), "/v1/completions", {{"prompt", "x>"}, {"max_tokens", 200}});
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.json()["error"]["message"], "the request took longer than 0.1 s");
}

TEST(Timeout, EndsAStreamThatHasNotBegunToWriteAndNoOther) {
  TestServerOptions options;
  options.server.request_time = milliseconds(100);
  options.engine.max_sequences = 1;
  FakeServer server(options, say(std::string(60, 'a'), milliseconds(10)));
  const std::string request = Json{{"prompt", "x>"}, {"max_tokens", 200}, {"stream", true}}.dump();
  Connection writes(server.port());
  writes.send(request_text("POST", "/v1/completions", request));
  ASSERT_TRUE(writes.read_until("data:"));
  const HttpAnswer waits = post_text(server.port(), "/v1/completions", request);
  EXPECT_EQ(waits.events().back()["error"]["type"], "timeout_error") << waits.body;
  const HttpAnswer whole = writes.read_answer();
  EXPECT_EQ(text_of(whole.events()), std::string(60, 'a')) << "it takes longer than the limit";
  EXPECT_TRUE(whole.done());
}

TEST(Logprobs, OfACompletionAddUpToItsText) {
  const LocalServer server;
  const Json request = {{"prompt", "some text"}, {"max_tokens", 12}, {"logprobs", 3}, {"seed", 7}};
  const Json choice = post(server, "/v1/completions", request).json()["choices"][0];
  const Json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i].get<double>(), 0.0);
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 3u);
  }
  double best = 0.0;
  for (const auto& [token, value] : logprobs["top_logprobs"][0].items()) {
    best += std::exp(value.get<double>());
  }
  EXPECT_GT(best, 0.0);
  EXPECT_LE(best, 1.0);
}

TEST(Logprobs, EchoScoresAPrompt) {
  const LocalServer server;
  const Json ids = {1, 100, 101, 102};  // BOS, a, b, c
  const Json request = {{"prompt", ids}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}};
  const HttpAnswer answer = post(server, "/v1/completions", request);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json choice = answer.json()["choices"][0];
  EXPECT_EQ(choice["text"], "abc");
  const Json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 4u);  // BOS, a, b, c
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  EXPECT_EQ(logprobs["text_offset"], (Json{0, 0, 1, 2}));
  const Json more = post(server, "/v1/completions",
                         {{"prompt", ids}, {"max_tokens", 2}, {"logprobs", 1}, {"echo", true}, {"temperature", 0}})
                        .json()["choices"][0];
  EXPECT_EQ(more["logprobs"]["tokens"].size(), 6u);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(more["logprobs"]["token_logprobs"][i], logprobs["token_logprobs"][i]);
  }
}

Json embedding(const LocalServer& server, const Json& more = Json::object()) {
  Json request = {{"input", "a cat sat"}};
  request.update(more);
  return post(server, "/v1/embeddings", request).json()["data"];
}

TEST(Embeddings, AreRefusedWhereTheyAreOff) {
  TestServerOptions options;
  options.server.embeddings = false;
  const LocalServer server(options);
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", "a"}}).status, 400);
  EXPECT_EQ(embedding(server, {{"pooling", "last"}}).size(), 1u);
}

TEST(Embeddings, ArePooledAsTheFileSays) {
  const LocalServer plain;
  EXPECT_EQ(embedding(plain), embedding(plain, {{"pooling", "mean"}}));
  TestServerOptions options;
  for (const auto& [type, name] :
       {std::pair{PoolingType::mean, "mean"}, {PoolingType::cls, "cls"}, {PoolingType::last, "last"}}) {
    options.pooling = type;
    const LocalServer server(options);
    for (const char* asked : {"mean", "cls", "last"}) {
      EXPECT_EQ(embedding(server) == embedding(plain, {{"pooling", asked}}), asked == std::string(name)) << name << asked;
    }
    EXPECT_EQ(embedding(server, {{"pooling", "mean"}}), embedding(plain));
  }
  options.server.pooling = Pooling::mean;  // the operator's word is above the file's
  EXPECT_EQ(embedding(LocalServer(options)), embedding(plain));
}

TEST(Embeddings, OfFilesWithoutPoolingAreRefusedByName) {
  TestServerOptions options;
  const auto refusal = [](const LocalServer& server, const char* path, const char* field) {
    const HttpAnswer answer = post(server, path, {{field, "a"}});
    EXPECT_EQ(answer.status, 400) << path;
    return answer.body;
  };
  for (const auto& [type, words] :
       {std::pair{PoolingType::none, "pooling_type 0 (none)"}, {PoolingType::rank, "pooling_type 4 (rank)"}}) {
    options.pooling = type;
    options.server.pooling.reset();
    const LocalServer server(options);
    EXPECT_THAT(refusal(server, "/v1/embeddings", "input"), testing::HasSubstr(words));
    EXPECT_THAT(refusal(server, "/api/embed", "input"), testing::HasSubstr(words));
    EXPECT_THAT(refusal(server, "/api/embeddings", "prompt"), testing::HasSubstr(words));
    EXPECT_EQ(embedding(server, {{"pooling", "cls"}}), embedding(LocalServer(), {{"pooling", "cls"}}));
    options.server.pooling = Pooling::last;
    EXPECT_EQ(embedding(LocalServer(options)), embedding(LocalServer(), {{"pooling", "last"}}));
  }
}

TEST(Native, GivesProbabilities) {
  const LocalServer server;
  const Json request = {{"prompt", "some text"}, {"n_predict", 6}, {"n_probs", 3}, {"seed", 5}};
  const Json whole = post(server, "/generate", request).json()["completion_probabilities"];
  ASSERT_EQ(whole.size(), 6u);
  for (const Json& token : whole) {
    EXPECT_LE(token["logprob"], 0.0);
    EXPECT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_TRUE(token["bytes"].is_array());
  }
  Json streamed = Json::array();
  Json stream = request;
  stream["stream"] = true;
  for (const Json& event : post(server, "/generate", stream).events()) {
    for (const Json& token : event.value("completion_probabilities", Json::array())) {
      streamed.push_back(token);
    }
  }
  EXPECT_EQ(streamed, whole);
  EXPECT_FALSE(post(server, "/generate", {{"prompt", "x"}, {"n_predict", 1}}).json().contains("completion_probabilities"));
}

TEST(Slots, SayWhenNoneIsFree) {
  TestServerOptions options;
  options.engine.max_sequences = 1;
  FakeServer server(options, say(std::string(200, 'a'), milliseconds(5)));
  EXPECT_EQ(get(server.port(), "/slots?fail_on_no_slot=1").status, 200);
  Connection busy(server.port());
  busy.send(request_text("POST", "/v1/completions", R"({"prompt": "x>", "max_tokens": 200})"));
  while (server.metric("num_requests_running") < 1.0) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(get(server.port(), "/slots?fail_on_no_slot=1").status, 503);
  EXPECT_EQ(get(server.port(), "/slots").status, 200);
}

}  // namespace
}  // namespace rocmforge
