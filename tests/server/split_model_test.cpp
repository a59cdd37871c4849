// Answers of a model that is split over a device and the host are those of the whole model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
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

/// Two ways to add a row's parts differ in the last digits, and rounding of the products' inputs to 8 bits makes tenths of
/// a logit of them. So tokens are the same up to a place where the first two candidates are that close.
void expect_the_same_up_to_a_tie(const Json& one, const Json& two) {
  constexpr double close = 0.3;
  const Json& tokens = one.at("logprobs").at("content");
  const Json& others = two.at("logprobs").at("content");
  for (std::size_t i = 0; i < std::min(tokens.size(), others.size()); ++i) {
    const Json& best = tokens[i].at("top_logprobs");
    if (tokens[i].at("token") != others[i].at("token")) {
      EXPECT_LT(best[0].at("logprob").get<double>() - best[1].at("logprob").get<double>(), close) << i << " " << one << two;
      return;
    }
    EXPECT_NEAR(tokens[i].at("logprob").get<double>(), others[i].at("logprob").get<double>(), close) << i;
  }
  EXPECT_EQ(tokens.size(), others.size());
}

/// What a request gives at one place of its answer.
Json at(const LocalServer& server, const char* path, const Json& request, const char* place) {
  const HttpAnswer got = post(server, path, request);
  EXPECT_EQ(got.status, 200) << got.body;
  return Json::parse(got.body).at(Json::json_pointer(place));
}

TEST(SharedModel, TwoRanksAnswerAsOne) {
  if (!has_demo_model()) {
    GTEST_SKIP() << demo_model() << " is absent";
  }
  const auto one = local_demo();
  const auto two = local_demo({}, 2);
  for (const char* question : {"What is 20 + 30?", "What is 20 + 31?", "Hello", "Count to ten."}) {  // prefixes are reused
    const Json answer = at(*two, "/v1/chat/completions", chat(question), "/choices/0");
    expect_the_same_up_to_a_tie(at(*one, "/v1/chat/completions", chat(question), "/choices/0"), answer);
    const Json text = answer.at("message").at("content");
    const Json messages = {{{"role", "user"}, {"content", question}}};
    EXPECT_EQ(at(*two, "/v1/messages", {{"messages", messages}, {"max_tokens", 24}, {"temperature", 0}}, "/content/0/text"),
              text);
    EXPECT_EQ(at(*two, "/api/chat",
                 {{"messages", messages}, {"stream", false}, {"options", {{"temperature", 0}, {"num_predict", 24}}}},
                 "/message/content"),
              text);
    Json several = chat(question);
    several["seed"] = 11;
    several["temperature"] = 1;
    several["n"] = 3;
    EXPECT_EQ(at(*two, "/v1/chat/completions", several, "/choices"), at(*two, "/v1/chat/completions", several, "/choices"));
  }
  Json constrained = chat("Give me a number.");
  constrained["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "n"}, {"schema", {{"type", "object"}, {"properties", {{"n", {{"type", "integer"}}}}}}}}}};
  expect_the_same_up_to_a_tie(at(*one, "/v1/chat/completions", constrained, "/choices/0"),
                              at(*two, "/v1/chat/completions", constrained, "/choices/0"));
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
