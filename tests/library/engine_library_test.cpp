// The C interface to whole models, with the demo model on the CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "paths.h"
#include "rocmforge/rocmforge.h"

namespace {

using Options = std::vector<const char*>;
using Json = nlohmann::json;

const char* const* ending(Options& options) {
  options.push_back(nullptr);
  return options.data();
}

rocmforge_model* load(Options options = {}) {
  options.push_back("device=cpu");
  options.push_back("threads=2");
  options.push_back("context=512");
  rocmforge_model* model = nullptr;
  EXPECT_EQ(rocmforge_model_load(rocmforge::test::source_path("models/forge-demo.gguf").c_str(), ending(options), &model),
            ROCMFORGE_OK)
      << rocmforge_last_error();
  return model;
}

std::string take(char* text) {
  std::string copy = text != nullptr ? text : "";
  rocmforge_free(text);
  return copy;
}

struct Pieces {
  std::vector<std::string> all{};
  std::size_t most = std::numeric_limits<std::size_t>::max();

  static int add(const char* piece, std::size_t bytes, void* user) {
    auto& pieces = *static_cast<Pieces*>(user);
    pieces.all.emplace_back(piece, bytes);
    return pieces.all.size() >= pieces.most ? 1 : 0;
  }
  [[nodiscard]] std::string joined() const { return std::accumulate(all.begin(), all.end(), std::string()); }
};

/// The result of rocmforge_generate; null on failure, with the error in `error`.
Json generate(rocmforge_model* model, const char* prompt, Options options, Pieces* pieces = nullptr) {
  char* result = nullptr;
  const rocmforge_status status =
      rocmforge_generate(model, prompt, ending(options), pieces != nullptr ? Pieces::add : nullptr, pieces, &result);
  EXPECT_EQ(status, ROCMFORGE_OK) << rocmforge_last_error();
  return status == ROCMFORGE_OK ? Json::parse(take(result)) : Json();
}

constexpr const char* question = "What is 127 + 458?";

class EngineLibrary : public testing::Test {
 protected:
  static void SetUpTestSuite() { model = load(); }
  static void TearDownTestSuite() { EXPECT_EQ(rocmforge_model_free(model), ROCMFORGE_OK); }

  static rocmforge_model_properties properties() {
    rocmforge_model_properties all{};
    all.struct_bytes = sizeof all;
    EXPECT_EQ(rocmforge_model_get_properties(model, &all), ROCMFORGE_OK);
    return all;
  }
  static std::vector<std::int32_t> tokenize(const std::string& text, int flags = 0) {
    std::vector<std::int32_t> tokens(256);
    std::size_t count = 0;
    EXPECT_EQ(rocmforge_tokenize(model, text.data(), text.size(), flags, tokens.data(), tokens.size(), &count),
              ROCMFORGE_OK);
    tokens.resize(count);
    return tokens;
  }
  static std::vector<float> logits(const std::vector<std::int32_t>& tokens) {
    std::vector<float> values(static_cast<std::size_t>(properties().vocab_size));
    EXPECT_EQ(rocmforge_logits(model, tokens.data(), tokens.size(), values.data()), ROCMFORGE_OK) << rocmforge_last_error();
    return values;
  }

  static rocmforge_model* model;
};

rocmforge_model* EngineLibrary::model = nullptr;

TEST_F(EngineLibrary, TellsWhatTheModelIs) {
  const rocmforge_model_properties all = properties();
  EXPECT_STRNE(all.architecture, "");
  EXPECT_EQ(all.context_length, 512);
  EXPECT_GT(all.vocab_size, 0);
  EXPECT_GT(all.embedding_length, 0);
  EXPECT_EQ(all.has_tokenizer, 1);
  EXPECT_EQ(all.has_chat_template, 1);
  EXPECT_NE(std::string(all.path).find("forge-demo.gguf"), std::string::npos);
}

TEST_F(EngineLibrary, WritesNoMoreOfTheirPropertiesThanTheCallerKnows) {
  rocmforge_model_properties some{};
  some.struct_bytes = offsetof(rocmforge_model_properties, context_length);
  some.context_length = -7;
  ASSERT_EQ(rocmforge_model_get_properties(model, &some), ROCMFORGE_OK);
  EXPECT_GT(some.vocab_size, 0);
  EXPECT_EQ(some.context_length, -7);
  some.struct_bytes = 0;
  EXPECT_EQ(rocmforge_model_get_properties(model, &some), ROCMFORGE_INVALID);
}

TEST_F(EngineLibrary, AnswersAPromptAsItComes) {
  Pieces pieces;
  const Json result = generate(model, question, {"greedy"}, &pieces);
  EXPECT_EQ(result["text"], "585");
  EXPECT_EQ(result["finish_reason"], "stop");
  EXPECT_EQ(pieces.joined(), "585");
  EXPECT_GT(pieces.all.size(), 1U);
}

TEST_F(EngineLibrary, EndsAnAnswerWhereTheCallerWantsNoMore) {
  Pieces pieces{.most = 2};
  const Json result = generate(model, "The", {"greedy", "raw", "ignore-eos", "max-tokens=200"}, &pieces);
  EXPECT_EQ(result["finish_reason"], "cancelled");
  EXPECT_EQ(pieces.all.size(), 2U);
  EXPECT_EQ(result["text"], pieces.joined());
}

TEST_F(EngineLibrary, ReproducesAnAnswerBySeed) {
  const auto answer = [&](const char* seed) {
    return generate(model, "The", {"raw", "temp=1.5", "ignore-eos", "max-tokens=24", seed})["text"].get<std::string>();
  };
  EXPECT_EQ(answer("seed=3"), answer("seed=3"));
  EXPECT_NE(answer("seed=3"), answer("seed=4"));
}

TEST_F(EngineLibrary, HoldsAnAnswerToASchema) {
  const Json result = generate(model, question, {"greedy", R"(json-schema={"enum": ["yes", "no"]})"});
  const std::string text = result["text"];
  EXPECT_TRUE(text == "\"yes\"" || text == "\"no\"") << text;
}

TEST_F(EngineLibrary, TakesWhatItWasLoadedWithAndWhatACallSaysOverThat) {
  rocmforge_model* other = load({"greedy", "max-tokens=2", "json-schema={\"type\": \"integer\"}"});
  EXPECT_EQ(generate(other, question, {})["generated_tokens"], 2);
  EXPECT_EQ(generate(other, question, {"max_tokens=1"})["generated_tokens"], 1);
  EXPECT_EQ(generate(other, question, {"grammar=root ::= \"x\"", "greedy=false", "temp=0.5"})["text"], "x");
  EXPECT_EQ(rocmforge_model_free(other), ROCMFORGE_OK);
}

TEST_F(EngineLibrary, RefusesWrongOptionsInTheWordsOfTheProgram) {
  const auto refused = [&](Options options, const std::string& message) {
    EXPECT_EQ(rocmforge_generate(model, question, ending(options), nullptr, nullptr, nullptr), ROCMFORGE_INVALID);
    EXPECT_EQ(rocmforge_last_error(), message);
  };
  refused({"top-k=-9"}, "--top-k is -9, must be at least -1");
  refused({"max_tokns=3"}, "there is no option --max-tokns; did you mean --max-tokens? (see rocmforge run --help)");
  refused({"greedy", "temp=1"}, "--temp excludes --greedy (see rocmforge run --help)");
  refused({"seed"}, "--seed needs a value");
  refused({"raw=maybe"}, "--raw is maybe, must be true or false");
  refused({"raw", "system=Be brief."}, "--system has no meaning with --raw");
  refused({"stop="}, "--stop: the text is empty");
  refused({"device=cpu"}, "there is no option --device (see rocmforge run --help)");
}

TEST_F(EngineLibrary, RefusesAModelThatThereIsNot) {
  rocmforge_model* none = nullptr;
  EXPECT_EQ(rocmforge_model_load("/no/such.gguf", nullptr, &none), ROCMFORGE_INVALID);
  EXPECT_STREQ(rocmforge_last_error(), "there is no file '/no/such.gguf'");
  EXPECT_EQ(rocmforge_model_load(rocmforge::test::source_path("README.md").c_str(), nullptr, &none), ROCMFORGE_FAILED);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(rocmforge_model_load("", nullptr, nullptr), ROCMFORGE_INVALID);
}

TEST_F(EngineLibrary, RefusesHandlesThatAreNullOrWereGivenBack) {
  rocmforge_model* other = load();
  rocmforge_sequence* sequence = nullptr;
  ASSERT_EQ(rocmforge_sequence_new(other, nullptr, &sequence), ROCMFORGE_OK);
  EXPECT_EQ(rocmforge_model_free(other), ROCMFORGE_OK);
  EXPECT_EQ(rocmforge_model_free(other), ROCMFORGE_INVALID);
  EXPECT_STREQ(rocmforge_last_error(), "the model handle is null or was given back");
  EXPECT_EQ(rocmforge_generate(other, question, nullptr, nullptr, nullptr, nullptr), ROCMFORGE_INVALID);
  EXPECT_EQ(rocmforge_generate(nullptr, question, nullptr, nullptr, nullptr, nullptr), ROCMFORGE_INVALID);
  EXPECT_EQ(rocmforge_model_free(nullptr), ROCMFORGE_OK);

  const std::int32_t token = 1;  // the sequence keeps the model
  EXPECT_EQ(rocmforge_sequence_append(sequence, &token, 1, nullptr), ROCMFORGE_OK);
  EXPECT_EQ(rocmforge_sequence_free(sequence), ROCMFORGE_OK);
  EXPECT_EQ(rocmforge_sequence_append(sequence, &token, 1, nullptr), ROCMFORGE_INVALID);
}

TEST_F(EngineLibrary, TurnsTextIntoTokensAndBack) {
  const std::string text = "Hello, wörld";
  const std::vector<std::int32_t> tokens = tokenize(text, ROCMFORGE_NO_SPECIAL);
  ASSERT_GT(tokens.size(), 1U);
  std::size_t count = 0;
  std::int32_t first = -1;
  ASSERT_EQ(rocmforge_tokenize(model, text.data(), text.size(), ROCMFORGE_NO_SPECIAL, &first, 1, &count), ROCMFORGE_OK);
  EXPECT_EQ(count, tokens.size());
  EXPECT_EQ(first, tokens.front());
  char* decoded = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(rocmforge_detokenize(model, tokens.data(), tokens.size(), 0, &decoded, &bytes), ROCMFORGE_OK);
  EXPECT_EQ(bytes, text.size());
  EXPECT_EQ(take(decoded), text);
  EXPECT_EQ(tokenize("<|im_start|>", ROCMFORGE_NO_SPECIAL | ROCMFORGE_PARSE_SPECIAL).size(), 1U);
}

TEST_F(EngineLibrary, GivesTheLogitsThatTheServersLogProbabilitiesComeFrom) {
  const std::vector<std::int32_t> tokens = tokenize("The");
  const std::vector<float> values = logits(tokens);
  char* result = nullptr;
  int status = 0;
  const std::string body =
      Json{{"prompt", tokens}, {"max_tokens", 1}, {"temperature", 0}, {"ignore_eos", true}, {"logprobs", 5}}.dump();
  ASSERT_EQ(rocmforge_request(model, "POST", "/v1/completions", body.c_str(), nullptr, nullptr, &status, &result),
            ROCMFORGE_OK);
  const std::string answer = take(result);
  ASSERT_EQ(status, 200) << answer;
  const auto likeliest = std::max_element(values.begin(), values.end());
  double sum = 0.0;
  for (const float value : values) {
    sum += std::exp(static_cast<double>(value - *likeliest));
  }
  const Json logprobs = Json::parse(answer)["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["token_logprobs"].size(), 1U) << answer;
  EXPECT_NEAR(logprobs["token_logprobs"][0].get<double>(), -std::log(sum), 1e-4);
  EXPECT_EQ(logprobs["top_logprobs"][0].size(), 5U);
}

TEST_F(EngineLibrary, ASequenceGrowsTokenByToken) {
  Options options = {"greedy"};
  rocmforge_sequence* sequence = nullptr;
  ASSERT_EQ(rocmforge_sequence_new(model, ending(options), &sequence), ROCMFORGE_OK);
  std::int32_t token = -1;
  EXPECT_EQ(rocmforge_sequence_sample(sequence, &token), ROCMFORGE_INVALID);
  EXPECT_EQ(rocmforge_sequence_append(sequence, nullptr, 0, nullptr), ROCMFORGE_INVALID);

  std::vector<std::int32_t> tokens = tokenize("The");
  const std::size_t prompt = tokens.size();
  std::vector<float> values(static_cast<std::size_t>(properties().vocab_size));
  std::size_t added = 0;
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(rocmforge_sequence_append(sequence, tokens.data() + added, tokens.size() - added, values.data()),
              ROCMFORGE_OK);
    EXPECT_EQ(values, logits(tokens));
    ASSERT_EQ(rocmforge_sequence_sample(sequence, &token), ROCMFORGE_OK);
    added = tokens.size();
    tokens.push_back(token);
  }
  std::size_t length = 0;
  ASSERT_EQ(rocmforge_sequence_length(sequence, &length), ROCMFORGE_OK);
  EXPECT_EQ(length, tokens.size() - 1);

  char* result = nullptr;
  Options generating = {"greedy", "ignore-eos", "max-tokens=12"};
  ASSERT_EQ(rocmforge_generate_tokens(model, tokens.data(), prompt, ending(generating), nullptr, nullptr, &result),
            ROCMFORGE_OK);
  char* decoded = nullptr;
  ASSERT_EQ(rocmforge_detokenize(model, tokens.data() + prompt, 12, ROCMFORGE_NO_SPECIAL, &decoded, nullptr), ROCMFORGE_OK);
  EXPECT_EQ(Json::parse(take(result))["text"], take(decoded));

  EXPECT_EQ(rocmforge_sequence_truncate(sequence, length + 1), ROCMFORGE_INVALID);
  ASSERT_EQ(rocmforge_sequence_truncate(sequence, prompt), ROCMFORGE_OK);
  EXPECT_EQ(rocmforge_sequence_sample(sequence, &token), ROCMFORGE_INVALID);
  ASSERT_EQ(rocmforge_sequence_append(sequence, &tokens[prompt], 1, nullptr), ROCMFORGE_OK);
  ASSERT_EQ(rocmforge_sequence_sample(sequence, &token), ROCMFORGE_OK);
  EXPECT_EQ(token, tokens[prompt + 1]);
  const std::int32_t stranger = properties().vocab_size;
  EXPECT_EQ(rocmforge_sequence_append(sequence, &stranger, 1, nullptr), ROCMFORGE_INVALID);
  EXPECT_EQ(rocmforge_sequence_free(sequence), ROCMFORGE_OK);
}

TEST_F(EngineLibrary, ConversesAsTheServerDoes) {
  const std::string messages = Json::array({{{"role", "user"}, {"content", question}}}).dump();
  Options options = {"greedy"};
  char* result = nullptr;
  ASSERT_EQ(rocmforge_chat(model, messages.c_str(), ending(options), nullptr, nullptr, &result), ROCMFORGE_OK);
  const Json whole = Json::parse(take(result));
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "585");

  Pieces pieces;
  ASSERT_EQ(rocmforge_chat(model, messages.c_str(), options.data(), Pieces::add, &pieces, &result), ROCMFORGE_OK);
  EXPECT_EQ(result, nullptr);
  std::string streamed;
  for (const std::string& piece : pieces.all) {
    const Json chunk = Json::parse(piece);
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    const Json& delta = chunk["choices"][0]["delta"];
    streamed += delta.contains("content") && delta["content"].is_string() ? delta["content"].get<std::string>() : "";
  }
  EXPECT_EQ(streamed, "585");

  Pieces two{.most = 2};
  EXPECT_EQ(rocmforge_chat(model, messages.c_str(), options.data(), Pieces::add, &two, nullptr), ROCMFORGE_OK);
  EXPECT_EQ(two.all.size(), 2U);
}

TEST_F(EngineLibrary, RefusesAConversationThatIsNone) {
  const auto refused = [&](const std::string& request, Options options, rocmforge_status status,
                           const std::string& message) {
    EXPECT_EQ(rocmforge_chat(model, request.c_str(), ending(options), nullptr, nullptr, nullptr), status);
    EXPECT_NE(std::string(rocmforge_last_error()).find(message), std::string::npos) << rocmforge_last_error();
  };
  refused("{", {}, ROCMFORGE_INVALID, "the request is not valid JSON: parse error at line 1");
  refused("1", {}, ROCMFORGE_INVALID, "the request is neither an array of messages nor a JSON object");
  refused(std::string(100'000, '[') + std::string(100'000, ']'), {}, ROCMFORGE_INVALID, "nested deeper than 96 levels");
  refused(R"({"messages": )" + std::string(100'000, '['), {}, ROCMFORGE_INVALID, "nested deeper than 96 levels");
  refused("[3]", {"system=Be brief."}, ROCMFORGE_FAILED, "messages[1] is 3, must be an object");
  refused(R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": -5})", {}, ROCMFORGE_FAILED,
          "max_tokens is -5, must be -1 to 1073741824");
  refused("[]", {"context-shift"}, ROCMFORGE_INVALID,
          "--context-shift is for prompts; in a conversation drop the oldest messages");
}

TEST_F(EngineLibrary, EmbedsTexts) {
  const auto width = static_cast<std::size_t>(properties().embedding_length);
  const char* texts[] = {"red", "blue", "red"};
  std::vector<float> values(3 * width);
  ASSERT_EQ(rocmforge_embed(model, texts, 3, values.data()), ROCMFORGE_OK) << rocmforge_last_error();
  EXPECT_NEAR(std::inner_product(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(width), values.begin(), 0.0),
              1.0, 1e-5);
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(width),
                         values.end() - static_cast<std::ptrdiff_t>(width)));
  EXPECT_EQ(rocmforge_embed(model, nullptr, 1, values.data()), ROCMFORGE_INVALID);
}

TEST_F(EngineLibrary, AnswersSeveralThreadsOfSeveralModels) {
  rocmforge_model* other = load();
  std::vector<std::string> texts(6);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      threads.emplace_back([&, i] { texts[i] = generate(i % 2 == 0 ? model : other, question, {"greedy"})["text"]; });
    }
  }
  EXPECT_EQ(texts, std::vector<std::string>(texts.size(), "585"));
  EXPECT_EQ(rocmforge_model_free(other), ROCMFORGE_OK);
}

TEST_F(EngineLibrary, KeepsTheErrorOfEachThread) {
  EXPECT_EQ(rocmforge_generate(nullptr, question, nullptr, nullptr, nullptr, nullptr), ROCMFORGE_INVALID);
  const std::string here = rocmforge_last_error();
  std::jthread([] { EXPECT_STREQ(rocmforge_last_error(), ""); }).join();
  EXPECT_EQ(rocmforge_last_error(), here);
}

TEST_F(EngineLibrary, SaysThatAllPlacesAreTaken) {
  rocmforge_model* small = load({"parallel=1", "max-waiting=0"});
  struct Nested {
    rocmforge_model* model;
    rocmforge_status status;
  } nested{small, ROCMFORGE_OK};
  const auto ask_again = [](const char*, std::size_t, void* user) {
    auto& mine = *static_cast<Nested*>(user);
    mine.status = rocmforge_generate(mine.model, question, nullptr, nullptr, nullptr, nullptr);
    return 1;
  };
  Options options = {"greedy", "raw", "ignore-eos"};
  EXPECT_EQ(rocmforge_generate(small, "The", ending(options), ask_again, &nested, nullptr), ROCMFORGE_OK);
  EXPECT_EQ(nested.status, ROCMFORGE_BUSY);
  EXPECT_EQ(rocmforge_model_free(small), ROCMFORGE_OK);
}

TEST_F(EngineLibrary, ServesTheModelOnceMoreAfterItWasStopped) {
  for (int i = 0; i < 2; ++i) {
    Options options = {"port=0", "log-file=/dev/null"};
    rocmforge_server* server = nullptr;
    ASSERT_EQ(rocmforge_server_start(model, ending(options), &server), ROCMFORGE_OK) << rocmforge_last_error();
    char* url = nullptr;
    int port = 0;
    ASSERT_EQ(rocmforge_server_address(server, &url, &port), ROCMFORGE_OK);
    EXPECT_EQ(take(url), "http://127.0.0.1:" + std::to_string(port));
    EXPECT_EQ(generate(model, question, {"greedy"})["text"], "585");
    EXPECT_EQ(rocmforge_server_stop(server), ROCMFORGE_OK);
    EXPECT_EQ(rocmforge_server_stop(server), ROCMFORGE_INVALID);
  }
  Options wrong = {"host=nowhere", "port=0"};
  rocmforge_server* server = nullptr;
  EXPECT_EQ(rocmforge_server_start(model, ending(wrong), &server), ROCMFORGE_FAILED);
  EXPECT_EQ(generate(model, question, {"greedy"})["text"], "585");
}

}  // namespace
