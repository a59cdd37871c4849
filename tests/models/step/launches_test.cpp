#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/fake_driver.h"
#include "models/model_file.h"
#include "models/runner.h"
#include "paths.h"
#include "temporary_folder.h"
#include "tensor/dtype.h"

// How many kernels a decode step of one token launches on AMD's cards, counted on a driver whose kernels do nothing.
// docs/amd-findings.md has the table.
namespace rocmforge::testing {
namespace {

/// A model that people run: its architecture, layers and formats. Its widths are smaller here, which changes no launch.
struct Case {
  std::string name;
  std::string golden;
  std::int64_t layers;
  DType usual;
  DType better;  ///< of V and down in every other layer

  [[nodiscard]] bool has_experts() const { return golden == "qwen3moe"; }
  /// Norms of Q and K, and in Gemma norms behind each part.
  [[nodiscard]] bool has_head_norms() const { return has_experts() || has_norms_behind(); }
  [[nodiscard]] bool has_norms_behind() const { return golden == "gemma3"; }
};
const std::vector<Case> cases{{"Llama 2 7B Q4_0", "llama3", 32, DType::q4_0, DType::q4_0},
                              {"Llama 3 8B Q4_K_M", "llama3", 32, DType::q4_k, DType::q6_k},
                              {"Qwen3 30B-A3B Q4_K_M", "qwen3moe", 48, DType::q4_k, DType::q6_k},
                              {"Gemma 3 4B Q4_0", "gemma3", 34, DType::q4_0, DType::q4_0}};

constexpr std::int64_t hidden = 512, heads = 4, kv_heads = 2, head_dim = 128, ffn = 768, experts = 8;

/// The model with `layers` layers. Every weight is zero.
ModelFile model_of(const Case& one, std::uint32_t layers) {
  ModelFile model = ModelFile::golden(one.golden);
  const std::string arch = one.golden == "llama3" ? "llama." : one.golden + ".";
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::int64_t>>{{"block_count", layers},
                                                                                    {"embedding_length", hidden},
                                                                                    {"feed_forward_length", ffn},
                                                                                    {"attention.head_count", heads},
                                                                                    {"attention.head_count_kv", kv_heads},
                                                                                    {"attention.key_length", head_dim},
                                                                                    {"attention.value_length", head_dim}}) {
    model.set(arch + key, GgufValue(value));
  }
  const std::int64_t vocab = model.weight("token_embd.weight").shape.rows();
  model.weights.clear();
  const auto add = [&](const std::string& name, DType dtype, const Shape& shape) {
    const std::size_t bytes = row_bytes(dtype, shape.cols()) * static_cast<std::size_t>(shape.rows());
    model.weights.push_back({name + ".weight", shape, dtype, std::vector<std::byte>(bytes)});
  };
  if (one.has_experts()) {
    model.set(arch + "expert_feed_forward_length", GgufValue(ffn));
  } else if (!one.has_norms_behind()) {
    model.set(arch + "rope.dimension_count", GgufValue(head_dim));
  }
  add("token_embd", one.usual, {vocab, hidden});
  add("output_norm", DType::f32, {hidden});
  add("output", DType::q6_k, {vocab, hidden});
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const DType better = i % 2 == 0 ? one.better : one.usual;
    add(layer + "attn_norm", DType::f32, {hidden});
    add(layer + "attn_q", one.usual, {heads * head_dim, hidden});
    add(layer + "attn_k", one.usual, {kv_heads * head_dim, hidden});
    add(layer + "attn_v", better, {kv_heads * head_dim, hidden});
    add(layer + "attn_output", one.usual, {hidden, heads * head_dim});
    add(layer + "ffn_norm", DType::f32, {hidden});
    if (one.has_head_norms()) {
      add(layer + "attn_q_norm", DType::f32, {head_dim});
      add(layer + "attn_k_norm", DType::f32, {head_dim});
    }
    if (one.has_norms_behind()) {
      add(layer + "post_attention_norm", DType::f32, {hidden});
      add(layer + "post_ffw_norm", DType::f32, {hidden});
    }
    if (one.has_experts()) {
      add(layer + "ffn_gate_inp", DType::f32, {experts, hidden});
      add(layer + "ffn_gate_exps", one.usual, {experts, ffn, hidden});
      add(layer + "ffn_up_exps", one.usual, {experts, ffn, hidden});
      add(layer + "ffn_down_exps", better, {experts, hidden, ffn});
    } else {
      add(layer + "ffn_gate", one.usual, {ffn, hidden});
      add(layer + "ffn_up", one.usual, {ffn, hidden});
      add(layer + "ffn_down", better, {hidden, ffn});
    }
  }
  return model;
}

/// A card whose kernels do nothing, with files in place of all code objects.
class IdleCard {
 public:
  IdleCard(const std::string& architecture, int wave_size) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path("src/kernels"))) {
      if (entry.path().extension() == ".hip") {
        folder_.write(architecture + "/" + entry.path().stem().string() + ".hsaco",
                      "\x7f"
                      "ELF code rocmforge: gfx12 waits 1");
      }
    }
    device_ = std::make_unique<Device>(std::make_unique<FakeDriver>(log_, architecture, false, wave_size),
                                       KernelLibrary::from_folder(folder_.path()));
  }

  /// Kernels that the second token's step launches.
  std::int64_t launches(const Case& one, std::uint32_t layers, bool merge) {
    const OpenModel open(model_of(one, layers));
    ModelOptions options;
    options.max_sequences = 1;
    options.graphs = false;
    options.merge_launches = merge;
    Runner runner(open.file, *device_, options);
    EXPECT_EQ(runner.draw({{{3}, 0, {0}}}).size(), 1u);
    log_->kernels.clear();
    EXPECT_EQ(runner.draw({{{3}, 1, {0}}}).size(), 1u);
    return std::ssize(log_->kernels);
  }

  /// The same of all of the model's layers: every two take as many.
  std::int64_t launches(const Case& one, bool merge) {
    const std::int64_t two = launches(one, 2, merge);
    const std::int64_t four = launches(one, 4, merge);
    EXPECT_EQ(launches(one, 6, merge) - four, four - two) << one.name;
    return two + (four - two) * (one.layers - 2) / 2;
  }

 private:
  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::unique_ptr<Device> device_;
};

struct Counts {
  std::int64_t single, merged;
  friend bool operator==(const Counts&, const Counts&) = default;
};
void PrintTo(const Counts& counts, std::ostream* out) { *out << counts.single << " -> " << counts.merged; }

void expect_launches(const std::string& architecture, int wave_size, const std::vector<Counts>& expected) {
  IdleCard card(architecture, wave_size);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Counts counts{card.launches(cases[i], false), card.launches(cases[i], true)};
    EXPECT_EQ(counts, expected[i]) << cases[i].name << " on " << architecture;
  }
}

TEST(StepLaunches, OnRdna3) { expect_launches("gfx1100", 32, {{164, 69}, {164, 68}, {292, 100}, {242, 73}}); }
TEST(StepLaunches, OnRdna4) { expect_launches("gfx1201", 32, {{164, 69}, {164, 68}, {292, 100}, {242, 73}}); }
/// Where the end of a call inside a launch costs more than a launch.
TEST(StepLaunches, OnCdna3) { expect_launches("gfx942", 64, {{164, 164}, {164, 164}, {292, 292}, {242, 242}}); }

}  // namespace
}  // namespace rocmforge::testing
