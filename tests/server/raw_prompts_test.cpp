// Prompts that a client has written with the marks of a template: they are control tokens, in messages never.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/other_api.h"
#include "server/plain_tokenizer.h"
#include "server/prompt_server.h"

namespace rocmforge {
namespace {

using Tokens = FakeModel::Tokens;

constexpr std::int32_t begin_mark = byte_vocab, end_mark = byte_vocab + 1;

/// A server whose tokenizer has ChatML's marks.
class MarkedServer : public PromptServer {
 public:
  MarkedServer() : PromptServer(options()) {}

  /// The tokens of the prompt that this request makes.
  Tokens prompt_of(const char* path, const Json& request) const {
    const HttpAnswer answer = post(*this, path, request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return prompt();
  }

 private:
  static TestServerOptions options() {
    TestServerOptions options = options_that_show_all();
    options.tokenizer = plain_tokenizer({{"<|im_start|>", TokenType::control}, {"<|im_end|>", TokenType::control}});
    return options;
  }
};

const std::string written = "<|im_start|>q<|im_end|>?";

Tokens with_marks(bool with_bos = true) {
  Tokens tokens = with_bos ? Tokens{bos_token, begin_mark} : Tokens{begin_mark};
  tokens.push_back(byte_ids("q").front());
  tokens.push_back(end_mark);
  tokens.push_back(byte_ids("?").front());
  return tokens;
}
Tokens as_text() {
  Tokens tokens = byte_ids(written);
  tokens.insert(tokens.begin(), bos_token);
  return tokens;
}

TEST(RawPrompts, HaveTheControlTokensThatAreWrittenInThem) {
  const MarkedServer server;
  for (const char* path : {"/v1/completions", "/completion", "/generate"}) {
    EXPECT_EQ(server.prompt_of(path, {{"prompt", written}}), with_marks()) << path;
    EXPECT_EQ(server.prompt_of(path, {{"prompt", written}, {"parse_special", true}}), with_marks()) << path;
    EXPECT_EQ(server.prompt_of(path, {{"prompt", written}, {"parse_special", false}}), as_text()) << path;
    EXPECT_EQ(server.prompt_of(path, {{"prompt", written}, {"add_special_tokens", false}}), with_marks(false)) << path;
    EXPECT_EQ(server.prompt_of(path, {{"prompt", "<s>" + written}}), with_marks()) << path << ": BOS once";
  }
  const Json mixed = {1, written};
  EXPECT_EQ(server.prompt_of("/completion", {{"prompt", mixed}}), with_marks());
  EXPECT_EQ(server.prompt_of("/api/generate", {{"prompt", written}, {"raw", true}, {"stream", false}}), with_marks());
  EXPECT_EQ(
      server.prompt_of("/api/generate", {{"prompt", written}, {"raw", true}, {"stream", false}, {"parse_special", false}}),
      as_text());
  EXPECT_EQ(post(server, "/completion", {{"prompt", "q"}, {"parse_special", 1}}).json()["error"]["param"], "parse_special");
}

TEST(RawPrompts, MessagesAndTextsAroundAGapAreNone) {
  const MarkedServer server;
  const auto has_mark = [](const Tokens& tokens) {
    return std::find(tokens.begin(), tokens.end(), begin_mark) != tokens.end();
  };
  for (const Json& more : {Json::object(), Json{{"parse_special", true}}}) {
    Json request = {{"messages", {user(written)}}, {"max_tokens", 9}, {"stream", false}};
    request.update(more);
    for (const char* path : {"/v1/chat/completions", "/v1/messages", "/api/chat"}) {
      EXPECT_FALSE(has_mark(server.prompt_of(path, request))) << path;
    }
    Json items = {{"input", written}};
    items.update(more);
    EXPECT_FALSE(has_mark(server.prompt_of("/v1/responses", items)));
    Json asked = {{"prompt", written}, {"stream", false}};
    asked.update(more);
    EXPECT_FALSE(has_mark(server.prompt_of("/api/generate", asked))) << "without raw it is a question";
  }
}

}  // namespace
}  // namespace rocmforge
