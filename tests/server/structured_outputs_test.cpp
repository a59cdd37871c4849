// vLLM's names for constraints of an answer: structured_outputs and the fields that begin with guided_.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "server/local_server.h"
#include "server/other_api.h"

namespace rocmforge {
namespace {

const Json object_schema = {{"type", "object"},
                            {"properties", {{"a", {{"type", "boolean"}}}}},
                            {"required", {"a"}},
                            {"additionalProperties", false}};

class StructuredOutputs : public testing::Test {
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

  /// The answer to a question that the model answers with 585 without a constraint.
  static std::string chat(Json more) {
    more.update({{"messages", Json::array({user("What is 127 + 458?")})}, {"temperature", 0}, {"max_tokens", 200}});
    const HttpAnswer answer = post(*server, "/v1/chat/completions", more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json()["choices"][0]["message"]["content"].get<std::string>() : "";
  }
  static std::string complete(Json more) {
    more.update({{"prompt", "q"}, {"temperature", 0}, {"max_tokens", 200}});
    const HttpAnswer answer = post(*server, "/v1/completions", more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json()["choices"][0]["text"].get<std::string>() : "";
  }
  static std::unique_ptr<LocalServer> server;
};

std::unique_ptr<LocalServer> StructuredOutputs::server;

TEST_F(StructuredOutputs, HoldTheAnswer) {
  for (const auto& ask : {chat, complete}) {
    for (const Json& schema : {object_schema, Json(object_schema.dump())}) {
      for (const Json& more : {Json{{"structured_outputs", {{"json", schema}}}}, Json{{"guided_json", schema}}}) {
        EXPECT_TRUE(Json::parse(ask(more))["a"].is_boolean()) << more;
      }
    }
    for (const char* pattern : {"[a-c]{3}-\\d{2}", "^[a-c]{3}-\\d{2}$"}) {
      for (const Json& more : {Json{{"structured_outputs", {{"regex", pattern}}}}, Json{{"guided_regex", pattern}}}) {
        const std::string text = ask(more);
        ASSERT_EQ(text.size(), 6u) << text;
        EXPECT_EQ(text.find_first_not_of("abc"), 3u) << text;
        EXPECT_EQ(text.find_first_not_of("0123456789", 4), std::string::npos) << text;
      }
    }
    const Json choices = {"red \"1\"", "blau\n", "grün"};
    for (const Json& more : {Json{{"structured_outputs", {{"choice", choices}}}}, Json{{"guided_choice", choices}}}) {
      EXPECT_NE(std::find(choices.begin(), choices.end(), Json(ask(more))), choices.end()) << more;
    }
    const char* grammar = "root ::= \"yes\" | \"no\"";
    for (const Json& more : {Json{{"structured_outputs", {{"grammar", grammar}}}}, Json{{"guided_grammar", grammar}}}) {
      const std::string text = ask(more);
      EXPECT_TRUE(text == "yes" || text == "no") << text;
    }
    const std::string object = ask({{"structured_outputs", {{"json_object", true}}}});
    EXPECT_EQ(object.find_first_not_of(" \n"), object.find('{')) << object;
  }
}

TEST_F(StructuredOutputs, ChangeNothingWhereTheyAskForNothing) {
  const std::string free = "585";
  EXPECT_EQ(chat({{"structured_outputs", nullptr}, {"guided_json", nullptr}, {"guided_regex", nullptr}}), free);
  EXPECT_EQ(chat({{"structured_outputs",
                   {{"json", nullptr}, {"regex", nullptr}, {"json_object", false}, {"disable_fallback", true}}}}),
            free);
  EXPECT_EQ(chat({{"guided_decoding_backend", "xgrammar"}, {"guided_whitespace_pattern", nullptr}}), free);
}

}  // namespace
}  // namespace rocmforge
