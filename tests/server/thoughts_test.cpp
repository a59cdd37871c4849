// The limit of an answer's reasoning, by each API's field for it, and the fields that turn reasoning off.
#include "server/api/reasoning_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "grammar/thought_budget.h"
#include "server/other_api.h"
#include "server/plain_tokenizer.h"

namespace rocmforge {
namespace {

/// Begins the answer inside its reasoning unless that is turned off, and shows the effort.
TestServerOptions thinking_options() {
  TestServerOptions options;
  options.tokenizer = plain_tokenizer();
  options.server.chat_template =
      "{{ reasoning_effort }}{% for m in messages %}{{ m.content }}|{% endfor %}"
      "{{ '<think>' if enable_thinking is not defined or enable_thinking else '<think></think>' }}";
  return options;
}

/// Fields with which the model writes small letters and nothing else, and never ends.
Json letters_only(std::int32_t max_tokens) {
  Json biases = Json::object();
  for (std::int32_t id = 0; id < byte_vocab; ++id) {
    if (id < 3 + 'a' || id > 3 + 'z') {
      biases[std::to_string(id)] = -100;
    }
  }
  return {{"logit_bias", std::move(biases)}, {"temperature", 0}, {"max_tokens", max_tokens}};
}

bool is_letters(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

class Thoughts : public testing::Test {
 protected:
  static void SetUpTestSuite() { server = std::make_unique<LocalServer>(thinking_options()); }
  static void TearDownTestSuite() { server.reset(); }
  static Json ask(const Json& more, std::int32_t max_tokens = 60) {
    Json request = letters_only(max_tokens);
    request["messages"] = Json::array({user("q")});
    request.update(more);
    const HttpAnswer answer = post(*server, "/v1/chat/completions", request);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static std::unique_ptr<LocalServer> server;
};

std::unique_ptr<LocalServer> Thoughts::server;

TEST_F(Thoughts, EndWhereTheyHaveTheirTokens) {
  const Json free = ask(Json::object())["choices"][0]["message"];
  EXPECT_EQ(free["reasoning_content"].get<std::string>().size(), 60u);
  EXPECT_EQ(free["content"], "");
  for (const int budget : {1, 7, 30}) {
    for (const char* field : {"reasoning_budget", "thinking_budget_tokens", "thinking_token_budget"}) {
      const Json answer = ask({{field, budget}});
      const Json message = answer["choices"][0]["message"];
      const std::string thoughts = message["reasoning_content"], content = message["content"];
      EXPECT_EQ(thoughts, free["reasoning_content"].get<std::string>().substr(0, static_cast<std::size_t>(budget))) << field;
      EXPECT_EQ(content.size(), 60u - static_cast<std::size_t>(budget) - std::string("\n</think>\n\n").size());
      EXPECT_TRUE(is_letters(content)) << content;
      EXPECT_EQ(answer["usage"]["completion_tokens"], 60);
    }
  }
  const Json none = ask({{"reasoning_budget", 0}})["choices"][0]["message"];
  EXPECT_FALSE(none.contains("reasoning_content"));
  EXPECT_EQ(none["content"].get<std::string>().size(), 60u - std::string("\n</think>\n\n").size());
  EXPECT_EQ(ask({{"reasoning_budget", -1}})["choices"][0]["message"], free);
  EXPECT_EQ(ask({{"reasoning_budget", 4}, {"thinking_token_budget", 4}})["choices"][0]["message"]["reasoning_content"],
            free["reasoning_content"].get<std::string>().substr(0, 4));
}

TEST_F(Thoughts, EndInEachAnswerOfARequest) {
  const Json choices = ask({{"reasoning_budget", 5}, {"n", 3}, {"temperature", 1}, {"seed", 1}})["choices"];
  std::set<std::string> different;
  for (const Json& choice : choices) {
    EXPECT_EQ(choice["message"]["reasoning_content"].get<std::string>().size(), 5u);
    different.insert(choice["message"]["reasoning_content"]);
  }
  EXPECT_EQ(different.size(), 3u);
}

TEST_F(Thoughts, EndBeforeAGrammarBegins) {
  const Json choices = {"blue", "red"};
  for (const int budget : {0, 3}) {
    const Json message = ask({{"reasoning_budget", budget}, {"guided_choice", choices}})["choices"][0]["message"];
    EXPECT_NE(std::find(choices.begin(), choices.end(), message["content"]), choices.end()) << message;
    EXPECT_EQ(message.value("reasoning_content", "").size(), static_cast<std::size_t>(budget));
  }
}

TEST_F(Thoughts, EndInTheFormsOfOtherApis) {
  Json chat = {{"thinking", {{"type", "enabled"}, {"budget_tokens", 6}}}};
  EXPECT_EQ(ask(chat)["choices"][0]["message"]["reasoning_content"].get<std::string>().size(), 6u);
  Json messages = letters_only(60);
  messages.update({{"messages", Json::array({user("q")})}, {"thinking", {{"type", "enabled"}, {"budget_tokens", 6}}}});
  const HttpAnswer anthropic = post(*server, "/v1/messages", messages);
  ASSERT_EQ(anthropic.status, 200) << anthropic.body;
  EXPECT_FALSE(anthropic.headers.contains("x-ignored-fields"));
  const Json blocks = anthropic.json()["content"];
  ASSERT_EQ(blocks.size(), 2u) << blocks;
  EXPECT_EQ(blocks[0]["thinking"].get<std::string>().size(), 6u);
  EXPECT_TRUE(is_letters(blocks[1]["text"]));
  for (const Json& more : {Json{{"reasoning", {{"effort", "low"}, {"max_tokens", 6}}}}, Json{{"reasoning_budget", 6}}}) {
    Json response = letters_only(60);
    response.update({{"input", "q"}});
    response.update(more);
    const HttpAnswer answer = post(*server, "/v1/responses", response);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json output = answer.json()["output"];
    ASSERT_EQ(output.size(), 2u) << output;
    EXPECT_EQ(output[0]["content"][0]["text"].get<std::string>().size(), 6u);
    EXPECT_TRUE(is_letters(output[1]["content"][0]["text"]));
  }
}

TEST_F(Thoughts, AreTurnedOff) {
  const auto prompt = [](const Json& more) {
    Json request = {{"messages", Json::array({user("q")})}};
    request.update(more);
    return post(*server, "/apply-template", request).json()["prompt"].get<std::string>();
  };
  EXPECT_EQ(prompt(Json::object()), "q|<think>");
  EXPECT_EQ(prompt({{"reasoning_effort", "high"}}), "highq|<think>");
  EXPECT_EQ(prompt({{"reasoning_effort", "none"}}), "noneq|<think></think>");
  EXPECT_EQ(prompt({{"thinking", {{"type", "disabled"}}}}), "q|<think></think>");
  EXPECT_EQ(prompt({{"thinking", {{"type", "adaptive"}}}}), "q|<think>");
  EXPECT_EQ(prompt({{"chat_template_kwargs", {{"enable_thinking", false}}}}), "q|<think></think>");
  EXPECT_EQ(prompt({{"chat_template_kwargs", {{"enable_thinking", true}}}, {"thinking", {{"type", "disabled"}}}}),
            "q|<think>");
  TestServerOptions options = thinking_options();
  options.server.template_arguments = {{"enable_thinking", false}};
  const LocalServer silent(options);
  const auto of_silent = [&](const Json& thinking) {
    const Json request = {{"messages", Json::array({user("q")})}, {"thinking", thinking}};
    return post(silent, "/apply-template", request).json()["prompt"].get<std::string>();
  };
  EXPECT_EQ(of_silent(nullptr), "q|<think></think>");
  EXPECT_EQ(of_silent({{"type", "enabled"}}), "q|<think>") << "what a request says comes before the server's flags";
}

TEST_F(Thoughts, WhoseBoundIsNoneAreRefused) {
  const auto param = [](const Json& more) {
    Json request = {{"messages", Json::array({user("q")})}, {"max_tokens", 4}};
    request.update(more);
    const HttpAnswer answer = post(*server, "/v1/chat/completions", request);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return answer.json()["error"]["param"];
  };
  EXPECT_EQ(param({{"reasoning_budget", -2}}), "reasoning_budget");
  EXPECT_EQ(param({{"reasoning_budget", "much"}}), "reasoning_budget");
  EXPECT_EQ(param({{"thinking", {{"type", "enabled"}, {"budget_tokens", "x"}}}}), "thinking.budget_tokens");
  EXPECT_EQ(param({{"thinking", {{"budget_tokens", 3}}}}), "thinking.type");
  EXPECT_EQ(param({{"thinking", {{"type", "much"}}}}), "thinking.type");
  EXPECT_EQ(param({{"reasoning_budget", 3}, {"thinking_budget_tokens", 4}}), "thinking_budget_tokens");
}

/// Messages of gpt-oss: the first one's channel is its reasoning.
TEST_F(Thoughts, EndInChannels) {
  TestServerOptions channels;
  channels.tokenizer = plain_tokenizer();
  channels.server.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}@{# <|channel|>analysis<|message|> #}";
  const std::string begin = "<|channel|>analysis<|message|>";
  const FakeModel::Script begins = say(begin, {}, '@');
  const LocalServer of_channels(channels, [&](const FakeModel::Tokens& visible) {
    const std::int32_t token = begins(visible);
    return token == end_token ? FakeModel::any_token : token;
  });
  for (const std::size_t budget : {std::size_t{0}, std::size_t{3}}) {
    Json request = letters_only(120);
    request.update({{"messages", Json::array({user("q")})}, {"reasoning_budget", budget}});
    const HttpAnswer answer = post(of_channels, "/v1/chat/completions", request);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json message = answer.json()["choices"][0]["message"];
    EXPECT_EQ(message.value("reasoning_content", "").size(), budget) << message;
    const std::string content = message["content"];
    EXPECT_EQ(content.size(),
              120 - begin.size() - budget - std::string("<|end|><|start|>assistant<|channel|>final<|message|>").size());
    EXPECT_TRUE(is_letters(content)) << content;
  }
}

/// The tokens that may come, as characters; "*" for all.
std::string allowed(TokenConstraint& constraint) {
  std::vector<std::uint32_t> mask((byte_vocab + 31) / 32);
  constraint.allowed(mask);
  std::string found;
  std::size_t count = 0;
  for (std::int32_t id = 0; id < byte_vocab; ++id) {
    if ((mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1u) != 0) {
      ++count;
      found += static_cast<char>(id - 3);
    }
  }
  return count == byte_vocab ? "*" : found;
}

void accept(TokenConstraint& constraint, const std::string& text) {
  for (const std::int32_t id : byte_ids(text)) {
    constraint.accept(id);
  }
}

TEST(ThoughtBudget, CountsFromTheMarkThatTheAnswerBeginsWith) {
  const ThoughtBudget budget{.begin = "<t>", .end = "</t>", .tokens = 3, .closing = byte_ids("!</t>")};
  const auto fresh = [&] { return make_thought_budget(byte_tokenizer(), budget, nullptr); };
  auto thinks = fresh();
  accept(*thinks, " \n<t>ab");
  EXPECT_EQ(allowed(*thinks), "*");
  const auto fork = thinks->clone();
  accept(*thinks, "c");
  for (const char expected : std::string("!</t>")) {
    EXPECT_EQ(allowed(*thinks), std::string(1, expected));
    accept(*thinks, std::string(1, expected));
  }
  EXPECT_EQ(allowed(*thinks), "*");
  accept(*thinks, "<t>abcdef");
  EXPECT_EQ(allowed(*thinks), "*") << "reasoning comes once";
  EXPECT_EQ(allowed(*fork), "*") << "a fork goes its own way";
  auto ends = fresh();
  accept(*ends, "<t></t");
  EXPECT_EQ(allowed(*ends), "!") << "three tokens have come, and they are no end";
  auto short_enough = make_thought_budget(
      byte_tokenizer(), {.begin = "<t>", .end = "</t>", .tokens = 9, .closing = byte_ids("!</t>")}, nullptr);
  accept(*short_enough, "<t>a</t>abcdefghijklm");
  EXPECT_EQ(allowed(*short_enough), "*");
  auto answers = fresh();
  accept(*answers, "a<t>abcdef");
  EXPECT_EQ(allowed(*answers), "*") << "a mark inside the answer begins no reasoning";
}

}  // namespace
}  // namespace rocmforge
