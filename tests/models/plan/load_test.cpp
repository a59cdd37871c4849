#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;

TEST(LoadModel, EveryMissingTensorIsNamed) {
  for (const char* name : {"llama-gqa4", "qwen2", "qwen3", "mamba2", "nemotron_h"}) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      const bool may_be_missing = weight.name == "output.weight" || weight.name.ends_with("ssm_conv1d.bias");
      const std::string expected = may_be_missing ? "no error" : "tiny.gguf: tensor '" + weight.name + "' is missing";
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove_weight(weight.name); }), expected);
    }
  }
}

TEST(LoadModel, EveryTensorOfAnotherShapeIsNamedWithBoth) {
  for (const char* name : {"llama-gqa4", "qwen2", "qwen3", "mamba2", "nemotron_h"}) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      const std::string text = refusal(name, [&](ModelFile& model) {
        ModelFile::Weight& changed = model.weight(weight.name);
        const std::int64_t rows = changed.shape.rank() == 1 ? 0 : changed.shape.rows();
        const std::int64_t cols = changed.shape.cols();
        changed.shape = rows == 0 ? Shape{cols / 2} : cols == 1 ? Shape{rows / 2, cols} : Shape{rows, cols / 2};
        changed.data.resize(changed.data.size() / 2);
      });
      EXPECT_THAT(text, HasSubstr("tensor '" + weight.name + "' is ["));
      EXPECT_THAT(text, HasSubstr("expected " + weight.shape.to_string()));
    }
  }
  EXPECT_EQ(refusal("llama-gqa4",
                    [](ModelFile& model) {
                      model.weight("blk.0.attn_k.weight").shape = {64, 16};
                    }),
            "tiny.gguf: tensor 'blk.0.attn_k.weight' is [64, 16], expected [16, 64]");
}

/// `shape` without its dimensions of 1, or with one more.
Shape reshaped(const Shape& shape, const std::string& how) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    dims.push_back(shape[i]);
  }
  if (how == "dropped") {
    std::erase(dims, 1);
  } else if (dims.size() < Shape::max_rank) {
    dims.insert(how == "outermost" ? dims.begin() : dims.end(), 1);
  }
  return Shape(dims);
}

/// Quantisers drop the outermost dimensions of 1, and converters write some that others do not: no bit changes.
TEST(LoadModel, DimensionsOfOneDoNotMatter) {
  int dropped = 0;
  for (const std::string& name : golden_names()) {
    const Golden golden = read_golden(name);
    const std::vector<float> expected = Runner(GgufFile{golden_path(name)}, "reference").whole(golden.tokens);
    for (const std::string how : {"dropped", "outermost", "innermost"}) {
      ModelFile model = ModelFile::golden(name);
      for (ModelFile::Weight& weight : model.weights) {
        const Shape changed = reshaped(weight.shape, how);
        dropped += changed.rank() < weight.shape.rank() ? 1 : 0;
        weight.shape = changed;
      }
      const OpenModel open(model);
      EXPECT_EQ(Runner(open.file, "reference").whole(golden.tokens), expected) << name << ", " << how;
    }
  }
  EXPECT_GT(dropped, 0);
}

TEST(LoadModel, AVocabularyUnlikeTheEmbeddingIsRefused) {
  const std::string text = refusal("llama-gqa4", [](ModelFile& model) {
    model.set("tokenizer.ggml.tokens", GgufArray{GgufType::string, std::vector<std::string>(113)});
  });
  EXPECT_EQ(text, "tiny.gguf: tensor 'token_embd.weight' is [112, 64], expected [113, 64]");
}

TEST(LoadModel, AFormatThatCannotBeComputedIsRefusedByName) {
  const auto as_integers = [](const char* name) {
    return refusal("llama-gqa4", [&](ModelFile& model) { model.weight(name).dtype = DType::i32; });
  };
  EXPECT_EQ(as_integers("blk.1.ffn_up.weight"),
            "tiny.gguf: tensor 'blk.1.ffn_up.weight' is I32, a format that is known but can't be computed yet");
  EXPECT_EQ(as_integers("output_norm.weight"),
            "tiny.gguf: tensor 'output_norm.weight' is I32, a format that is known but can't be computed yet");
}

TEST(LoadModel, AnUnknownKernelNameIsRefused) {
  const GgufFile file{golden_path("llama-gqa4")};
  ModelOptions options = f32_options();
  options.matmul = "nosuch";
  EXPECT_THAT(error_text([&] { Runner(file, "reference", options); }), HasSubstr("there is none named 'nosuch'"));
  options.matmul.clear();
  options.attention = "nosuch";
  EXPECT_THAT(error_text([&] { Runner(file, "reference", options); }), HasSubstr("there is none named 'nosuch'"));
}

TEST(ModelPlan, ListsEveryOperationOnce) {
  const GgufFile file{golden_path("llama-gqa4")};
  for (const std::string& set : kernel_sets()) {
    if (is_gpu(set)) {
      GTEST_SKIP() << "the plan of the CPU";
    }
    Runner runner(file, set);
    std::vector<std::string> operations;
    for (const PlannedOperation& line : runner.model().plan()) {
      // An operation that is part of several other calls has a line for each.
      if (line.part_of.empty() || std::ranges::find(operations, line.operation) == operations.end()) {
        operations.push_back(line.operation);
      }
      const bool only_reference = line.operation == "gather_rows" || line.operation == "sample";
      EXPECT_EQ(line.kernel == "reference", set == "reference" || only_reference) << line.operation << " " << line.kernel;
      EXPECT_FALSE(line.spec.empty()) << line.operation;
    }
    const std::vector<std::string> expected{"embedding",
                                            "rms_norm",
                                            "blk.0.attn_qkv",
                                            "attention",
                                            "rope_append",
                                            "blk.0.attn_output",
                                            "blk.0.ffn_gate_up",
                                            "gated_activation",
                                            "blk.0.ffn_down",
                                            "blk.1.attn_qkv",
                                            "blk.1.attn_output",
                                            "blk.1.ffn_gate_up",
                                            "blk.1.ffn_down",
                                            "gather_rows",
                                            "output",
                                            "sample"};
    EXPECT_EQ(operations, expected);
  }
}

TEST(ModelPlan, CountsTheBytesOfAStep) {
  const ModelFile model = ModelFile::golden("llama-gqa4");
  std::size_t all = 0;
  for (const ModelFile::Weight& weight : model.weights) {
    all += weight.data.size();
  }
  const OpenModel open(model);
  Runner runner(open.file, "reference");
  // One row of the embedding is looked up, the rest of the file is read.
  EXPECT_EQ(runner.model().bytes_per_token(), all - std::size_t{112} * 64 * 4);
  EXPECT_EQ(runner.model().packed_bytes(), 0u);
  EXPECT_GT(runner.model().workspace_bytes(), 256u * 112u * 4u);
  const std::vector<PlannedOperation>& plan = runner.model().plan();
  EXPECT_EQ(plan[2].weight_bytes, std::size_t{(64 + 2 * 16) * 64 * 4});
  ASSERT_EQ(plan[plan.size() - 2].operation, "output");
  EXPECT_EQ(plan[plan.size() - 2].weight_bytes, std::size_t{112} * 64 * 4);
  // The reference fuses the norm into the product, with any number of tokens.
  EXPECT_EQ(plan[1].operation, "rms_norm");
  EXPECT_EQ(plan[1].times, 2);
  EXPECT_EQ(plan[1].part_of, "attn_qkv");
  EXPECT_TRUE(plan[1].is_part(1'000'000));
  EXPECT_EQ(plan[1].activation_bytes, 0u);
  EXPECT_EQ(plan[3].operation, "attention");
  EXPECT_EQ(plan[3].times, 2);
  EXPECT_EQ(plan[3].kv_bytes_per_position, std::size_t{2} * 16 * 4) << "K and V of one KV head of 16 in F32";

  // A tied head reads the embedding's memory.
  ModelFile tied = model;
  tied.remove_weight("output.weight");
  const OpenModel open_tied(tied);
  EXPECT_EQ(Runner(open_tied.file, "reference").model().bytes_per_token(), runner.model().bytes_per_token());
}

/// RMSNorms of the plan with the model's width that belong to operation `part_of`, "" for those of their own.
int norms_of(const Model& model, std::string_view part_of) {
  int times = 0;
  for (const PlannedOperation& line : model.plan()) {
    const bool is_norm = line.operation == "rms_norm" &&
                         line.spec == to_string(RmsNorm::Spec{model.config().hidden, model.config().norm_eps});
    times += is_norm && line.part_of == part_of ? line.times : 0;
  }
  return times;
}

/// The norms before products and those after parts, where kernels fuse both. The sum at the end of the last layer is not
/// joined.
TEST(ModelPlan, NormsBehindPartsBelongToTheNextProduct) {
  const GgufFile gemma{golden_path("gemma3")};
  Runner runner(gemma, "reference");
  const int layers = runner.model().config().layers;
  EXPECT_EQ(norms_of(runner.model(), "ffn_gate_up"), 2 * layers);
  EXPECT_EQ(norms_of(runner.model(), "attn_qkv"), 2 * layers - 1);
  EXPECT_EQ(norms_of(runner.model(), ""), 1);

  const GgufFile olmo{golden_path("olmo2")};  // without norms before products
  Runner plain(olmo, "reference");
  EXPECT_EQ(norms_of(plain.model(), "ffn_gate_up"), plain.model().config().layers);
  EXPECT_EQ(norms_of(plain.model(), "attn_qkv"), plain.model().config().layers - 1);

  const GgufFile elements{golden_path("gemma4-e")};  // its layers end with a third part
  Runner third(elements, "reference");
  EXPECT_EQ(norms_of(third.model(), "ffn_gate_up"), 2 * third.model().config().layers);
  EXPECT_EQ(norms_of(third.model(), "inp_gate"), third.model().config().layers);
  EXPECT_EQ(norms_of(third.model(), "attn_qkv"), third.model().config().layers);
}

TEST(ModelPlan, ProgressRunsToOneWhileWeightsAreRepacked) {
  ModelFile model = ModelFile::golden("llama-gqa4");
  model.convert("blk.0.ffn_down.weight", DType::q8_0);
  const OpenModel open(model);
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    std::vector<double> steps;
    ModelOptions options = f32_options();
    options.progress = [&](double share) { steps.push_back(share); };
    Runner runner(open.file, set, options);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_EQ(steps.empty(), runner.model().packed_bytes() == 0) << set;
    if (!steps.empty()) {
      EXPECT_GT(steps.front(), 0.0);
      EXPECT_EQ(steps.back(), 1.0);
    }
  }
}

TEST(ModelStep, OnlyTheWantedRowsHaveLogits) {
  const Golden golden = read_golden("qwen3");
  const GgufFile file{golden_path("qwen3")};
  Runner runner(file, "reference");
  const std::vector<float> all = runner.whole(golden.tokens);
  const auto vocab = static_cast<std::size_t>(golden.vocab);
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> blocks{7, 0, 5};
  plan.add_sequence(golden.tokens, 0, blocks, false);
  plan.finish();
  plan.logit_rows = {2, 30, 43};
  runner.model().forward(plan, runner.memory());
  const std::span<const float> logits = runner.model().logits();
  ASSERT_EQ(logits.size(), 3 * vocab);
  for (std::size_t i = 0; i < plan.logit_rows.size(); ++i) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(plan.logit_rows[i]) * vocab);
    EXPECT_TRUE(std::equal(row, row + golden.vocab, logits.begin() + static_cast<std::ptrdiff_t>(i * vocab)))
        << plan.logit_rows[i];
  }
}

TEST(ModelStep, DrawsWhatTheLogitsSay) {
  const Golden golden = read_golden("qwen2");
  const GgufFile file{golden_path("qwen2")};
  for (const std::string& set : kernel_sets()) {
    if (const std::string problem = missing(set); !problem.empty()) {
      GTEST_SKIP() << problem;
    }
    Runner runner(file, set);
    const std::vector<float> logits = runner.step({{golden.tokens, 0, {4, 0, 9}}, {{7, 8}, 0, {3}}});
    const auto best = [&](std::ptrdiff_t row) {
      const auto begin = logits.begin() + row * golden.vocab;
      return static_cast<std::int32_t>(std::max_element(begin, begin + golden.vocab) - begin);
    };
    const auto rows = std::ssize(golden.tokens);
    EXPECT_THAT(runner.draw({{golden.tokens, 0, {4, 0, 9}}, {{7, 8}, 0, {3}}}),
                ::testing::ElementsAre(best(rows - 1), best(rows + 1)))
        << set;
    // A bias on each row's own tokens decides.
    BatchPlan plan;
    plan.clear();
    const std::vector<std::int32_t> block{5};
    plan.add_sequence(std::vector<std::int32_t>{7, 8}, 0, block, true, true);
    plan.sample_rows = {{.first_adjustment = 1, .num_adjustments = 1}, {.first_adjustment = 0, .num_adjustments = 1}};
    plan.adjustments = {{.id = 11, .bias = 1e6f}, {.id = 5, .bias = 1e6f}};
    plan.finish();
    runner.model().forward(plan, runner.memory());
    EXPECT_THAT(runner.model().sampled(), ::testing::ElementsAre(5, 11)) << set;
    EXPECT_GE(runner.model().logits()[5], 1e5f) << "logits are given as they were drawn from";
  }
}

TEST(ModelStep, MistakesOfTheCallerAreCaught) {
  const GgufFile file{golden_path("llama-gqa4")};
  ModelOptions options = f32_options();
  options.max_batch_tokens = 4;
  options.max_logit_rows = 2;
  Runner runner(file, "reference", options);
  EXPECT_NO_THROW(runner.step({{{1, 2}, 0, {0}}}));
  EXPECT_THROW(runner.step({{{1, 2, 3, 4, 5}, 0, {0}}}), LogicError);  // more tokens than the workspace holds
  EXPECT_THROW(runner.step({{{1, 2, 3}, 0, {0}}}), LogicError);        // more rows of logits
  EXPECT_THROW(runner.step({{{112}, 0, {0}}}), LogicError);            // no such token
  EXPECT_THROW(runner.step({{{-1}, 0, {0}}}), LogicError);
  EXPECT_THROW(runner.step({{{1}, 16, {0}}}), LogicError);  // no block for that position
  EXPECT_THROW(runner.step({{{1}, 0, {Runner::num_blocks}}}), LogicError);
  KvGroups groups = runner.model().kv_groups();
  groups[0].planes[1].head_dim *= 2;
  SequenceMemory other(runner.device(), groups, {.blocks = {4}});
  BatchPlan plan;
  plan.clear();
  const std::vector<std::int32_t> token{1};
  const std::vector<std::int32_t> block{0};
  plan.add_sequence(token, 0, block, true);
  plan.finish();
  EXPECT_THROW(runner.model().forward(plan, other), LogicError);
}

}  // namespace
}  // namespace rocmforge::testing
