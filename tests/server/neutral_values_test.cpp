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

/// The fake model allows one token at each place: an answer that needs a forbidden one fails.
TEST(BadWords, AreForbiddenWhereTheirBeginningStands) {
  const LocalServer server(options_that_show_all(), say("hello", {}, '|'));
  const auto answer = [&](const char* word) {
    return post(server, "/completion", {{"prompt", "x|"}, {"bad_words", Json::array({word})}});
  };
  EXPECT_EQ(answer("ell").status, 500);
  EXPECT_EQ(answer("h").status, 500);
  EXPECT_EQ(answer("lx").json()["content"], "hello");
  EXPECT_EQ(answer("hl").json()["content"], "hello");
}

/// The texts of these tests are longer than the context of 256 tokens.
const std::string long_text = std::string(300, 'a');

TEST(LongTexts, AreTruncatedForOllamasEmbeddings) {
  TestServerOptions options;
  options.tokenizer = plain_tokenizer();
  const LocalServer server(options);
  const std::string beginning = long_text.substr(0, 255);  // beside BOS
  for (const Json& more : {Json::object(), Json{{"truncate", true}}, Json{{"truncate", nullptr}}}) {
    Json request = {{"input", {long_text, beginning}}};
    request.update(more);
    const HttpAnswer answer = post(server, "/api/embed", request);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["embeddings"][0], answer.json()["embeddings"][1]);
    EXPECT_EQ(answer.json()["prompt_eval_count"], 2 * 256);
  }
  EXPECT_EQ(post(server, "/api/embeddings", {{"prompt", long_text}}).status, 200);
  const HttpAnswer refused = post(server, "/api/embed", {{"input", long_text}, {"truncate", false}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("the context holds 256"), std::string::npos) << refused.body;
  EXPECT_EQ(post(server, "/v1/embeddings", {{"input", long_text}}).status, 400) << "OpenAI's truncates nothing";
}

TEST(Embedding, HasLlamaServersForm) {
  const LocalServer server;
  const Json two = post(server, "/embedding", {{"content", {"a", "b"}}}).json();
  ASSERT_EQ(two.size(), 2u) << two.dump();
  const Json openai = post(server, "/v1/embeddings", {{"input", {"a", "b"}}}).json();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two[i]["index"], i);
    EXPECT_EQ(two[i]["embedding"], Json::array({openai["data"][i]["embedding"]}));
  }
  const Json one = post(server, "/embedding", {{"input", "a"}, {"embd_normalize", 2}}).json();
  ASSERT_EQ(one.size(), 1u) << one.dump();
  EXPECT_EQ(one[0], two[0]);
  EXPECT_EQ(post(server, "/embedding", {{"content", "a"}, {"embd_normalize", -1}}).json()["error"]["param"],
            "embd_normalize");
  EXPECT_EQ(post(server, "/embedding", Json::object()).json()["error"]["param"], "input");
}

TEST(LongPrompts, SayItInTheWordsThatClientsLookFor) {
  const LocalServer server(options_that_show_all());
  const std::string words = "prompt is too long: 305 tokens > 256 maximum, which is this model's maximum context length";
  for (const bool stream : {false, true}) {
    const Json request = {{"messages", {user(long_text)}}, {"stream", stream}, {"max_tokens", 9}};
    const HttpAnswer chat = post(server, "/v1/chat/completions", request);
    EXPECT_EQ(chat.status, 400);
    EXPECT_EQ(chat.json()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(chat.json()["error"]["message"], words);
    const HttpAnswer anthropic = post(server, "/v1/messages", request);
    EXPECT_EQ(anthropic.status, 400);
    EXPECT_EQ(anthropic.json()["error"]["type"], "invalid_request_error");
    EXPECT_EQ(anthropic.json()["error"]["message"], words);
    const HttpAnswer ollama = post(server, "/api/chat", {{"messages", {user(long_text)}}, {"stream", stream}});
    EXPECT_EQ(ollama.status, 400);
    EXPECT_EQ(ollama.json()["error"], words);
  }
}

}  // namespace
}  // namespace rocmforge
