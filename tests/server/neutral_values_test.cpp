// Values that other servers document and that clients send as they are: limits of 0, lists of samplers, texts that are too
// long, vectors in llama-server's form.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "server/other_api.h"
#include "server/plain_tokenizer.h"

namespace rocmforge {
namespace {

TEST(NoTokens, ComputeThePromptAlone) {
  const FakeServer server(options_that_show_all(), say("hi", {}, '|'));
  for (const bool stream : {false, true}) {
    const HttpAnswer native = post(server.port(), "/completion", {{"prompt", "x|"}, {"n_predict", 0}, {"stream", stream}});
    ASSERT_EQ(native.status, 200) << native.body;
    const Json last = stream ? native.events().back() : native.json();
    EXPECT_EQ(last["content"], "");
    EXPECT_EQ(last["tokens_predicted"], 0);
    EXPECT_EQ(last["stop_type"], "limit");
    EXPECT_GT(last["tokens_evaluated"], 0);
  }
  const Json chat = post(server.port(), "/v1/chat/completions", {{"messages", {user("q")}}, {"n_predict", 0}}).json();
  EXPECT_EQ(chat["choices"][0]["message"]["content"], "") << chat.dump();
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(chat["usage"]["completion_tokens"], 0);
}

TEST(NumPredict, BelowOneIsNoLimitForOllama) {
  const FakeServer server(options_that_show_all(), say("some more than sixteen tokens", {}, '|'));
  for (const int limit : {0, -1, -2}) {
    const Json request = {{"messages", {user("q")}}, {"stream", false}, {"options", {{"num_predict", limit}}}};
    EXPECT_EQ(post(server.port(), "/api/chat", request).json()["message"]["content"], "some more than sixteen tokens");
  }
  const HttpAnswer wrong =
      post(server.port(), "/api/chat", {{"messages", {user("q")}}, {"stream", false}, {"options", {{"num_predict", "x"}}}});
  EXPECT_EQ(wrong.status, 400);
}

TEST(Samplers, HaveAnyOrderBehindThePenalties) {
  const FakeServer server(options_that_show_all(), say("hi", {}, '|'));
  const auto status = [&](const Json& order) {
    return post(server.port(), "/completion", {{"prompt", "x|"}, {"samplers", order}}).status;
  };
  for (const Json& order :
       {Json{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature", "adaptive_p"},
        Json{"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "tfs_z", "typical_p", "top_p", "min_p", "xtc",
             "temperature"},
        Json{"dry", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"},
        Json{"top_k", "tfs_z", "typical_p", "top_p", "min_p", "temperature"},
        Json{"temperature", "top_k", "typ_p", "top_p", "min_p"}, Json{"top_k", "top_p", "temperature"}, Json::array(),
        Json("edskypmxt"), Json{"penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"}}) {
    EXPECT_EQ(status(order), 200) << order;
  }
  for (const Json& order : {Json{"penalties", "top_k", "typ_p", "top_p", "min_p", "temperature", "mine"},
                            Json{"top_k", "penalties"}, Json{"top_k", 1}, Json("k?"), Json(1)}) {
    EXPECT_EQ(status(order), 400) << order;
  }
  EXPECT_EQ(post(server.port(), "/completion", {{"prompt", "x|"}, {"adaptive_target", 0.5}}).json()["error"]["param"],
            "adaptive_target");
}

TEST(StopTokens, EndTheAnswerInEveryApi) {
  const FakeServer server(options_that_show_all(), say("hello", {}, '|'));
  const Json stop = byte_ids("l").front();
  const Json native = post(server.port(), "/completion", {{"prompt", "x|"}, {"stop_token_ids", {stop}}}).json();
  EXPECT_EQ(native["content"], "he") << native;
  EXPECT_EQ(native["stop_type"], "eos");
  EXPECT_EQ(native["tokens_predicted"], 2);
  const Json chat =
      post(server.port(), "/v1/chat/completions", {{"messages", {user("q")}}, {"stop_token_ids", {stop}}}).json();
  EXPECT_EQ(chat["choices"][0]["message"]["content"], "he");
  EXPECT_EQ(chat["choices"][0]["finish_reason"], "stop");
}

TEST(BadWords, AreNotPartOfTheAnswer) {
  const FakeServer server(options_that_show_all(), say("hello", {}, '|'));
  const Json answer = post(server.port(), "/completion",
                           {{"prompt", "x|"}, {"n_predict", 5}, {"temperature", 0}, {"bad_words", {"ll", "h"}}})
                          .json();
  const std::string text = answer["content"];
  EXPECT_EQ(text.find("ll"), std::string::npos) << text;
  EXPECT_EQ(text.find('h'), std::string::npos) << text;
}

TEST(Samplers, OfOtherServersAreServed) {
  const FakeServer server(options_that_show_all(), say("hello", {}, '|'));
  const Json request = {{"prompt", "x|"},
                        {"dry_multiplier", 0.8},
                        {"dry_base", 1.75},
                        {"dry_allowed_length", 2},
                        {"dry_penalty_last_n", 0},
                        {"xtc_probability", 0.5},
                        {"xtc_threshold", 0.1},
                        {"top_n_sigma", 1.5},
                        {"dynatemp_range", 0.5},
                        {"dynatemp_exponent", 1},
                        {"dry_sequence_breakers", {"\n", ":"}},
                        {"min_tokens", 2},
                        {"samplers", {"penalties", "dry", "temperature", "xtc"}}};
  const HttpAnswer answer = post(server.port(), "/completion", request);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json settings = get(server.port(), "/props").json()["default_generation_settings"]["params"];
  EXPECT_EQ(settings["samplers"],
            Json({"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"}))
      << settings;
}

/// The texts of these tests are longer than the context of 256 tokens.
const std::string long_text = std::string(300, 'a');

TEST(LongTexts, AreTruncatedForOllamasEmbeddings) {
  TestServerOptions options;
  options.tokenizer = plain_tokenizer();
  const FakeServer server(options);
  const std::string beginning = long_text.substr(0, 255);  // beside BOS
  for (const Json& more : {Json::object(), Json{{"truncate", true}}, Json{{"truncate", nullptr}}}) {
    Json request = {{"input", {long_text, beginning}}};
    request.update(more);
    const HttpAnswer answer = post(server.port(), "/api/embed", request);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["embeddings"][0], answer.json()["embeddings"][1]);
    EXPECT_EQ(answer.json()["prompt_eval_count"], 2 * 256);
  }
  EXPECT_EQ(post(server.port(), "/api/embeddings", {{"prompt", long_text}}).status, 200);
  const HttpAnswer refused = post(server.port(), "/api/embed", {{"input", long_text}, {"truncate", false}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("the context holds 256"), std::string::npos) << refused.body;
  EXPECT_EQ(post(server.port(), "/v1/embeddings", {{"input", long_text}}).status, 400) << "OpenAI's truncates nothing";
}

TEST(Embedding, HasLlamaServersForm) {
  const FakeServer server;
  const Json two = post(server.port(), "/embedding", {{"content", {"a", "b"}}}).json();
  ASSERT_EQ(two.size(), 2u) << two.dump();
  const Json openai = post(server.port(), "/v1/embeddings", {{"input", {"a", "b"}}}).json();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two[i]["index"], i);
    EXPECT_EQ(two[i]["embedding"], Json::array({openai["data"][i]["embedding"]}));
  }
  const Json one = post(server.port(), "/embedding", {{"input", "a"}, {"embd_normalize", 2}}).json();
  ASSERT_EQ(one.size(), 1u) << one.dump();
  EXPECT_EQ(one[0], two[0]);
  EXPECT_EQ(post(server.port(), "/embedding", {{"content", "a"}, {"embd_normalize", -1}}).json()["error"]["param"],
            "embd_normalize");
  EXPECT_EQ(post(server.port(), "/embedding", Json::object()).json()["error"]["param"], "input");
}

TEST(LongPrompts, SayItInTheWordsThatClientsLookFor) {
  const FakeServer server(options_that_show_all());
  const std::string words = "prompt is too long: 305 tokens > 256 maximum, which is this model's maximum context length";
  for (const bool stream : {false, true}) {
    const Json request = {{"messages", {user(long_text)}}, {"stream", stream}, {"max_tokens", 9}};
    const HttpAnswer chat = post(server.port(), "/v1/chat/completions", request);
    EXPECT_EQ(chat.status, 400);
    EXPECT_EQ(chat.json()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(chat.json()["error"]["message"], words);
    const HttpAnswer anthropic = post(server.port(), "/v1/messages", request);
    EXPECT_EQ(anthropic.status, 400);
    EXPECT_EQ(anthropic.json()["error"]["type"], "invalid_request_error");
    EXPECT_EQ(anthropic.json()["error"]["message"], words);
    const HttpAnswer ollama = post(server.port(), "/api/chat", {{"messages", {user(long_text)}}, {"stream", stream}});
    EXPECT_EQ(ollama.status, 400);
    EXPECT_EQ(ollama.json()["error"], words);
  }
}

}  // namespace
}  // namespace rocmforge
