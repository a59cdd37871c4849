// LoRA adapters as clients know them: by llama-server's routes and field, by vLLM's, and by the model's name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "engine/golden_model_file.h"
#include "server/local_server.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

std::string adapter_folder() { return test::test_data("golden/models/lora"); }

class ServerWithAdapters : public testing::Test {
 protected:
  ServerWithAdapters() { open(adapter_folder()); }
  ~ServerWithAdapters() override { std::remove(path_.c_str()); }

  void open(const std::string& folder) {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 64;
    options.kv_tokens = 1024;
    options.adapters = {{.path = adapter_folder() + "/llama-gqa4.gguf", .applies = false},
                        {.path = adapter_folder() + "/llama-gqa4-b.gguf", .scale = 0.5f, .applies = false}};
    ServerOptions server;
    server.model_id = "tiny";
    server.adapter_folder = folder;
    server_ = std::make_unique<LocalServer>(load_model(path_, options), server);
  }
  /// The tokens of an answer, with these fields in the request.
  [[nodiscard]] Json tokens(const Json& fields) const {
    Json body = {{"prompt", {3, 40, 77, 2, 9, 31}},
                 {"n_predict", 8},
                 {"temperature", 0},
                 {"ignore_eos", true},
                 {"return_tokens", true}};
    body.update(fields);
    const HttpAnswer answer = post(*server_, "/completion", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    Json tokens = answer.json()["tokens"];
    EXPECT_EQ(tokens.size(), 8u) << answer.body;
    return tokens;
  }
  std::string refusal(const char* path, const Json& body, int status) const {
    const HttpAnswer answer = post(*server_, path, body);
    EXPECT_EQ(answer.status, status) << answer.body;
    return answer.body;
  }

  std::string path_ = golden_model_file("llama-gqa4");
  std::unique_ptr<LocalServer> server_;
};

Json lora(int id, double scale) { return {{"lora", Json::array({{{"id", id}, {"scale", scale}}})}}; }

TEST_F(ServerWithAdapters, RequestsNameThemByIdOrAsAModel) {
  const Json plain = tokens(Json::object()), first = tokens(lora(0, 1.0)), half = tokens(lora(1, 0.5));
  EXPECT_NE(first, plain);
  EXPECT_NE(half, plain);
  EXPECT_EQ(tokens({{"model", "tiny:llama-gqa4"}}), first);
  EXPECT_EQ(tokens({{"model", "llama-gqa4"}}), first);
  EXPECT_EQ(tokens({{"model", "tiny:llama-gqa4-b"}}), half) << "with the scale that it was loaded with";
  EXPECT_EQ(tokens({{"model", "tiny"}}), plain);
  EXPECT_EQ(tokens({{"model", "tiny:latest"}}), plain) << "as Ollama's clients call it";
  EXPECT_EQ(tokens({{"model", "gpt-9"}}), plain) << "any other name is the model's";
  refusal("/completion", {{"prompt", {1}}, {"model", "tiny:llama"}}, 404);
  EXPECT_EQ(tokens({{"lora", Json::array()}}), plain);
  EXPECT_THAT(refusal("/completion", {{"prompt", {1}}, {"lora", Json::array({{{"id", 5}, {"scale", 1}}})}}, 400),
              HasSubstr("no such adapter is loaded"));
  EXPECT_THAT(refusal("/completion", {{"prompt", {1}}, {"lora", Json::array({{{"scale", 1}}})}}, 400),
              HasSubstr("lora[0].id"));
}

TEST_F(ServerWithAdapters, ScalesForAllAreSetAndTold) {
  Json list = get(*server_, "/lora-adapters").json();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1]["id"], 1);
  EXPECT_EQ(list[1]["name"], "llama-gqa4-b");
  EXPECT_EQ(list[1]["scale"], 0.0);
  EXPECT_EQ(post(*server_, "/lora-adapters", Json::array({{{"id", 0}, {"scale", 1.0}}})).status, 200);
  EXPECT_EQ(get(*server_, "/lora-adapters").json()[0]["scale"], 1.0);
  EXPECT_EQ(tokens(Json::object()), tokens(lora(0, 1.0)));
  EXPECT_EQ(post(*server_, "/lora-adapters", Json::array()).status, 200);
  EXPECT_EQ(tokens(Json::object()), tokens({{"lora", Json::array()}}));
  refusal("/lora-adapters", Json::array({{{"id", 9}, {"scale", 1.0}}}), 404);
  refusal("/lora-adapters", Json::array({{{"id", 0}}}), 400);
  refusal("/lora-adapters", {{"id", 0}}, 400);
}

/// The first block of the prompt lies before the invocation tokens: it is the one of the model alone.
TEST_F(ServerWithAdapters, AnAdapterWithInvocationTokensSharesWhatIsBeforeThem) {
  ASSERT_EQ(
      post(*server_, "/v1/load_lora_adapter", {{"lora_name", "late"}, {"lora_path", "llama-gqa4-invoked.gguf"}}).status,
      200);
  const Json entry = get(*server_, "/lora-adapters").json()[2];
  const Json invocation = entry["alora_invocation_tokens"];
  ASSERT_EQ(invocation.size(), 3u);
  EXPECT_FALSE(get(*server_, "/lora-adapters").json()[0].contains("alora_invocation_tokens"));

  Json prompt = Json::array();
  for (int i = 0; i < 40; ++i) {
    prompt.push_back(3 + 2 * i);
  }
  const Json plain = tokens({{"prompt", prompt}, {"lora", lora(2, 1.0)["lora"]}});
  EXPECT_EQ(plain, tokens({{"prompt", prompt}, {"lora", Json::array()}})) << "without the invocation tokens";
  prompt.insert(prompt.end(), invocation.begin(), invocation.end());
  const auto answer = [&](const char* model) {
    return post(*server_, "/v1/completions",
                {{"model", model}, {"prompt", prompt}, {"max_tokens", 4}, {"temperature", 0}, {"ignore_eos", true}})
        .json();
  };
  const Json late = answer("tiny:late");
  EXPECT_EQ(late["usage"]["prompt_tokens_details"]["cached_tokens"], 32) << late;
  EXPECT_EQ(answer("tiny:late")["choices"], late["choices"]);
}

TEST_F(ServerWithAdapters, ClientsLoadAndUnloadThoseOfTheFolder) {
  const Json expected = tokens(lora(0, 1.0));
  const HttpAnswer loaded =
      post(*server_, "/v1/load_lora_adapter", {{"lora_name", "mine"}, {"lora_path", "llama-gqa4.gguf"}});
  ASSERT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(tokens({{"model", "mine"}}), expected);
  const Json models = get(*server_, "/v1/models").json()["data"];
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[3]["id"], "mine");
  EXPECT_EQ(models[3]["parent"], "tiny");
  EXPECT_EQ(get(*server_, "/v1/models/mine").status, 200);
  refusal("/v1/load_lora_adapter", {{"lora_name", "mine"}, {"lora_path", "llama-gqa4.gguf"}}, 400);
  EXPECT_EQ(post(*server_, "/v1/unload_lora_adapter", {{"lora_name", "mine"}}).status, 200);
  refusal("/completion", {{"prompt", {1}}, {"model", "mine"}}, 404);
  refusal("/completion", {{"prompt", {1}}, {"model", "tiny:mine"}}, 404);
  refusal("/v1/unload_lora_adapter", {{"lora_name", "mine"}}, 404);
}

TEST_F(ServerWithAdapters, OtherFilesAreNotRead) {
  for (const char* path : {"../llama-gqa4.gguf", "/etc/passwd", "none.gguf", ".", ""}) {
    EXPECT_THAT(refusal("/v1/load_lora_adapter", {{"lora_name", "x"}, {"lora_path", path}}, 400),
                HasSubstr("no such file in the folder of adapters"));
  }
  EXPECT_THAT(refusal("/v1/load_lora_adapter", {{"lora_name", "x"}, {"lora_path", "phi3.gguf"}}, 400),
              HasSubstr("an adapter for 'phi3' models"));
  open("");
  EXPECT_THAT(refusal("/v1/load_lora_adapter", {{"lora_name", "x"}, {"lora_path", "llama-gqa4.gguf"}}, 403),
              HasSubstr("--lora-folder"));
  EXPECT_THAT(refusal("/v1/unload_lora_adapter", {{"lora_name", "llama-gqa4"}}, 403), HasSubstr("--lora-folder"));
}

}  // namespace
}  // namespace rocmforge
