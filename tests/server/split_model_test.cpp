// Answers of a model that is split over a device and the host are those of the whole model.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/program.h"
#include "server/local_server.h"

namespace rocmforge {
namespace {

Json chat(const char* question) {
  return {{"messages", {{{"role", "user"}, {"content", question}}}},
          {"temperature", 0},
          {"max_tokens", 24},
          {"logprobs", true},
          {"top_logprobs", 2}};
}

/// The parts of an answer that do not depend on time.
Json told(const HttpAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json body = Json::parse(answer.body);
  return body.contains("choices") ? body.at("choices") : body.at("data");
}

TEST(SplitModel, AnswersAsTheWholeOne) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const auto whole = local_demo();
  const auto half = local_demo({.gpu_layers = 2, .host_beside_cpu = true});
  const auto output = local_demo({.overrides = {"^(output|token_embd)=cpu"}, .host_beside_cpu = true});
  for (const char* question : {"What is 20 + 30?", "What is 20 + 31?", "Hello"}) {  // the second reuses a prefix
    const Json expected = told(post(*whole, "/v1/chat/completions", chat(question)));
    EXPECT_EQ(told(post(*half, "/v1/chat/completions", chat(question))), expected);
    EXPECT_EQ(told(post(*output, "/v1/chat/completions", chat(question))), expected);
  }
  const Json embedding = {{"input", {"one text", "another"}}};
  EXPECT_EQ(told(post(*half, "/v1/embeddings", embedding)), told(post(*whole, "/v1/embeddings", embedding)));
  Json several = chat("What is 5 + 6?");
  several["n"] = 3;
  several["temperature"] = 1;
  several["seed"] = 7;
  EXPECT_EQ(told(post(*half, "/v1/chat/completions", several)), told(post(*whole, "/v1/chat/completions", several)));
}

}  // namespace
}  // namespace rocmforge
