#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "models/adapters/lora_file.h"
#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tokens = std::vector<std::int32_t>;
using File = std::shared_ptr<const LoraFile>;

/// An adapter of tests/golden/models/lora, and the model that it is for.
struct GoldenAdapter {
  std::string name;
  std::string model;
  std::int32_t from = 0;  ///< the place of its invocation tokens
};
const std::vector<GoldenAdapter> golden_adapters{{"llama-gqa4", "llama-gqa4"},
                                                 {"llama-gqa4-b", "llama-gqa4"},
                                                 {"phi3", "phi3"},
                                                 {"gemma2", "gemma2"},
                                                 {"deepseek-v2", "deepseek-v2"},
                                                 {"bailingmoe2", "bailingmoe2"},
                                                 {"qwen3moe", "qwen3moe"},
                                                 {"llama-gqa4-embd", "llama-gqa4"},
                                                 {"gemma2-embd", "gemma2"},
                                                 {"qwen3moe-experts", "qwen3moe"},
                                                 {"qwen2moe-experts", "qwen2moe-equal"},
                                                 {"nemotron-experts", "nemotron_h_moe-latent"},
                                                 {"llama-gqa4-invoked", "llama-gqa4", 21}};

File read_adapter(const std::string& name) {
  return std::make_shared<const LoraFile>(GgufFile(golden_path("lora/" + name)));
}

/// An adapter in memory, with its bytes.
struct OpenAdapter {
  explicit OpenAdapter(const ModelFile& model)
      : bytes(model.bytes()), file(std::make_shared<const LoraFile>(GgufFile::from_memory(bytes, "tiny-lora.gguf"))) {}
  std::vector<std::byte> bytes;
  File file;
};

Tokens first_tokens(const Golden& golden, std::int32_t count) {
  return {golden.tokens.begin(), golden.tokens.begin() + count};
}

class GoldenAdapterTest : public ::testing::TestWithParam<GoldenAdapter> {
 protected:
  [[nodiscard]] std::vector<AdapterUse> uses() const { return {{7, 1.0f, GetParam().from}}; }
  /// The logits of the golden sequence with the adapter.
  std::vector<float> logits(Runner& runner) const {
    runner.model().load_adapter(7, read_adapter(GetParam().name));
    return runner.step({{.tokens = golden_.tokens, .blocks = {17, 3, 9}, .adapters = uses()}});
  }

  Golden golden_ = read_golden("lora/" + GetParam().name);
  GgufFile file_{golden_path(GetParam().model)};
};

TEST_P(GoldenAdapterTest, LogitsAreThoseOfTheGolden) {
  for (const std::string& set : kernel_sets()) {
    if (missing(set, file_).empty()) {
      Runner runner(file_, set);
      EXPECT_LE(relative_error(logits(runner), golden_.logits), logit_tolerance(set)) << set;
    }
  }
}

TEST_P(GoldenAdapterTest, StepsOfAnySizeGiveTheSame) {
  const std::string& set = kernel_sets().back();
  Runner runner(file_, set);
  const std::vector<float> whole = logits(runner);
  std::vector<float> parts;
  for (std::int32_t first = 0; first < std::ssize(golden_.tokens); first += 11) {
    const Tokens tokens(golden_.tokens.begin() + first, golden_.tokens.begin() + first + 11);
    const std::vector<float> rows = runner.step({{tokens, first, {5, 1, 8}, {}, {}, uses()}});
    parts.insert(parts.end(), rows.begin(), rows.end());
  }
  expect_same_logits(parts, whole, set);
}

INSTANTIATE_TEST_SUITE_P(Adapters, GoldenAdapterTest, ::testing::ValuesIn(golden_adapters), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

class Lora : public ::testing::Test {
 protected:
  /// An adapter like "llama-gqa4" or its "-b" form, whose B are multiplied by `factor`.
  File changed(const std::string& name, float factor) {
    ModelFile model = ModelFile::golden("lora/" + name);
    for (ModelFile::Weight& weight : model.weights) {
      if (weight.name.ends_with(".lora_b")) {
        std::for_each_n(weight.floats(), weight.shape.elems(), [factor](float& value) { value *= factor; });
      }
    }
    return open_.emplace_back(std::make_unique<OpenAdapter>(model))->file;
  }
  Piece piece(std::int32_t first_block, std::vector<AdapterUse> uses = {}, std::int32_t tokens = 20) const {
    return {.tokens = first_tokens(golden_, tokens), .blocks = {first_block, first_block + 1}, .adapters = std::move(uses)};
  }

  const std::string& set_ = kernel_sets().back();
  Golden golden_ = read_golden("lora/llama-gqa4");
  GgufFile file_{golden_path("llama-gqa4")};
  std::vector<std::unique_ptr<OpenAdapter>> open_;
};

TEST_F(Lora, EightAdaptersInOneBatchGiveWhatEachGivesAlone) {
  Runner runner(file_, set_);
  std::vector<Piece> pieces;
  for (std::int32_t id = 0; id < 8; ++id) {
    runner.model().load_adapter(id, changed(id % 2 == 0 ? "llama-gqa4" : "llama-gqa4-b", 0.2f * static_cast<float>(id + 1)));
    pieces.push_back(piece(2 * id, {{id, 1.0f}}, id < 4 ? 20 : 1));
  }
  pieces.push_back(piece(16));
  const std::vector<float> together = runner.step(pieces);
  auto row = together.begin();
  std::vector<std::vector<float>> all;
  for (const Piece& own : pieces) {
    const auto size = std::ssize(own.tokens) * golden_.vocab;
    const std::vector<float> alone = runner.step({own});
    expect_same_logits({row, row + size}, alone, set_, "adapter " + std::to_string(all.size()));
    for (const std::vector<float>& other : all) {
      EXPECT_FALSE(std::equal(alone.begin(), alone.begin() + golden_.vocab, other.begin())) << "two adapters give the same";
    }
    all.push_back(alone);
    row += size;
  }
}

TEST_F(Lora, SequencesWithoutAnAdapterHaveTheBitsOfTheModelAlone) {
  Runner runner(file_, set_);
  const std::vector<float> before = runner.step({piece(0)});
  runner.model().load_adapter(1, read_adapter("llama-gqa4"));
  EXPECT_EQ(runner.step({piece(0)}), before);
  const std::vector<float> both = runner.step({piece(0, {{1, 1.0f}}), piece(4)});
  expect_same_logits({both.begin() + std::ssize(before), both.end()}, before, set_);
}

TEST_F(Lora, TheScaleMultipliesAndSeveralAdaptersAdd) {
  Runner runner(file_, set_);
  runner.model().load_adapter(0, read_adapter("llama-gqa4-b"));
  runner.model().load_adapter(1, changed("llama-gqa4-b", 0.25f));
  const std::vector<float> scaled = runner.step({piece(0, {{0, 0.25f}})});
  EXPECT_LE(relative_error(scaled, runner.step({piece(0, {{1, 1.0f}})})), 1e-5);
  EXPECT_LE(relative_error(runner.step({piece(0, {{0, 0.25f}, {1, 3.0f}})}), runner.step({piece(0, {{0, 1.0f}})})), 1e-5);
  EXPECT_GT(relative_error(scaled, runner.step({piece(0)})), 1e-2);
}

TEST_F(Lora, RowsWhoseLogitsAreWantedKeepTheirAdapters) {
  Runner runner(file_, set_);
  runner.model().load_adapter(0, read_adapter("llama-gqa4"));
  runner.model().load_adapter(1, changed("llama-gqa4", 0.5f));
  std::vector<Piece> pieces{piece(0), piece(2, {{0, 1.0f}}), piece(4, {{1, 1.0f}})};
  const std::vector<float> all = runner.step(pieces);
  std::vector<std::int32_t> best;
  for (std::ptrdiff_t last = 19; last < 60; last += 20) {
    const auto row = all.begin() + last * golden_.vocab;
    best.push_back(static_cast<std::int32_t>(std::max_element(row, row + golden_.vocab) - row));
  }
  EXPECT_EQ(runner.draw(pieces), best);
}

TEST_F(Lora, UnloadedAdaptersAreGoneAndOthersStay) {
  Runner runner(file_, set_);
  runner.model().load_adapter(0, read_adapter("llama-gqa4"));
  runner.model().load_adapter(1, read_adapter("llama-gqa4-b"));
  const std::vector<float> before = runner.step({piece(0, {{1, 1.0f}})});
  runner.model().unload_adapter(0);
  EXPECT_EQ(runner.step({piece(0, {{1, 1.0f}})}), before);
}

TEST_F(Lora, RanksAndSplitModelsGiveTheSame) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "ranks are threads of the CPU";
  }
  ModelOptions shared = f32_options(), split = f32_options();
  shared.ranks = 2;
  split.placement.layers = {{Side::host, Side::host}, {}};
  ModelOptions start = split;
  start.placement.embedding = Side::host;
  for (const std::string name : {"llama-gqa4", "llama-gqa4-embd"}) {
    const Golden golden = read_golden("lora/" + name);
    for (const ModelOptions& options : {shared, split, start}) {
      Runner runner(file_, set_, options);
      runner.model().load_adapter(0, read_adapter(name));
      const std::vector<float> logits =
          runner.step({{.tokens = golden.tokens, .blocks = {0, 1, 2}, .adapters = {{0, 1.0f}}}});
      EXPECT_LE(relative_error(logits, golden.logits), logit_tolerance(set_)) << name << ", " << options.ranks << " ranks";
    }
  }
}

/// Rows before the invocation tokens have the bits of the model alone, in one step with those behind and in one of their
/// own.
TEST_F(Lora, AnAdapterActsFromItsPlaceOn) {
  Runner runner(file_, set_);
  const std::vector<float> plain = runner.step({piece(0)});
  runner.model().load_adapter(0, read_adapter("llama-gqa4"));
  runner.model().load_adapter(1, read_adapter("llama-gqa4-b"));
  const auto rows = [&](const std::vector<float>& logits, std::int32_t first, std::int32_t end) {
    return std::vector<float>(logits.begin() + first * golden_.vocab, logits.begin() + end * golden_.vocab);
  };
  const std::vector<float> late = runner.step({piece(0, {{0, 1.0f, 12}})});
  expect_same_logits(rows(late, 0, 12), rows(plain, 0, 12), set_);
  EXPECT_GT(relative_error(rows(late, 12, 13), rows(plain, 12, 13)), 1e-3);
  // Of several each acts from its own place on.
  const std::vector<float> both = runner.step({piece(0, {{1, 1.0f, 6}, {0, 1.0f, 12}})});
  expect_same_logits(rows(both, 0, 12), rows(runner.step({piece(0, {{1, 1.0f, 6}})}), 0, 12), set_);
  EXPECT_GT(relative_error(rows(both, 12, 20), rows(late, 12, 20)), 1e-3);
  const Piece start = piece(3, {{0, 1.0f, 12}}, 12);
  expect_same_logits(runner.step({start}), rows(plain, 0, 12), set_);
}

/// Each device has the pairs of its own layers.
TEST_F(Lora, LayersOnTwoDevicesGiveTheSame) {
  if (is_gpu(set_)) {
    GTEST_SKIP() << "the devices are CPUs";
  }
  Device first;
  Device second;
  ModelOptions options = f32_options();
  options.stage_ends = {1, 2};
  Runner runner(file_, std::vector{&first, &second}, options);
  runner.model().load_adapter(0, read_adapter("llama-gqa4"));
  const std::vector<float> logits = runner.step({{.tokens = golden_.tokens, .blocks = {0, 1, 2}, .adapters = {{0, 1.0f}}}});
  EXPECT_LE(relative_error(logits, golden_.logits), logit_tolerance(set_));
  runner.model().unload_adapter(0);
}

TEST_F(Lora, BlocksOfQuantisedTypesAreRead) {
  ModelFile model = ModelFile::golden("lora/llama-gqa4");
  for (const ModelFile::Weight& weight : std::vector<ModelFile::Weight>(model.weights)) {
    if (weight.name.ends_with(".lora_a")) {
      model.convert(weight.name, weight.name.find("attn_q") != std::string::npos ? DType::q8_0 : DType::f16);
    }
  }
  const OpenAdapter open(model);
  Runner runner(file_, set_);
  runner.model().load_adapter(0, open.file);
  const std::vector<float> logits = runner.step({{.tokens = golden_.tokens, .blocks = {0, 1, 2}, .adapters = {{0, 1.0f}}}});
  EXPECT_LE(relative_error(logits, golden_.logits), 2e-2);
  EXPECT_GT(relative_error(logits, golden_.logits), 1e-5);
}

/// The error of loading "llama-gqa4-b" after `change` for the model `model`.
template <class Change>
std::string adapter_refusal(Change&& change, const std::string& model = "llama-gqa4") {
  ModelFile adapter = ModelFile::golden("lora/llama-gqa4-b");
  change(adapter);
  const GgufFile file{golden_path(model)};
  Runner runner(file, "reference");
  return error_text([&] {
    const OpenAdapter open(adapter);
    runner.model().load_adapter(0, open.file);
  });
}

TEST(LoraRefusals, NameFileAndTensor) {
  using Weight = ModelFile::Weight;
  const std::string a = "blk.0.attn_q.weight.lora_a", b = "blk.0.attn_q.weight.lora_b";
  const auto nothing = [](ModelFile&) {};
  EXPECT_EQ(adapter_refusal(nothing), "no error");
  EXPECT_EQ(adapter_refusal(nothing, "phi3"), "tiny-lora.gguf: an adapter for 'llama' models, the model is 'phi3'");
  EXPECT_THAT(adapter_refusal(nothing, "llama-tied"),
              AllOf(HasSubstr("tiny-lora.gguf: tensor 'blk.0."), HasSubstr("shape")));
  EXPECT_EQ(adapter_refusal([&](ModelFile& model) {
              model.weight(a).name = "blk.9.attn_q.weight.lora_a", model.weight(b).name = "blk.9.attn_q.weight.lora_b";
            }),
            "tiny-lora.gguf: tensor 'blk.9.attn_q.weight.lora_a': the model has no product with 'blk.9.attn_q.weight' that "
            "takes an adapter");
  EXPECT_EQ(adapter_refusal([&](ModelFile& model) { model.remove_weight(b); }),
            "tiny-lora.gguf: tensor 'blk.0.attn_q.weight.lora_a' has no partner 'blk.0.attn_q.weight.lora_b'");
  EXPECT_EQ(adapter_refusal([&](ModelFile& model) { model.remove_weight(a); }),
            "tiny-lora.gguf: tensor 'blk.0.attn_q.weight.lora_b' has no partner 'blk.0.attn_q.weight.lora_a'");
  EXPECT_EQ(adapter_refusal([&](ModelFile& model) { model.add_vector("blk.0.attn_norm.weight", {1.0f}); }),
            "tiny-lora.gguf: tensor 'blk.0.attn_norm.weight' ends neither in .lora_a nor in .lora_b: it can't be added to a "
            "product");
  EXPECT_THAT(adapter_refusal([&](ModelFile& model) {
                Weight& weight = model.weight(b);
                weight.shape = {32, 4};
              }),
              AllOf(HasSubstr("tiny-lora.gguf: tensor '" + a), HasSubstr("its rank is not that of '" + b)));
  EXPECT_THAT(adapter_refusal([&](ModelFile& model) {
                Weight& weight = model.weight(b);
                weight.shape = {32, 2};
                weight.data.resize(32 * 2 * sizeof(float));
              }),
              AllOf(HasSubstr("tiny-lora.gguf: tensor '" + b), HasSubstr("has shape [32, 2]"), HasSubstr("needs [64, 2]")));
}

TEST(LoraRefusals, NameTheKind) {
  EXPECT_THAT(adapter_refusal([](ModelFile& model) { model.set("general.type", std::string("model")); }),
              HasSubstr("tiny-lora.gguf: no LoRA adapter: key 'general.type' is 'model'"));
  EXPECT_THAT(adapter_refusal([](ModelFile& model) { model.set("adapter.type", std::string("other")); }),
              HasSubstr("key 'adapter.type' is 'other': only 'lora' is supported"));
  EXPECT_THAT(adapter_refusal([](ModelFile& model) { model.weights.clear(); }), HasSubstr("an adapter without tensors"));
  const auto invoked_by = [](const std::vector<std::uint64_t>& tokens) {
    return adapter_refusal([&](ModelFile& model) {
      model.set("adapter.alora.invocation_tokens", GgufArray{GgufType::u32, tokens});
    });
  };
  EXPECT_EQ(invoked_by({3, 5}), "no error");
  EXPECT_EQ(
      invoked_by(std::vector<std::uint64_t>(257, 1)),
      "tiny-lora.gguf: key 'adapter.alora.invocation_tokens' has 257 numbers: at most 256 ids of tokens were expected");
  EXPECT_THAT(invoked_by({3, 5000}), HasSubstr("key 'adapter.alora.invocation_tokens' has token 5000, the model has "));
}

TEST(LoraRefusals, OfEmbeddingsNameTheTensor) {
  const std::string a = "token_embd.weight.lora_a", b = "token_embd.weight.lora_b";
  const auto refused = [&](std::int64_t tokens, std::int64_t rank, std::int64_t hidden) {
    return adapter_refusal([&](ModelFile& model) {
      model.remove_weight("blk.0.attn_q.weight.lora_a");
      model.remove_weight("blk.0.attn_q.weight.lora_b");
      model.add_vector(a, std::vector<float>(static_cast<std::size_t>(tokens * rank)));
      model.weight(a).shape = {tokens, rank};
      model.add_vector(b, std::vector<float>(static_cast<std::size_t>(hidden * 2)));
      model.weight(b).shape = {hidden, 2};
    });
  };
  const ModelConfig config = ModelConfig::from_gguf(GgufFile(golden_path("llama-gqa4")));
  EXPECT_EQ(refused(config.vocab, 2, config.hidden), "no error");
  EXPECT_THAT(refused(config.vocab, 3, config.hidden), AllOf(HasSubstr("tensor '" + a), HasSubstr("its rank is not that")));
  EXPECT_THAT(refused(config.vocab - 1, 2, config.hidden),
              AllOf(HasSubstr("tensor '" + a), HasSubstr("token_embd.weight needs")));
  EXPECT_THAT(refused(config.vocab, 2, config.hidden + 1),
              AllOf(HasSubstr("tensor '" + b), HasSubstr("token_embd.weight needs")));
}

TEST(LoraRefusals, TruncatedFiles) {
  std::ifstream in(golden_path("lora/llama-gqa4-b"), std::ios::binary);
  const std::vector<char> whole{std::istreambuf_iterator<char>(in), {}};
  for (const std::size_t size : {std::size_t{3}, std::size_t{200}, whole.size() - 40}) {
    const auto bytes = std::as_bytes(std::span(whole.data(), size));
    EXPECT_THAT(error_text([&] { LoraFile(GgufFile::from_memory(bytes, "short.gguf")); }), HasSubstr("short.gguf: "));
  }
}

}  // namespace
}  // namespace rocmforge::testing
