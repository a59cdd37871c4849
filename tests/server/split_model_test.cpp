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

/// What clients see of requests of each kind, without numbers that may differ in their last digits.
TEST(SharedModel, TwoRanksAnswerAsOne) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const auto one = local_demo();
  const auto two = local_demo({}, 2);
  const auto same = [&](const char* path, const Json& request, const char* answer) {
    const auto text = [&](const LocalServer& server) {
      const HttpAnswer got = post(server, path, request);
      EXPECT_EQ(got.status, 200) << got.body;
      return Json::parse(got.body).at(Json::json_pointer(answer));
    };
    EXPECT_EQ(text(*two), text(*one)) << path << " " << request.dump();
  };
  for (const char* question : {"What is 20 + 30?", "What is 20 + 31?", "Hello", "Count to ten."}) {  // prefixes are reused
    Json request = chat(question);
    same("/v1/chat/completions", request, "/choices/0/message");
    request["seed"] = 11;
    request["temperature"] = 1;
    request["n"] = 3;
    same("/v1/chat/completions", request, "/choices/2/message");
    same("/v1/completions", {{"prompt", question}, {"temperature", 0}, {"max_tokens", 12}}, "/choices/0/text");
    same("/v1/messages", {{"messages", {{{"role", "user"}, {"content", question}}}}, {"max_tokens", 12}, {"temperature", 0}},
         "/content");
    same("/api/chat",
         {{"messages", {{{"role", "user"}, {"content", question}}}},
          {"stream", false},
          {"options", {{"temperature", 0}, {"num_predict", 12}}}},
         "/message");
  }
  Json constrained = chat("Give me a number.");
  constrained["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "n"}, {"schema", {{"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}}}}}};
  same("/v1/chat/completions", constrained, "/choices/0/message/content");
  const std::vector<float> first =
      told(post(*one, "/v1/embeddings", {{"input", "one text"}})).at(0).at("embedding").get<std::vector<float>>();
  const std::vector<float> second =
      told(post(*two, "/v1/embeddings", {{"input", "one text"}})).at(0).at("embedding").get<std::vector<float>>();
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_NEAR(first[i], second[i], 1e-3);
  }
}

}  // namespace
}  // namespace rocmforge
