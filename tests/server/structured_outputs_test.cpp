// vLLM's names for constraints of an answer: structured_outputs and the fields that begin with guided_.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/client.h"
#include "server/other_api.h"
#include "server/running_server.h"

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
      server = new DemoServer();
    }
  }
  static void TearDownTestSuite() {
    delete server;
    server = nullptr;
  }

  void SetUp() override {
    if (server == nullptr) {
      GTEST_SKIP() << "models/forge-demo.gguf is missing";
    }
  }

  /// The answer to a question that the model answers with 585 without a constraint.
  static std::string chat(Json more) {
    more.update({{"messages", Json::array({user("What is 127 + 458?")})}, {"temperature", 0}, {"max_tokens", 200}});
    const HttpAnswer answer = post(server->port(), "/v1/chat/completions", more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json()["choices"][0]["message"]["content"].get<std::string>() : "";
  }
  static std::string complete(Json more) {
    more.update({{"prompt", "q"}, {"temperature", 0}, {"max_tokens", 200}});
    const HttpAnswer answer = post(server->port(), "/v1/completions", more);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json()["choices"][0]["text"].get<std::string>() : "";
  }
  static Json error(Json more, const char* path = "/v1/chat/completions") {
    more.update({{"messages", Json::array({user("q")})}, {"prompt", "q"}});
    const HttpAnswer answer = post(server->port(), path, more);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.json()["error"];
  }

  static DemoServer* server;
};

DemoServer* StructuredOutputs::server = nullptr;

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

TEST_F(StructuredOutputs, ThatContradictEachOtherAreRefusedByName) {
  struct Case {
    Json more;
    const char* first;
    const char* second;
  };
  const std::vector<Case> cases = {
      {{{"structured_outputs", {{"json", object_schema}, {"regex", "a"}}}},
       "structured_outputs.json",
       "structured_outputs.regex"},
      {{{"structured_outputs", {{"choice", {"a"}}}}, {"guided_choice", {"a"}}},
       "structured_outputs.choice",
       "guided_choice"},
      {{{"guided_json", object_schema}, {"response_format", {{"type", "json_object"}}}}, "response_format", "guided_json"},
      {{{"guided_regex", "a"}, {"guided_grammar", "root ::= \"a\""}}, "guided_regex", "guided_grammar"},
      {{{"grammar", "root ::= \"a\""}, {"guided_regex", "a"}}, "grammar", "guided_regex"}};
  for (const Case& one : cases) {
    for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
      const Json said = error(one.more, path);
      EXPECT_EQ(said["message"], std::string(one.first) + " and " + one.second + " can't both rule the answer");
      EXPECT_EQ(said["param"], one.second);
    }
  }
}

TEST_F(StructuredOutputs, ThatCannotBeKeptToAreRefused) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"structured_outputs", {{"json", "{"}}}}, "structured_outputs.json"},
      {{{"structured_outputs", {{"json", 1}}}}, "structured_outputs.json"},
      {{{"structured_outputs", {{"choice", Json::array()}}}}, "structured_outputs.choice"},
      {{{"structured_outputs", {{"structural_tag", "{}"}}}}, "structured_outputs.structural_tag"},
      {{{"structured_outputs", {{"disable_any_whitespace", true}}}}, "structured_outputs.disable_any_whitespace"},
      {{{"structured_outputs", {{"whitespace_pattern", " "}}}}, "structured_outputs.whitespace_pattern"},
      {{{"structured_outputs", "json"}}, "structured_outputs"},
      {{{"guided_json", {{"type", "no type"}}}}, "guided_json"},
      {{{"guided_regex", "(a"}}, "guided_regex"},
      {{{"guided_regex", "a(?=b)"}}, "guided_regex"},
      {{{"guided_choice", {1}}}, "guided_choice"},
      {{{"guided_choice", "a"}}, "guided_choice"},
      {{{"guided_grammar", "start: \"a\""}}, "guided_grammar"},
      {{{"guided_whitespace_pattern", " "}}, "guided_whitespace_pattern"}};
  for (const auto& [more, field] : cases) {
    const Json said = error(more);
    EXPECT_EQ(said["param"], field) << said;
    EXPECT_NE(said["message"].get<std::string>().find(field), std::string::npos) << said;
  }
  EXPECT_EQ(error({{"structured_outputs", {{"json", std::string(200, '[')}}}})["param"], "structured_outputs.json");
}

}  // namespace
}  // namespace rocmforge
