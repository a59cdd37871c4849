// Scores of documents for a query, with the model's own template for reranking.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/local_server.h"
#include "server/plain_tokenizer.h"

namespace rocmforge {
namespace {

constexpr std::int32_t yes_token = byte_vocab, no_token = byte_vocab + 1;
const Json documents = {"one", "two", "three</s>", "four", "five"};

std::shared_ptr<const Tokenizer> reranking_tokenizer(const std::string& source = "<s>Q:{query} D:{document}</s>") {
  return plain_tokenizer({{"yes", TokenType::normal}, {"no", TokenType::normal}}, source);
}

TestServerOptions reranking_options() {
  TestServerOptions options;
  options.tokenizer = reranking_tokenizer();
  return options;
}

/// The probability of "yes" against "no" as the fake model's continuation of the prompt for a document.
double expected_score(const std::string& query, const std::string& document) {
  const auto tokenizer = reranking_tokenizer();
  const std::string head = "<s>Q:", middle = " D:", tail = "</s>";
  const std::vector<Tokenizer::TextPart> parts = {
      {head, true}, {query, false}, {middle, true}, {document, false}, {tail, true}};
  const FakeModel model(tokenizer->size(), 256);
  const std::vector<float> logits = model.logits_after(tokenizer->encode(parts, false));
  return 1.0 / (1.0 + std::exp(double{logits[no_token]} - double{logits[yes_token]}));
}

TEST(Rerank, PutsTheBestFirst) {
  const LocalServer server(reranking_options());
  for (const char* path : {"/v1/rerank", "/rerank", "/v2/rerank", "/v1/reranking", "/reranking"}) {
    const HttpAnswer answer = post(server, path, {{"model", "m"}, {"query", "which?"}, {"documents", documents}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json json = answer.json();
    EXPECT_GT(json["usage"]["prompt_tokens"], 5 * 10);
    EXPECT_EQ(json["usage"]["total_tokens"], json["usage"]["prompt_tokens"]);
    const Json& results = json["results"];
    ASSERT_EQ(results.size(), documents.size());
    double last = 1.0;
    for (const Json& result : results) {
      const Json& document = documents[result["index"].get<std::size_t>()];
      EXPECT_EQ(result["document"], (Json{{"text", document}}));
      EXPECT_NEAR(result["relevance_score"].get<double>(), expected_score("which?", document), 1e-5);
      EXPECT_LE(result["relevance_score"], last);
      last = result["relevance_score"];
    }
    EXPECT_NE(results.front()["relevance_score"], results.back()["relevance_score"]);
  }
}

TEST(Rerank, GivesAsManyAsAreAskedFor) {
  const LocalServer server(reranking_options());
  Json request = {{"query", "which?"}, {"documents", documents}};
  const Json all = post(server, "/v1/rerank", request).json()["results"];
  request.update({{"top_n", 2}, {"return_documents", false}});
  request["documents"][1] = {{"text", "two"}};
  const Json two = post(server, "/v1/rerank", request).json()["results"];
  ASSERT_EQ(two.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(two[i], (Json{{"index", all[i]["index"]}, {"relevance_score", all[i]["relevance_score"]}}));
  }
  request["top_n"] = 100;
  EXPECT_EQ(post(server, "/v1/rerank", request).json()["results"].size(), documents.size());
  // The format of text-embeddings-inference.
  const Json list = post(server, "/rerank", {{"query", "which?"}, {"texts", documents}}).json();
  ASSERT_TRUE(list.is_array());
  EXPECT_EQ(list[0], (Json{{"index", all[0]["index"]}, {"score", all[0]["relevance_score"]}}));
  const Json texts = post(server, "/rerank", {{"query", "which?"}, {"texts", documents}, {"return_text", true}}).json();
  EXPECT_EQ(texts[0]["text"], all[0]["document"]["text"]);
}

TEST(Rerank, WhatIsWrongIsNamed) {
  const LocalServer server(reranking_options());
  const auto param = [&](const Json& request) {
    const HttpAnswer answer = post(server, "/v1/rerank", request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.json()["error"]["param"];
  };
  EXPECT_EQ(param({{"documents", documents}}), "query");
  EXPECT_EQ(param({{"query", "q"}}), "documents");
  EXPECT_EQ(param({{"query", "q"}, {"documents", Json::array()}}), "documents");
  EXPECT_EQ(param({{"query", "q"}, {"documents", "a"}}), "documents");
  EXPECT_EQ(param({{"query", "q"}, {"documents", {"a", 1}}}), "documents[1]");
  EXPECT_EQ(param({{"query", "q"}, {"documents", {{{"title", "a"}}}}}), "documents[0].text");
  EXPECT_EQ(param({{"query", "q"}, {"documents", documents}, {"top_n", 0}}), "top_n");
  EXPECT_EQ(param({{"query", "q"}, {"texts", documents}, {"raw_scores", true}}), "raw_scores");
  EXPECT_EQ(param({{"query", "q"}, {"documents", {"a", std::string(300, 'x')}}}), "documents");
  EXPECT_EQ(param({{"query", "q"}, {"documents", std::vector<std::string>(2049, "a")}}), "documents");
}

TEST(Rerank, IsRefusedWhereTheModelIsNoReranker) {
  for (const auto& tokenizer : {byte_tokenizer(), reranking_tokenizer("no place for {query}")}) {
    TestServerOptions options;
    options.tokenizer = tokenizer;
    const LocalServer server(options);
    const HttpAnswer answer = post(server, "/v1/rerank", {{"query", "q"}, {"documents", documents}});
    EXPECT_EQ(answer.status, 501);
    EXPECT_EQ(answer.json()["error"]["message"],
              "the model is no reranker: its file has no template that asks for \"yes\" or \"no\" "
              "(tokenizer.chat_template.rerank)");
  }
}

}  // namespace
}  // namespace rocmforge
