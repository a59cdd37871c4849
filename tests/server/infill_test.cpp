// Fill in the middle: /infill and the suffix of /v1/completions.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/plain_tokenizer.h"
#include "server/prompt_server.h"

namespace rocmforge {
namespace {

using Tokens = FakeModel::Tokens;

constexpr std::int32_t prefix_mark = byte_vocab, suffix_mark = byte_vocab + 1, middle_mark = byte_vocab + 2,
                       repository_mark = byte_vocab + 3, file_mark = byte_vocab + 4;

/// The byte tokenizer with marks for gaps, and with those for files if asked for.
std::shared_ptr<const Tokenizer> tokenizer_with_gaps(bool with_files) {
  const auto mark = [](const char* text) { return std::pair(std::string(text), TokenType::control); };
  return with_files ? plain_tokenizer({mark("<|fim_prefix|>"), mark("<|fim_suffix|>"), mark("<|fim_middle|>"),
                                       mark("<|repo_name|>"), mark("<|file_sep|>")})
                    : plain_tokenizer({mark("<|fim_prefix|>"), mark("<|fim_suffix|>"), mark("<|fim_middle|>")});
}

class GapServer : public PromptServer {
 public:
  explicit GapServer(bool with_files = false, bool with_gaps = true) : PromptServer(options(with_files, with_gaps)) {}

 private:
  static TestServerOptions options(bool with_files, bool with_gaps) {
    TestServerOptions options;
    if (with_gaps) {
      options.tokenizer = tokenizer_with_gaps(with_files);
    }
    return options;
  }
};

/// Texts and marks put together.
Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens all;
  for (const Tokens& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Infill, PutsTheMarksAroundTheGap) {
  const GapServer server;
  const HttpAnswer answer =
      post(server, "/infill", {{"input_prefix", "a=<|fim_middle|>"}, {"input_suffix", ";\n"}, {"temperature", 0}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["content"], "hi");
  EXPECT_EQ(answer.json()["stop_type"], "eos");
  EXPECT_EQ(server.prompt(), joined({{bos_token, prefix_mark},
                                     byte_ids("a=<|fim_middle|>"),  // a text never becomes a mark
                                     {suffix_mark},
                                     byte_ids(";\n"),
                                     {middle_mark}}));
  // What the gap's text begins with.
  post(server, "/infill", {{"input_prefix", "a"}, {"input_suffix", ""}, {"prompt", "b"}, {"add_special_tokens", false}});
  EXPECT_EQ(server.prompt(), joined({{prefix_mark}, byte_ids("ab"), {suffix_mark, middle_mark}}));
}

TEST(Infill, IsOllamasSuffix) {
  const GapServer server;
  const HttpAnswer answer =
      post(server, "/api/generate", {{"prompt", "a="}, {"suffix", ";"}, {"stream", false}, {"system", "S"}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["response"], "hi");
  EXPECT_EQ(answer.headers.at("x-ignored-fields"), "system");
  EXPECT_EQ(server.prompt(),
            joined({{bos_token, prefix_mark}, byte_ids("a="), {suffix_mark}, byte_ids(";"), {middle_mark}}));
  const auto has_insert = [](const GapServer& of) {
    const Json list = post(of, "/api/show", {{"model", "model"}}).json()["capabilities"];
    return std::ranges::find(list, Json("insert")) != list.end();
  };
  EXPECT_TRUE(has_insert(server));
  const GapServer without(false, false);
  EXPECT_FALSE(has_insert(without));
  const HttpAnswer refused = post(without, "/api/generate", {{"prompt", "a="}, {"suffix", ";"}});
  EXPECT_EQ(refused.status, 501);
  EXPECT_TRUE(refused.json()["error"].is_string()) << refused.body;
}

TEST(Infill, TakesWhatEditorsSend) {
  const GapServer server;
  const Json request = {{"id_slot", 0},
                        {"input_prefix", "x"},
                        {"input_suffix", "y"},
                        {"input_extra", Json::array()},
                        {"prompt", ""},
                        {"n_predict", 128},
                        {"stop", Json::array()},
                        {"n_indent", 4},
                        {"top_k", 40},
                        {"top_p", 0.9},
                        {"stream", false},
                        {"samplers", {"top_k", "top_p", "infill"}},
                        {"cache_prompt", true},
                        {"t_max_prompt_ms", 500},
                        {"t_max_predict_ms", 1000},
                        {"response_fields", {"content", "timings/prompt_n", "stop_type"}}};
  const HttpAnswer answer = post(server, "/infill", request);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["content"], "hi");
  EXPECT_EQ(answer.json().size(), 3u) << answer.body;
  Json warm_up = request;
  warm_up["n_predict"] = 0;
  const HttpAnswer warmed = post(server, "/infill", warm_up);
  ASSERT_EQ(warmed.status, 200) << warmed.body;
  EXPECT_EQ(warmed.json()["content"], "");
  Json streamed = request;
  streamed["stream"] = true;
  std::string text;
  for (const Json& event : post(server, "/infill", streamed).events()) {
    text += event["content"];
  }
  EXPECT_EQ(text, "hi");
}

TEST(Infill, PutsOtherFilesBeforeTheGap) {
  const Json request = {{"input_prefix", "x"},
                        {"input_suffix", "y"},
                        {"n_predict", 10},
                        {"input_extra", {{{"filename", "a.h"}, {"text", "A"}}, {{"text", "B"}}}}};
  const Tokens gap = joined({{bos_token, prefix_mark}, byte_ids("x"), {suffix_mark}, byte_ids("y"), {middle_mark}});
  const GapServer with_files(true);
  ASSERT_EQ(post(with_files, "/infill", request).status, 200);
  EXPECT_EQ(with_files.prompt(), joined({{repository_mark},
                                         byte_ids("project\n"),
                                         {file_mark},
                                         byte_ids("a.h\nA"),
                                         {file_mark},
                                         byte_ids("tmp\nB"),
                                         {file_mark},
                                         byte_ids("filename\n"),
                                         gap}));
  const GapServer without_files;
  ASSERT_EQ(post(without_files, "/infill", request).status, 200);
  const Tokens mark = tokenizer_with_gaps(false)->encode("\n\n--- snippet ---\n\n", {.add_special = false});
  EXPECT_EQ(without_files.prompt(), joined({mark, byte_ids("A"), mark, byte_ids("B"), gap}));
  // Of a text longer than the context, only the end is used.
  Json much = request;
  much["input_extra"] = {{{"text", std::string(1000, 'A') + "B"}}};
  ASSERT_EQ(post(without_files, "/infill", much).status, 200);
  const Tokens prompt = without_files.prompt();
  EXPECT_EQ(prompt.size(), 256u - 10u);
  EXPECT_EQ(Tokens(prompt.end() - static_cast<std::ptrdiff_t>(gap.size()), prompt.end()), gap);
  EXPECT_EQ(prompt[prompt.size() - gap.size() - 1], byte_ids("B").front());
  much["input_suffix"] = std::string(1000, 'y');
  EXPECT_EQ(post(without_files, "/infill", much).json()["error"]["type"], "exceed_context_size_error");
}

TEST(Infill, RefusesWhatIsNoGap) {
  const GapServer server;
  const auto param = [&](const Json& request) { return post(server, "/infill", request).json()["error"]["param"]; };
  EXPECT_EQ(param({{"input_suffix", "a"}}), "input_prefix");
  EXPECT_EQ(param({{"input_prefix", "a"}}), "input_suffix");
  EXPECT_EQ(param({{"input_prefix", "a"}, {"input_suffix", 1}}), "input_suffix");
  EXPECT_EQ(param({{"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", {{{"filename", "f"}}}}}),
            "input_extra[0].text");
  EXPECT_EQ(param({{"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", {"text"}}}), "input_extra[0]");
}

TEST(Suffix, FillsTheGapBehindEachPrompt) {
  const GapServer server;
  const HttpAnswer answer = post(server, "/v1/completions", {{"prompt", {"a", "b"}}, {"suffix", "z"}, {"n", 2}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["choices"].size(), 4u);
  EXPECT_EQ(answer.json()["choices"][3]["text"], "hi");
  post(server, "/v1/completions", {{"prompt", byte_ids("q")}, {"suffix", "z"}});
  EXPECT_EQ(server.prompt(), joined({{bos_token, prefix_mark}, byte_ids("q"), {suffix_mark}, byte_ids("z"), {middle_mark}}));
  EXPECT_EQ(post(server, "/v1/completions", {{"prompt", "a"}, {"suffix", "z"}, {"echo", true}}).json()["error"]["param"],
            "echo");
  EXPECT_EQ(post(server, "/generate", {{"prompt", "a"}, {"suffix", "z"}}).json()["error"]["param"], "suffix");
}

}  // namespace
}  // namespace rocmforge
