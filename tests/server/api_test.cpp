// Every documented route and parameter, with the demo model.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "server/client.h"
#include "server/local_server.h"
#include "server/running_server.h"

namespace rocmforge {
namespace {

class ApiTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (has_demo_model()) {
      server = local_demo();
    }
  }
  static void TearDownTestSuite() { server.reset(); }
  void SetUp() override {
    if (server == nullptr) {
      GTEST_SKIP() << "models/forge-demo.gguf is missing";
    }
  }

  static Json chat(Json more = Json::object(), const std::string& question = "What is 127 + 458?") {
    Json request = {{"model", "forge-demo"}, {"messages", {{{"role", "user"}, {"content", question}}}}, {"temperature", 0}};
    request.update(more);
    return request;
  }
  static HttpAnswer ask(const Json& more = Json::object()) { return post(*server, "/v1/chat/completions", chat(more)); }

  static std::unique_ptr<LocalServer> server;
};

std::unique_ptr<LocalServer> ApiTest::server;

TEST_F(ApiTest, Health) {
  EXPECT_EQ(get(*server, "/health").json(), (Json{{"status", "ok"}}));
  EXPECT_EQ(get(*server, "/v1/health").status, 200);
  EXPECT_EQ(get(*server, "/ready").status, 200);
  EXPECT_EQ(get(*server, "/version").json(), (Json{{"version", "test"}}));
}

TEST_F(ApiTest, Models) {
  const Json list = get(*server, "/v1/models").json();
  ASSERT_EQ(list["data"].size(), 1u);
  for (const char* key : {"id", "object", "created", "owned_by"}) {
    EXPECT_TRUE(list["data"][0].contains(key)) << key;
  }
  EXPECT_EQ(list["data"][0]["id"], "forge-demo");
  EXPECT_EQ(list["data"][0]["meta"]["n_vocab"], 4096);
  EXPECT_EQ(list["data"][0]["meta"]["size"], std::filesystem::file_size(demo_model()));
  EXPECT_GT(list["data"][0]["meta"]["n_params"], 10'000'000);
  EXPECT_EQ(get(*server, "/models").json(), list);
  EXPECT_EQ(get(*server, "/v1/models/forge-demo").json(), list["data"][0]);
  EXPECT_EQ(get(*server, "/v1/models/gpt-5").json()["error"]["code"], "model_not_found");
}

TEST(Models, AreFoundByAnEncodedName) {
  const FakeServer server;
  EXPECT_EQ(get(server.port(), "/v1/models/mod%65l").json()["id"], "model");
}

TEST_F(ApiTest, Chat) {
  const Json answer = ask().json();
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "forge-demo");
  EXPECT_TRUE(answer["system_fingerprint"].get<std::string>().starts_with("b"));
  const Json& choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "585");
  EXPECT_EQ(choice["finish_reason"], "stop");
  const Json& usage = answer["usage"];
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
  EXPECT_EQ(answer["timings"]["predicted_n"], usage["completion_tokens"]);
  EXPECT_EQ(answer["timings"]["prompt_n"].get<int>() + answer["timings"]["cache_n"].get<int>(), usage["prompt_tokens"]);
}

TEST_F(ApiTest, ChatStream) {
  const HttpAnswer answer = ask({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_TRUE(answer.done());
  const std::vector<Json> events = answer.events();
  EXPECT_EQ(events[0]["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", nullptr}}));
  EXPECT_FALSE(events[0].contains("timings"));
  std::string text;
  for (std::size_t i = 1; i + 2 < events.size(); ++i) {
    const Json& delta = events[i]["choices"][0]["delta"];
    EXPECT_FALSE(delta.contains("role"));
    EXPECT_FALSE(delta["content"].get<std::string>().empty());
    EXPECT_TRUE(events[i]["choices"][0]["finish_reason"].is_null());
    text += delta["content"];
  }
  EXPECT_EQ(text, "585");
  const Json& last = events[events.size() - 2];
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(last["choices"][0]["delta"].empty());
  EXPECT_TRUE(events.back()["choices"].empty());
  EXPECT_GT(events.back()["usage"]["completion_tokens"], 0);
  for (const Json& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_EQ(event["created"], events[0]["created"]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
  }
}

TEST_F(ApiTest, ChatParts) {
  const Json parts = {{{"type", "text"}, {"text", "What is "}}, {{"type", "text"}, {"text", "127 + 458?"}}};
  const Json whole = ask().json();
  const Json answer =
      post(*server, "/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", parts}}}}, {"temperature", 0}})
          .json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_GE(answer["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
}

TEST_F(ApiTest, SeedAndTemperature) {
  const auto text = [&](const Json& more) {
    Json request = {{"prompt", "Once upon"}, {"max_tokens", 20}, {"temperature", 2}};
    request.update(more);
    return post(*server, "/v1/completions", request).json()["choices"][0]["text"].get<std::string>();
  };
  EXPECT_EQ(text({{"seed", 5}}), text({{"seed", 5}}));
  std::set<std::string> answers;
  for (int seed = 0; seed < 6; ++seed) {
    answers.insert(text({{"seed", seed}}));
  }
  EXPECT_GT(answers.size(), 1u);
  // With each of these only the most likely token remains.
  for (const Json& filter : {Json{{"top_k", 1}}, Json{{"top_p", 0}}, Json{{"min_p", 1}}, Json{{"temperature", 0}}}) {
    EXPECT_EQ(text(filter), text({{"temperature", 0}})) << filter.dump();
  }
}

TEST_F(ApiTest, Choices) {
  const Json answer = ask({{"n", 4}, {"seed", 1}}).json();
  ASSERT_EQ(answer["choices"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["message"]["content"], "585");
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], ask().json()["usage"]["prompt_tokens"]) << "the prompt counts once";
  const Json request = {{"prompt", "Once upon"}, {"max_tokens", 20}, {"temperature", 2}, {"n", 6}, {"seed", 1}};
  const Json several = post(*server, "/v1/completions", request).json();
  std::set<std::string> texts;
  for (const Json& choice : several["choices"]) {
    texts.insert(choice["text"]);
  }
  EXPECT_GT(texts.size(), 1u) << "each has its own random stream";
}

TEST_F(ApiTest, LengthAndStop) {
  EXPECT_EQ(ask({{"max_tokens", 1}}).json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(ask({{"max_completion_tokens", 2}, {"max_tokens", 1}}).json()["usage"]["completion_tokens"], 2);
  const Json stopped = ask({{"stop", "85"}}).json()["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], "5");
  EXPECT_EQ(stopped["finish_reason"], "stop");
  EXPECT_GT(ask({{"ignore_eos", true}, {"max_tokens", 20}}).json()["usage"]["completion_tokens"], 19);
}

TEST_F(ApiTest, LogitBias) {
  const std::int32_t five = server->tokenizer().encode("5", {.add_special = false}).back();
  const std::string id = std::to_string(five);
  const auto text = [&](const Json& bias) {
    return ask({{"logit_bias", bias}}).json()["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(text(Json{{id, -100}}).find('5'), std::string::npos);
  EXPECT_EQ(text(Json::array({Json::array({"5", false})})).find('5'), std::string::npos);
  EXPECT_EQ(text(Json::array({Json::array({five, -100})})).find('5'), std::string::npos);
}

TEST(Api, Penalties) {
  const LocalServer server;  // the next token depends on all earlier tokens, so one different token changes the rest
  const auto text = [&](const Json& more) {
    Json request = {{"prompt", "abc"}, {"max_tokens", 100}, {"temperature", 0}};
    request.update(more);
    return post(server, "/v1/completions", request).json()["choices"][0]["text"].get<std::string>();
  };
  const std::string plain = text(Json::object());
  EXPECT_NE(text({{"frequency_penalty", 2}}), plain);
  EXPECT_NE(text({{"presence_penalty", 2}}), plain);
  EXPECT_NE(text({{"repeat_penalty", 5}}), plain);
  EXPECT_NE(text({{"repetition_penalty", 5}}), plain);
  EXPECT_EQ(text({{"repeat_penalty", 5}, {"repeat_last_n", 0}}), plain);
}

TEST_F(ApiTest, ChatLogprobs) {
  const Json choice = ask({{"logprobs", true}, {"top_logprobs", 5}}).json()["choices"][0];
  std::string text;
  for (const Json& token : choice["logprobs"]["content"]) {
    EXPECT_LE(token["logprob"].get<double>(), 0.0);
    ASSERT_EQ(token["top_logprobs"].size(), 5u);
    EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]) << "greedy takes the most likely";
    double sum = 0.0;
    for (const Json& other : token["top_logprobs"]) {
      sum += std::exp(other["logprob"].get<double>());
    }
    EXPECT_LE(sum, 1.0 + 1e-6);
    for (const Json& byte : token["bytes"]) {
      text += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(choice["message"]["content"], text);
  EXPECT_TRUE(ask().json()["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(ask({{"top_logprobs", 0}}).status, 200);
  EXPECT_EQ(ask({{"top_logprobs", 2}}).json()["error"]["param"], "top_logprobs");
  std::string streamed;
  for (const Json& event : ask({{"logprobs", true}, {"stream", true}}).events()) {
    if (const Json& logprobs = event["choices"][0]["logprobs"]; !logprobs.is_null()) {
      for (const Json& token : logprobs["content"]) {
        streamed += token["token"].get<std::string>();
      }
    }
  }
  EXPECT_EQ(choice["message"]["content"], streamed);
}

TEST_F(ApiTest, PrefixHitsAreCounted) {
  const std::string question = "Please reverse the word stone. " + std::string(300, 'a') + " What is 127 + 458?";
  const Json first = post(*server, "/v1/chat/completions", chat(Json::object(), question)).json();
  const Json second = post(*server, "/v1/chat/completions", chat({{"cache_prompt", true}}, question)).json();
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(second["choices"][0]["message"]["content"], first["choices"][0]["message"]["content"]);
}

TEST_F(ApiTest, TooLongAPromptSaysHowLong) {
  std::string question;
  for (int i = 0; i < 3000; ++i) {
    question += "word ";
  }
  for (const bool stream : {false, true}) {
    const HttpAnswer answer = post(*server, "/v1/chat/completions", chat({{"stream", stream}}, question));
    EXPECT_EQ(answer.status, 400);
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["type"], "exceed_context_size_error");
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_GT(error["n_prompt_tokens"], 2048);
    EXPECT_EQ(error["n_ctx"], 2048);
  }
}

TEST_F(ApiTest, Completions) {
  const Json answer = post(*server, "/v1/completions", {{"prompt", "Once upon"}, {"temperature", 0}}).json();
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16) << "the documented default";
  const auto ids = server->tokenizer().encode("Once upon", {});
  EXPECT_EQ(post(*server, "/v1/completions", {{"prompt", ids}, {"temperature", 0}}).json()["choices"], answer["choices"]);
  const Json several = post(*server, "/v1/completions", {{"prompt", {ids, ids}}, {"temperature", 0}, {"n", 2}}).json();
  ASSERT_EQ(several["choices"].size(), 4u);
  for (const Json& choice : several["choices"]) {
    EXPECT_EQ(choice["text"], answer["choices"][0]["text"]);
  }
  const Json echoed = post(*server, "/v1/completions", {{"prompt", "Once upon"}, {"temperature", 0}, {"echo", true}}).json();
  EXPECT_EQ(echoed["choices"][0]["text"], "Once upon" + answer["choices"][0]["text"].get<std::string>());
}

TEST_F(ApiTest, Embeddings) {
  const Json answer = post(*server, "/v1/embeddings", {{"input", {"a cat", "a dog", "a cat", ""}}}).json();
  ASSERT_EQ(answer["data"].size(), 4u) << answer.dump();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["data"][i]["index"], i);
    double sum = 0.0;
    for (const Json& value : answer["data"][i]["embedding"]) {
      sum += value.get<double>() * value.get<double>();
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
  EXPECT_EQ(answer["data"][0]["embedding"], answer["data"][2]["embedding"]);
  EXPECT_NE(answer["data"][0]["embedding"], answer["data"][1]["embedding"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
  const Json packed = post(*server, "/v1/embeddings", {{"input", "a cat"}, {"encoding_format", "base64"}}).json();
  EXPECT_EQ(packed["data"][0]["embedding"].get<std::string>().size(), (512u * 4 + 2) / 3 * 4);
  const Json small = post(*server, "/v1/embeddings", {{"input", "a cat"}, {"dimensions", 8}}).json();
  EXPECT_EQ(small["data"][0]["embedding"].size(), 8u);
  std::set<std::string> poolings;
  for (const char* pooling : {"mean", "last", "cls"}) {
    poolings.insert(post(*server, "/v1/embeddings", {{"input", "a cat sat"}, {"pooling", pooling}}).json()["data"].dump());
  }
  EXPECT_EQ(poolings.size(), 3u);
  EXPECT_EQ(post(*server, "/v1/embeddings", {{"input", Json::array()}}).status, 400);
  const HttpAnswer long_one = post(*server, "/v1/embeddings", {{"input", std::vector<int>(3000, 5)}});
  EXPECT_EQ(long_one.status, 400);
  EXPECT_NE(long_one.json()["error"]["message"].get<std::string>().find("too large"), std::string::npos);
}

TEST_F(ApiTest, Grammar) {
  const Json answer = ask({{"grammar", R"(root ::= "yes" | "no")"}}).json();
  const std::string text = answer["choices"][0]["message"]["content"];
  EXPECT_TRUE(text == "yes" || text == "no") << text;
  EXPECT_EQ(ask({{"grammar", "root ::= \""}}).json()["error"]["param"], "grammar");
}

TEST_F(ApiTest, PropsAndSlots) {
  const Json props = get(*server, "/props").json();
  EXPECT_EQ(props["total_slots"], 8);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 2048);
  EXPECT_EQ(props["model_path"], demo_model().string());
  const Json slots = get(*server, "/slots").json();
  ASSERT_EQ(slots.size(), 8u);
  EXPECT_EQ(slots[0]["is_processing"], false);
}

TEST_F(ApiTest, AliasesGiveTheSame) {
  EXPECT_EQ(post(*server, "/chat/completions", chat()).json()["choices"], ask().json()["choices"]);
  EXPECT_EQ(post(*server, "/embeddings", {{"input", "a"}}).json()["object"], "list");
  EXPECT_EQ(post(*server, "/generate", {{"prompt", "a"}, {"n_predict", 3}}).json()["tokens_predicted"], 3);
}

TEST_F(ApiTest, EveryMetricMoves) {
  ask({{"max_tokens", 5}});
  const std::string text = get(*server, "/metrics").body;
  for (const char* name :
       {"prompt_tokens_total", "generation_tokens_total", "time_to_first_token_seconds_count",
        "inter_token_latency_seconds_count", "time_per_output_token_seconds_count", "e2e_request_latency_seconds_count",
        "request_queue_time_seconds_count", "request_inference_time_seconds_count", "request_prefill_time_seconds_count",
        "request_decode_time_seconds_count", "request_prompt_tokens_count", "request_generation_tokens_count",
        "request_params_max_tokens_count", "request_params_n_count", "request_max_num_generation_tokens_count",
        "time_per_prefill_token_request_seconds_count", "iteration_tokens_total_count", "prefix_cache_queries_total",
        "cache_config_info"}) {
    const std::size_t at = text.find("\nrocmforge:" + std::string(name) + "{model_name=\"forge-demo\",engine=\"0\"");
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_GT(std::stod(text.substr(text.find("} ", at) + 2)), 0.0) << name;
  }
  for (const char* name : {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "num_preemptions_total",
                           "prefix_cache_hits_total", "request_success_total", "spec_decode_num_drafts_total",
                           "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total"}) {
    EXPECT_NE(text.find("\nrocmforge:" + std::string(name) + "{"), std::string::npos) << name;
  }
}

TEST(PromptCache, AnAnswerSaysWhatCameFromHostMemory) {
  if (!has_demo_model()) {
    GTEST_SKIP() << "models/forge-demo.gguf is missing";
  }
  ServerOptions options = TestServerOptions().server;
  options.model_path = demo_model().string();
  EngineOptions engine{.context_length = 256, .max_sequences = 2, .kv_tokens = 256};
  engine.device = "cpu";
  engine.cache_ram_bytes = std::int64_t{8} << 20;
  const LocalServer server(load_model(demo_model().string(), engine), options);
  const auto ask = [&](int first) {
    Json tokens = Json::array();
    for (int i = 0; i < 200; ++i) {
      tokens.push_back((i * i + first) % 200 + 10);
    }
    return post(server, "/v1/completions", {{"prompt", tokens}, {"max_tokens", 1}}).json();
  };
  EXPECT_FALSE(ask(1)["usage"]["prompt_tokens_details"].contains("cached_tokens_details"));
  ask(2);  // takes the pages
  const Json again = ask(1);
  const Json& details = again["usage"]["prompt_tokens_details"];
  EXPECT_EQ(details["cached_tokens"], 192);
  EXPECT_GT(details["cached_tokens_details"]["host"], 100);
  EXPECT_EQ(details["cached_tokens_details"]["disk"], 0);
  EXPECT_EQ(details["cached_tokens_details"]["host"].get<int>() + details["cached_tokens_details"]["device"].get<int>(),
            192);
  EXPECT_EQ(again["timings"]["cache_n"], 192);
  EXPECT_EQ(again["timings"]["cache_host_n"], details["cached_tokens_details"]["host"]);
  const std::string metrics = get(server, "/metrics").body;
  for (const char* name : {"external_prefix_cache_hits_total", "external_prefix_cache_queries_total", "host_cache_bytes",
                           "host_cache_usage_perc"}) {
    const std::size_t at = metrics.find("\nrocmforge:" + std::string(name) + "{");
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_GT(std::stod(metrics.substr(metrics.find("} ", at) + 2)), 0.0) << name;
  }
}

TEST(Access, KeyIsAskedForEverywhereButInPublic) {
  TestServerOptions options;
  options.server.keys = {"secret"};
  const FakeServer server(options, say("hi"));
  const std::vector<std::string> key = {"Authorization: Bearer secret"};
  for (const char* path : {"/health", "/ready", "/v1/models"}) {
    EXPECT_EQ(get(server.port(), path).status, 200) << path;
  }
  for (const char* path : {"/metrics", "/slots", "/props", "/nothing"}) {
    const HttpAnswer answer = get(server.port(), path);
    EXPECT_EQ(answer.status, 401) << path;
    EXPECT_EQ(answer.json()["error"]["type"], "authentication_error");
    EXPECT_EQ(answer.headers.at("www-authenticate"), "Bearer");
    EXPECT_EQ(get(server.port(), path, key).status, std::string(path) == "/nothing" ? 404 : 200);
  }
  EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}}).status, 401);
  EXPECT_EQ(post(server.port(), "/v1/completions", {{"prompt", "x>"}}, {"X-Api-Key: secret"}).status, 200);
  EXPECT_EQ(server.log().find("secret"), std::string::npos);
}

TEST(Access, CorsIsOffUnlessAskedFor) {
  const std::string origin = "Origin: https://page.example";
  const FakeServer closed({}, say("hi"));
  EXPECT_EQ(get(closed.port(), "/health", {origin}).status, 403);
  EXPECT_FALSE(get(closed.port(), "/health").headers.contains("access-control-allow-origin"));
  TestServerOptions options;
  options.server.cors_origins = {"https://page.example"};
  options.server.keys = {"secret"};
  const FakeServer open(options, say("hi"));
  Connection connection(open.port());
  connection.send(request_text("OPTIONS", "/v1/completions", {}, {origin, "Access-Control-Request-Method: POST"}));
  const HttpAnswer preflight = connection.read_answer();
  EXPECT_EQ(preflight.status, 200);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "*, Authorization, Content-Type, X-Api-Key");
  EXPECT_EQ(get(open.port(), "/metrics", {origin}).headers.at("access-control-allow-origin"), "https://page.example")
      << "even a refusal";
}

TEST(Access, AnyOriginIsLetInWithoutCredentials) {
  TestServerOptions options;
  options.server.cors_origins = {"*", "https://known.example"};
  const FakeServer server(options, say("hi"));
  const HttpAnswer any = get(server.port(), "/health", {"Origin: https://page.example"});
  EXPECT_EQ(any.status, 200);
  EXPECT_EQ(any.headers.at("access-control-allow-origin"), "*");
  EXPECT_FALSE(any.headers.contains("access-control-allow-credentials"));
  const HttpAnswer known = get(server.port(), "/health", {"Origin: https://known.example"});
  EXPECT_EQ(known.headers.at("access-control-allow-origin"), "https://known.example");
  EXPECT_EQ(known.headers.at("access-control-allow-credentials"), "true");
  EXPECT_EQ(known.headers.at("vary"), "Origin");
}

TEST(Log, HoldsNoTextUnlessAsked) {
  for (const bool shown : {false, true}) {
    TestServerOptions options;
    options.server.log.requests = shown;
    const FakeServer server(options, say("the answer"));
    const HttpAnswer answer = post(server.port(), "/v1/completions", {{"prompt", "the question>"}});
    EXPECT_EQ(server.log().find("the question") != std::string::npos, shown);
    EXPECT_EQ(server.log().find("the answer") != std::string::npos, shown);
    EXPECT_NE(server.log().find("id=" + answer.headers.at("x-request-id")), std::string::npos);
  }
}

TEST(Page, IsServedUnderAStrictPolicy) {
  const LocalServer server({}, say("hi"));
  const HttpAnswer page = get(server, "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_TRUE(page.headers.at("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
  std::size_t files = 0;
  for (std::size_t at = 0; (at = page.body.find("\"page/", at)) != std::string::npos; ++files) {
    const std::size_t end = page.body.find('"', ++at);
    EXPECT_EQ(get(server, "/" + page.body.substr(at, end - at)).status, 200) << page.body.substr(at, end - at);
  }
  EXPECT_GT(files, 0u);
  TestServerOptions options;
  options.server.page = false;
  const LocalServer without(options, say("hi"));
  EXPECT_EQ(get(without, "/").status, 404);
}

TEST(Loading, IsAnsweredWith503) {
  ServerOptions options = TestServerOptions().server;
  const TemporaryFolder folder;
  options.log.file = folder.write("log", "");
  const Server server(options);
  const HttpAnswer health = get(server.port(), "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json()["error"]["message"], "Loading model");
  EXPECT_EQ(health.json()["error"]["type"], "unavailable_error");
  EXPECT_EQ(health.json()["error"]["code"], 503);
  EXPECT_EQ(get(server.port(), "/metrics").status, 200);
  const HttpAnswer chat = post(server.port(), "/v1/chat/completions", {{"messages", Json::array()}});
  EXPECT_EQ(chat.status, 503);
  EXPECT_EQ(chat.headers.at("retry-after"), "1");
}

TEST(Ids, ARequestKeepsItsOwnIfThatIsPlain) {
  FakeServer server;
  const auto id = [&](const std::string& given, int status) {
    const HttpAnswer answer = get(server.port(), status == 200 ? "/version" : "/nowhere", {"X-Request-Id: " + given});
    EXPECT_EQ(answer.status, status);
    return answer.headers.at("x-request-id");
  };
  for (const int status : {200, 404}) {
    EXPECT_EQ(id("trace-7:a.B_c", status), "trace-7:a.B_c");
    EXPECT_EQ(id(std::string(128, 'x'), status), std::string(128, 'x'));
    for (const std::string& refused : {std::string(129, 'x'), std::string("a b"), std::string("a\"b"), std::string()}) {
      EXPECT_EQ(id(refused, status).size(), 24u) << refused;
    }
  }
}

TEST(Ids, AnswersNameTheBeginningOfALongPrompt) {
  FakeServer server;
  const auto beginning = [&](const std::string& prompt) {
    const HttpAnswer answer = post(server.port(), "/v1/completions", {{"prompt", prompt + ">"}, {"max_tokens", 1}});
    const auto found = answer.headers.find("x-prefix-hash");
    return found == answer.headers.end() ? "" : found->second;
  };
  const std::string long_prompt(100, 'a');
  EXPECT_EQ(beginning(long_prompt).size(), 16u);
  EXPECT_EQ(beginning(long_prompt), beginning(long_prompt + "and more"));
  EXPECT_NE(beginning(long_prompt), beginning("b" + long_prompt));
  EXPECT_EQ(beginning("short"), "");
}

}  // namespace
}  // namespace rocmforge
