// Slots by llama-server's routes: a conversation is saved to a file, restored by another server, and erased.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/program.h"
#include "engine/golden_model_file.h"
#include "server/local_server.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

class ServerWithSlots : public testing::Test {
 protected:
  ServerWithSlots() { open(folder_.path().string()); }
  ~ServerWithSlots() override { std::remove(path_.c_str()); }

  void open(const std::string& folder) {
    EngineOptions options;
    options.device = "cpu";
    options.threads = 2;
    options.context_length = 128;
    options.kv_tokens = 1024;
    options.max_sequences = 2;
    options.cache_ram_bytes = std::int64_t{16} << 20;
    options.slots = !folder.empty();
    ServerOptions server;
    server.model_id = "tiny";
    server.parallel = 2;
    server.slot_folder = folder;
    server_ = std::make_unique<LocalServer>(load_model(path_, options), server);
  }
  /// Tokens of the prompt that were known.
  [[nodiscard]] int cached(const Json& fields = Json::object()) const {
    Json prompt = Json::array();
    for (int i = 0; i < 80; ++i) {
      prompt.push_back(i * i % 100);
    }
    Json body = {{"prompt", prompt}, {"n_predict", 4}, {"temperature", 0}, {"ignore_eos", true}};
    body.update(fields);
    const HttpAnswer answer = post(*server_, "/completion", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["timings"]["cache_n"];
  }
  [[nodiscard]] Json act(const std::string& target, const Json& body = Json::object(), int status = 200) const {
    const HttpAnswer answer = post(*server_, target, body);
    EXPECT_EQ(answer.status, status) << target << ": " << answer.body;
    return answer.json();
  }
  [[nodiscard]] std::string refusal(const std::string& target, const Json& body, int status = 400) const {
    const Json answer = act(target, body, status);
    return answer.contains("error") ? answer["error"]["message"].get<std::string>() : "";
  }

  std::string path_ = golden_model_file("llama-gqa4");
  TemporaryFolder folder_;
  std::unique_ptr<LocalServer> server_;
};

TEST_F(ServerWithSlots, AConversationIsSavedRestoredAndErased) {
  EXPECT_EQ(cached({{"id_slot", 1}}), 0);
  EXPECT_EQ(get(*server_, "/slots").json()[1]["n_tokens_named"], 84);
  const Json saved = act("/slots/1?action=save", {{"filename", "talk.bin"}});
  EXPECT_EQ(saved["id_slot"], 1);
  EXPECT_EQ(saved["filename"], "talk.bin");
  EXPECT_GE(saved["n_saved"], 64);
  EXPECT_EQ(saved["n_written"], std::filesystem::file_size(folder_.path() / "talk.bin"));
  EXPECT_GE(saved["timings"]["save_ms"], 0.0);

  open(folder_.path().string());
  const Json restored = act("/slots/0?action=restore", {{"filename", "talk.bin"}});
  EXPECT_EQ(restored["id_slot"], 0);
  EXPECT_EQ(restored["n_restored"], saved["n_saved"]);
  EXPECT_EQ(restored["n_read"], saved["n_written"]);
  EXPECT_GE(restored["timings"]["restore_ms"], 0.0);
  EXPECT_EQ(get(*server_, "/slots").json()[0]["n_tokens_named"], saved["n_saved"].get<int>() + 1);
  EXPECT_GE(cached(), 64);

  EXPECT_EQ(act("/slots/0?action=erase")["n_erased"], 84);
  EXPECT_EQ(post_text(*server_, "/slots/0?action=erase", "").status, 400)
      << "there is nothing any more, and no body is fine";
  EXPECT_EQ(cached(), 0);
}

TEST_F(ServerWithSlots, SaltsTellConversationsApart) {
  EXPECT_EQ(cached({{"id_slot", 0}, {"cache_salt", "a"}}), 0);
  EXPECT_THAT(refusal("/slots/0?action=save", {{"filename", "x"}}), HasSubstr("no conversation of this key and cache_salt"));
  EXPECT_TRUE(act("/slots/0?action=save", {{"filename", "x"}, {"cache_salt", "a"}}).contains("n_saved"));
  open(folder_.path().string());
  EXPECT_THAT(refusal("/slots/0?action=restore", {{"filename", "x"}}), HasSubstr("x: was saved by another key"));
  EXPECT_TRUE(act("/slots/0?action=restore", {{"filename", "x"}, {"cache_salt", "a"}}).contains("n_restored"));
  EXPECT_EQ(cached(), 0);
  EXPECT_GE(cached({{"cache_salt", "a"}}), 64);
}

TEST_F(ServerWithSlots, WhatCannotBeDoneIsOneLine) {
  EXPECT_THAT(refusal("/slots/2?action=save", {{"filename", "x"}}), HasSubstr("the slots are 0 to 1"));
  EXPECT_THAT(refusal("/slots/one?action=save", {{"filename", "x"}}), HasSubstr("the slots are 0 to 1"));
  EXPECT_THAT(refusal("/slots/0", {{"filename", "x"}}), HasSubstr("action=save"));
  EXPECT_THAT(refusal("/slots/0?action=keep", {{"filename", "x"}}), HasSubstr("action=save"));
  EXPECT_THAT(refusal("/slots/0?action=save", Json::object()), HasSubstr("filename"));
  EXPECT_THAT(refusal("/slots/0?action=save", {{"filename", "../x"}}), HasSubstr("no parts of a path"));
  EXPECT_THAT(refusal("/slots/0?action=save", {{"filename", "x"}}), HasSubstr("slot 0 has no conversation"));
  EXPECT_THAT(refusal("/slots/0?action=restore", {{"filename", "none"}}), HasSubstr("none: No such file"));
  EXPECT_EQ(post(*server_, "/completion", {{"prompt", {1}}, {"id_slot", 2}}).status, 400);
  open("");
  EXPECT_THAT(refusal("/slots/0?action=save", {{"filename", "x"}}, 501), HasSubstr("--slot-save-path"));
}

}  // namespace
}  // namespace rocmforge
