// Texts to ids and back in the formats of llama-server and vLLM, and information about the tokenizer.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/other_api.h"
#include "server/plain_tokenizer.h"

namespace rocmforge {
namespace {

TEST(Tokenization, WithTheDemoModel) {
  if (!has_demo_model()) {
    GTEST_SKIP() << "models/forge-demo.gguf is missing";
  }
  const auto server = local_demo();
  const std::string text = "Hello wörld <|im_start|>";
  const Json ids = post(*server, "/tokenize", {{"content", text}}).json()["tokens"];
  EXPECT_EQ(post(*server, "/detokenize", {{"tokens", ids}}).json()["content"], text);
  const Json plain = post(*server, "/tokenize", {{"content", text}, {"parse_special", false}}).json()["tokens"];
  EXPECT_GT(plain.size(), ids.size());
  std::string pieces;
  const Json with_pieces = post(*server, "/tokenize", {{"content", text}, {"with_pieces", true}}).json();
  for (const Json& token : with_pieces["tokens"]) {
    if (token["piece"].is_string()) {
      pieces += token["piece"];
    } else {
      for (const Json& byte : token["piece"]) {
        pieces += static_cast<char>(byte.get<int>());
      }
    }
  }
  EXPECT_EQ(pieces, text);
}

TestServerOptions plain_options() {
  TestServerOptions options = options_that_show_all();
  options.tokenizer = plain_tokenizer();
  return options;
}

TEST(Tokenization, OfAPrompt) {
  const LocalServer server(plain_options());
  const Json answer =
      post(server, "/tokenize", {{"model", "m"}, {"prompt", "a\xc3\xa4</s>"}, {"return_token_strs", true}}).json();
  EXPECT_EQ(answer["tokens"], (Json{bos_token, 3 + 'a', 3 + 0xc3, 3 + 0xa4, end_token}));
  EXPECT_EQ(answer["token_strs"], (Json{"<s>", "<0x61>", "<0xC3>", "<0xA4>", "</s>"}));
  EXPECT_EQ(answer["count"], 5);
  EXPECT_EQ(answer["max_model_len"], 256);
  const Json plain = post(server, "/tokenize", {{"prompt", "ab"}, {"add_special_tokens", false}}).json();
  EXPECT_EQ(plain["tokens"], (Json{3 + 'a', 3 + 'b'}));
  EXPECT_TRUE(plain["token_strs"].is_null());
  const Json text = post(server, "/detokenize", {{"model", "m"}, {"tokens", plain["tokens"]}}).json();
  EXPECT_EQ(text, (Json{{"content", "ab"}, {"prompt", "ab"}}));
}

TEST(Tokenization, OfAConversationIsThatOfItsAnswer) {
  const LocalServer server(plain_options(), say("x", {}, '|'));
  Json request = {{"messages", Json::array({user("how"), user("now")})}};
  const Json tools = {{{"type", "function"}, {"function", {{"name", "look"}}}}};
  for (const Json& more :
       {Json::object(), Json{{"tools", tools}}, Json{{"chat_template_kwargs", {{"enable_thinking", true}}}}}) {
    request.update(more);
    const Json ids = post(server, "/tokenize", request).json();
    const Json answer = post(server, "/v1/chat/completions", request).json();
    EXPECT_EQ(ids["count"], answer["usage"]["prompt_tokens"]);
    std::string prompt = post(server, "/apply-template", request).json()["prompt"];
    if (const std::size_t blank = prompt.find(' '); blank != std::string::npos) {
      prompt.replace(blank, 1, "\u2581");  // as the bytes of its mark
    }
    EXPECT_EQ(post(server, "/detokenize", {{"tokens", ids["tokens"]}}).json()["content"], "<s>" + prompt);
  }
}

TEST(Tokenization, TellsOfTheTokenizer) {
  const LocalServer server(options_that_show_all());
  const HttpAnswer answer = get(server, "/tokenizer_info");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json info = answer.json();
  EXPECT_EQ(info["tokenizer_class"], "LlamaTokenizerFast");
  EXPECT_EQ(info["vocab_size"], byte_vocab);
  EXPECT_EQ(info["model_max_length"], 256);
  EXPECT_EQ(info["bos_token"], "<s>");
  EXPECT_EQ(info["eos_token"], "</s>");
  EXPECT_TRUE(info["pad_token"].is_null());
  EXPECT_EQ(info["added_tokens_decoder"]["2"]["content"], "</s>");
  EXPECT_EQ(info["added_tokens_decoder"]["2"]["special"], true);
  EXPECT_FALSE(info["added_tokens_decoder"].contains("3"));
  EXPECT_EQ(info["chat_template"], options_that_show_all().server.chat_template);
}

TEST(Tokenization, TellsOfTheTokenizerOnlyWithAKey) {
  TestServerOptions with_key;
  with_key.server.keys = {"k"};
  const FakeServer closed(with_key);
  EXPECT_EQ(get(closed.port(), "/tokenizer_info").status, 401);
}

}  // namespace
}  // namespace rocmforge
