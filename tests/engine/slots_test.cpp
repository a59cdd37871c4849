// Slots: the kept prefix of a conversation goes to a file and comes back, into another engine too, with the same bits. What
// is damaged, or of another model, is refused in one line.

#include "engine/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/golden_model_file.h"
#include "error_of.h"
#include "paths.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;

constexpr PieceKey owner{1, 2, 3};

EngineOptions slot_options(const KvTypes& kv_type = DType::f16) {
  EngineOptions options{.context_length = 128, .max_batch_tokens = 128, .max_sequences = 3};
  options.kv_tokens = 1024;
  options.threads = 2;
  options.device = "cpu";
  options.cache_ram_bytes = std::int64_t{64} << 20;
  options.slots = true;
  options.model.kv_dtype = kv_type;
  return options;
}

struct Answered {
  Tokens tokens;
  std::vector<float> logprobs;
  std::int32_t cached = 0;
};

Request asking(const Tokens& prompt, std::int32_t slot = -1) {
  Request request;
  request.prompt = prompt;
  request.max_tokens = 6;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0f;
  request.logprobs = 0;
  request.slot = slot;
  return request;
}

Answered answer(Engine& engine, const Request& request) {
  engine.submit(request);
  Answered answered;
  while (engine.has_work()) {
    for (const StepOutput& output : engine.step()) {
      EXPECT_NE(output.finish, FinishReason::error) << output.text;
      answered.tokens.insert(answered.tokens.end(), output.tokens.begin(), output.tokens.end());
      for (const TokenLogprobs& drawn : output.logprobs) {
        answered.logprobs.push_back(drawn.logprob);
      }
      answered.cached = output.stats ? output.stats->cached_tokens : 0;
    }
  }
  return answered;
}

Tokens numbered(unsigned seed, std::size_t count) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int32_t>((i * i + seed * 37 + 5) % 100);
  }
  return tokens;
}

Tokens joined(Tokens first, const Tokens& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Writes a slot to a file; returns the tokens in it.
std::int32_t save(Engine& engine, std::int32_t id, const fs::path& path, const std::string& salt = {}) {
  const SlotHead head = engine.slots()->save(id, salt, owner);
  SlotWriter writer(path, head);
  for (std::int32_t i = 0; i < head.pieces(); ++i) {
    writer.add(engine.slots()->piece(id, head, i));
  }
  const std::int64_t written = writer.finish();
  EXPECT_EQ(written, static_cast<std::int64_t>(fs::file_size(path)));
  return head.saved_tokens();
}

std::int32_t restore(Engine& engine, std::int32_t id, const fs::path& path, const std::string& salt = {}) {
  SlotReader reader(path);
  EXPECT_EQ(reader.head().owner, owner);
  for (std::int32_t i = 0; i < reader.head().pieces(); ++i) {
    engine.slots()->restore_piece(reader.head(), salt, i, reader.next());
  }
  engine.slots()->restored(id, reader.head(), salt);
  return reader.head().saved_tokens();
}

class SlotsOfModel : public testing::TestWithParam<const char*> {
 protected:
  ~SlotsOfModel() override { std::remove(path_.c_str()); }
  std::string path_ = golden_model_file(GetParam());
  TemporaryFolder folder_;
};

TEST_P(SlotsOfModel, AnotherEngineGoesOnWithTheSameBits) {
  const fs::path file = folder_.path() / "one.slot";
  const Tokens prompt = numbered(1, 70), longer = joined(prompt, numbered(2, 30));
  const auto first = load_model(path_, slot_options());
  answer(*first, asking(prompt));
  const std::int32_t saved = save(*first, 0, file);
  EXPECT_GE(saved, 32);
  const Answered expected = answer(*first, asking(longer));
  EXPECT_EQ(expected.cached, saved);
  const auto second = load_model(path_, slot_options());
  EXPECT_EQ(restore(*second, 2, file), saved);
  EXPECT_EQ(second->slots()->num_tokens(2), saved + 1);
  EXPECT_EQ(second->status().prefix_queries, 0) << "nothing was computed for it";
  const Answered found = answer(*second, asking(longer));
  EXPECT_EQ(found.cached, saved);
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logprobs, expected.logprobs);
}

INSTANTIATE_TEST_SUITE_P(Models, SlotsOfModel, testing::Values("llama-gqa4", "gemma3", "falcon-h1", "deepseek-v2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Slots : public testing::Test {
 protected:
  ~Slots() override { std::remove(path_.c_str()); }
  [[nodiscard]] std::unique_ptr<Engine> load(const EngineOptions& options = slot_options()) const {
    return load_model(path_, options);
  }
  [[nodiscard]] fs::path file(const std::string& name = "one.slot") const { return folder_.path() / name; }

  std::string path_ = golden_model_file("llama-gqa4");
  TemporaryFolder folder_;
};

TEST_F(Slots, AConversationKeepsItsSlotAndANewOneTakesTheOldest) {
  const auto engine = load();
  const Tokens a = numbered(1, 60), b = numbered(2, 70), c = numbered(3, 80), d = numbered(4, 90);
  for (const Tokens* prompt : {&a, &b, &c}) {
    answer(*engine, asking(*prompt));
  }
  const auto lengths = [&] {
    return Tokens{engine->slots()->num_tokens(0), engine->slots()->num_tokens(1), engine->slots()->num_tokens(2)};
  };
  EXPECT_EQ(lengths(), (Tokens{66, 76, 86}));
  answer(*engine, asking(joined(a, numbered(5, 20))));
  EXPECT_EQ(lengths(), (Tokens{86, 76, 86})) << "it goes on";
  answer(*engine, asking(d));
  EXPECT_EQ(lengths(), (Tokens{86, 96, 86})) << "slot 1 was not used for longest";
  answer(*engine, asking(b, 0));
  EXPECT_EQ(lengths(), (Tokens{76, 96, 86})) << "the request says which";
  answer(*engine, asking(numbered(6, 10)));
  EXPECT_EQ(lengths(), (Tokens{76, 96, 86})) << "shorter than a block: nothing is kept of it";
}

TEST_F(Slots, ALongPromptIsSavedInPieces) {
  EngineOptions options = slot_options();
  const auto engine = load(options);
  answer(*engine, asking(numbered(1, 110)));
  const SlotHead whole = engine->slots()->save(0, "", owner);
  SlotHead parts = whole;
  parts.piece_blocks = 1;
  ASSERT_GT(parts.pieces(), 1);
  SlotWriter writer(file(), parts);
  for (std::int32_t i = 0; i < parts.pieces(); ++i) {
    writer.add(engine->slots()->piece(0, parts, i));
  }
  writer.finish();
  const auto second = load(options);
  restore(*second, 0, file());
  EXPECT_EQ(answer(*second, asking(numbered(1, 110))).cached, whole.saved_tokens());
}

void flip(const fs::path& file, std::uintmax_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 1));
}

TEST_F(Slots, ADamagedFileIsRefusedAndChangesNoAnswer) {
  const Tokens prompt = numbered(1, 70);
  const auto engine = load();
  const Answered expected = answer(*engine, asking(prompt));
  save(*engine, 0, file());
  const std::uintmax_t size = fs::file_size(file());
  const auto other = load();
  const auto expect_refusal = [&](const std::string& what) {
    const std::string line = error_of([&] { restore(*other, 0, file("damaged")); });
    EXPECT_NE(line, "no error") << what;
    EXPECT_EQ(line.find('\n'), std::string::npos) << what;
    EXPECT_EQ(other->slots()->num_tokens(0), 0) << what;
  };
  for (std::uintmax_t at = 0; at < size; at += 1 + size / 97) {
    fs::copy_file(file(), file("damaged"), fs::copy_options::overwrite_existing);
    flip(file("damaged"), at);
    expect_refusal("byte " + std::to_string(at));
    fs::resize_file(file("damaged"), at);
    expect_refusal("cut at " + std::to_string(at));
  }
  fs::copy_file(file(), file("damaged"), fs::copy_options::overwrite_existing);
  fs::resize_file(file("damaged"), size + 1);
  EXPECT_THAT(error_of([&] { restore(*other, 0, file("damaged")); }), HasSubstr("too long"));
  const Answered found = answer(*other, asking(prompt));
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logprobs, expected.logprobs);
}

TEST_F(Slots, AFileOfAnotherModelOrTypeOfCacheIsRefused) {
  const auto engine = load();
  answer(*engine, asking(numbered(1, 70)));
  save(*engine, 0, file());
  const auto refusal = [&](Engine& other) { return error_of([&] { restore(other, 0, file()); }); };
  EXPECT_THAT(refusal(*load(slot_options(DType::bf16))), HasSubstr("another model, image encoder or type of cache"));
  const std::string second = golden_model_file("llama-mqa");
  EXPECT_THAT(refusal(*load_model(second, slot_options())), HasSubstr("another model"));
  std::remove(second.c_str());
  EngineOptions controlled = slot_options();
  controlled.control_vectors = {{test::test_data("golden/models/control/llama-gqa4.gguf"), 1.0f}};
  EXPECT_THAT(refusal(*load(controlled)), HasSubstr("another model"));
  controlled.control_vectors.push_back({controlled.control_vectors[0].path, -1.0f});
  EXPECT_THAT(refusal(*load(controlled)), HasSubstr("another model")) << "a sum of zeros is still added";
  EngineOptions small = slot_options();
  small.cache_ram_bytes = static_cast<std::int64_t>(engine->memory().pages().block_bytes());
  EXPECT_THAT(refusal(*load(small)), HasSubstr("does not fit into the host memory"));
}

TEST_F(Slots, AdaptersAreKnownByTheirFiles) {
  const std::string folder = test::test_data("golden/models/lora");
  EngineOptions options = slot_options();
  options.adapters = {{.path = folder + "/llama-gqa4.gguf", .scale = 0.5f}};
  const Tokens prompt = numbered(1, 70);
  const auto engine = load(options);
  const Answered expected = answer(*engine, asking(prompt));
  const std::int32_t saved = save(*engine, 0, file());
  EXPECT_THAT(error_of([&] { restore(*load(), 0, file()); }), HasSubstr("adapter that is not loaded"));

  options.adapters = {{.path = folder + "/llama-gqa4-b.gguf", .applies = false},
                      {.path = folder + "/llama-gqa4.gguf", .applies = false}};
  const auto other = load(options);
  restore(*other, 0, file());
  Request request = asking(prompt);
  EXPECT_EQ(answer(*other, request).cached, 0) << "without the adapter";
  request.adapters = std::vector<AdapterScale>{{1, 0.5f}};
  const Answered found = answer(*other, request);
  EXPECT_EQ(found.cached, saved);
  EXPECT_EQ(found.tokens, expected.tokens);
}

/// The model alone finds what was computed before the invocation tokens, the adapter under another id all of it.
TEST_F(Slots, AnAdapterThatBeginsLaterIsKnownByItsFile) {
  const std::string folder = test::test_data("golden/models/lora");
  EngineOptions options = slot_options();
  options.adapters = {{.path = folder + "/llama-gqa4-invoked.gguf"}};
  const auto engine = load(options);
  const Tokens prompt = joined(joined(numbered(1, 40), engine->adapters()[0].invocation_tokens), numbered(60, 27));
  const Answered expected = answer(*engine, asking(prompt));
  const std::int32_t saved = save(*engine, 0, file());
  ASSERT_GE(saved, 64);

  options.adapters = {{.path = folder + "/llama-gqa4-b.gguf", .applies = false},
                      {.path = folder + "/llama-gqa4-invoked.gguf", .applies = false}};
  const auto other = load(options);
  restore(*other, 0, file());
  Request request = asking(prompt);
  EXPECT_EQ(answer(*other, request).cached, 32);
  request.adapters = std::vector<AdapterScale>{{1, 0.5f}};
  EXPECT_EQ(answer(*other, request).cached, 32) << "with another scale";
  request.adapters = std::vector<AdapterScale>{{1, 1.0f}};
  const Answered found = answer(*other, request);
  EXPECT_EQ(found.cached, saved);
  EXPECT_EQ(found.tokens, expected.tokens);
}

TEST_F(Slots, ASlotIsItsSaltsAlone) {
  const auto engine = load();
  Request request = asking(numbered(1, 70), 1);
  request.cache_salt = "mine";
  answer(*engine, request);
  EXPECT_THAT(error_of([&] { save(*engine, 1, file()); }), HasSubstr("no conversation of this key and cache_salt"));
  EXPECT_THAT(error_of([&] { engine->slots()->erase(1, "other"); }), HasSubstr("no conversation"));
  EXPECT_THAT(error_of([&] { save(*engine, 2, file(), "mine"); }), HasSubstr("slot 2 has no conversation"));
  const std::int32_t saved = save(*engine, 1, file(), "mine");
  const auto other = load();
  restore(*other, 0, file(), "theirs");
  EXPECT_EQ(answer(*other, request).cached, 0);
  request.cache_salt = "theirs";
  EXPECT_EQ(answer(*other, request).cached, saved);
}

TEST_F(Slots, ErasingForgetsWhatNoOtherPromptGoesOnFrom) {
  const auto engine = load();
  const Tokens start = numbered(1, 40);
  answer(*engine, asking(joined(start, numbered(2, 40)), 0));
  answer(*engine, asking(joined(start, numbered(3, 40)), 1));
  EXPECT_EQ(engine->slots()->erase(0, ""), 86);
  EXPECT_EQ(engine->slots()->num_tokens(0), 0);
  EXPECT_THAT(error_of([&] { engine->slots()->erase(0, ""); }), HasSubstr("slot 0 has no conversation"));
  const std::int32_t shared = answer(*engine, asking(joined(start, numbered(2, 40)), 2)).cached;
  EXPECT_GT(shared, 0) << "the other conversation begins alike";
  EXPECT_LE(shared, 40);
  EXPECT_EQ(engine->slots()->erase(1, ""), 86);
  EXPECT_EQ(engine->slots()->erase(2, ""), 86);
  EXPECT_EQ(answer(*engine, asking(joined(start, numbered(3, 40)))).cached, 0);
  EXPECT_EQ(engine->status().free_blocks + engine->status().evictable_blocks, engine->status().kv_blocks);
}

TEST_F(Slots, AConversationThatLeftTheCacheIsSaidToBeGone) {
  const auto engine = load();
  answer(*engine, asking(numbered(1, 100), 0));
  const SlotHead head = engine->slots()->save(0, "", owner);
  engine->slots()->erase(0, "");
  EXPECT_THAT(error_of([&] { static_cast<void>(engine->slots()->piece(0, head, 0)); }),
              HasSubstr("left the cache while it was saved"));
}

TEST(SlotFile, NamesHaveNoPathParts) {
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "/etc/passwd", "..\\x", "a\nb", "x.slot-tmp"}) {
    EXPECT_THAT(error_of([&] { slot_path("/tmp", name); }), HasSubstr("no parts of a path")) << name;
  }
  EXPECT_THAT(error_of([] { slot_path("/tmp", std::string(201, 'a')); }), HasSubstr("200 bytes"));
  EXPECT_EQ(slot_path("/tmp", "my chat.bin"), fs::path("/tmp/my chat.bin"));
}

TEST(SlotFile, WhatIsNoFileIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { SlotReader(folder.path() / "none"); }), HasSubstr("No such file"));
  fs::create_symlink("/etc/passwd", folder.path() / "link");
  EXPECT_NE(error_of([&] { SlotReader(folder.path() / "link"); }), "no error");
  EXPECT_THAT(error_of([&] { SlotReader(folder.path()); }), HasSubstr("no usual file"));
  folder.write("text",
               "a text that is longer than the start of a file, and has nothing of one, in any of its many words here");
  EXPECT_THAT(error_of([&] { SlotReader(folder.path() / "text"); }), HasSubstr("is no file of a slot"));
}

}  // namespace
}  // namespace rocmforge
