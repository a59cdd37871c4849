// Architectures older than llama: learned positions (gpt2), two parallel parts after one or two norms (falcon), and required
// biases.

#include <gtest/gtest.h>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing {
namespace {

/// The model loaded for sequences of so many positions.
std::string refusal_of_context(const std::string& name, std::int32_t positions) {
  const GgufFile file{golden_path(name)};
  ModelOptions options = f32_options();
  options.context_length = positions;
  const std::string text = error_text([&] { Runner(file, "reference", options); });
  return text.substr(text.find(": ") == std::string::npos ? 0 : text.find(": ") + 2);
}

/// Without a joined tensor, Q, K and V are looked for separately.
std::string looked_for(const std::string& tensor) {
  const std::size_t joined = tensor.find("attn_qkv.weight");
  return joined == std::string::npos ? tensor : tensor.substr(0, joined) + "attn_q.weight";
}

TEST(OldArchitectures, EveryMissingTensorIsNamed) {
  for (const char* name : {"gpt2", "falcon", "falcon-groups"}) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      if (weight.name == "output.weight") {
        continue;  // optional tensors
      }
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove_weight(weight.name); }),
                "tiny.gguf: tensor '" + looked_for(weight.name) + "' is missing");
    }
  }
}

TEST(OldArchitectures, LearnedPositionsAreAllThere) {
  const auto with_rows = [](std::int64_t rows) {
    return refusal("gpt2", [rows](ModelFile& model) {
      ModelFile::Weight& table = model.weight("position_embd.weight");
      table.data.resize(static_cast<std::size_t>(rows * table.shape.cols()) * sizeof(float));
      table.shape = {rows, table.shape.cols()};
    });
  };
  EXPECT_EQ(with_rows(127), "tiny.gguf: tensor 'position_embd.weight' is [127, 32], expected [128, 32]");
  EXPECT_EQ(refusal("gpt2", [](ModelFile& model) { model.set("gpt2.context_length", std::uint64_t{2000000000}); }),
            "tiny.gguf: tensor 'position_embd.weight' is [128, 32], expected [2000000000, 32]");
}

TEST(OldArchitectures, NoSequenceGoesBeyondLearnedPositions) {
  EXPECT_EQ(refusal_of_context("gpt2", 128), "no error");
  EXPECT_EQ(refusal_of_context("gpt2", 129),
            "a context of 129 positions, but the model has learned 128 and knows no others");
  EXPECT_EQ(refusal_of_context("falcon", 129), "no error") << "what turns goes on";
}

TEST(OldArchitectures, AttentionHasANormOfItsOwnWhereTheFileHasOne) {
  const Golden golden = read_golden("falcon-groups");
  ModelFile model = ModelFile::golden("falcon-groups");
  for (const char* layer : {"blk.0.", "blk.1."}) {
    model.remove_weight(std::string(layer) + "attn_norm_2.weight");
    model.remove_weight(std::string(layer) + "attn_norm_2.bias");
  }
  const OpenModel open(model);
  EXPECT_GT(relative_error(Runner(open.file, "reference").whole(golden.tokens), golden.logits), 1e-2);
}

}  // namespace
}  // namespace rocmforge::testing
