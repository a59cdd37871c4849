// Files with gated delta nets: what is wrong with damaged ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/error_text.h"
#include "models/model_file.h"
#include "models/runner.h"

namespace rocmforge::testing::delta_net_test {
namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {"qwen3next", "qwen3next-joined", "qwen35", "qwen35moe"};
  return all;
}

/// A key of the architecture of golden model `name`.
std::string key_of(const std::string& name, const std::string& key) { return name.substr(0, name.find('-')) + "." + key; }

template <class Change>
std::string refusal(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  return error_text([&] { Runner(open.file, "reference"); });
}

std::string refusal_of_count(const std::string& name, const std::string& key, std::uint64_t value) {
  return refusal(name, [&](ModelFile& model) { model.set(key_of(name, key), value); });
}

std::string refusal_of_shape(const std::string& name, const std::string& tensor, const Shape& shape) {
  return refusal(name, [&](ModelFile& model) { model.weight(tensor).shape = shape; });
}

/// The tensor that a file must have in place of one that joins others.
std::string named_for(std::string tensor) {
  for (const auto& [joined, own] : {std::pair{"ssm_in.", "attn_qkv."}, {"ssm_ba.", "ssm_beta."}}) {
    if (const std::size_t found = tensor.find(joined); found != std::string::npos) {
      return tensor.replace(found, std::string(joined).size(), own);
    }
  }
  return tensor;
}

TEST(DeltaNet, EveryMissingTensorIsNamed) {
  for (const std::string& name : names()) {
    for (const ModelFile::Weight& weight : ModelFile::golden(name).weights) {
      if (weight.name == "output.weight") {
        continue;  // optional tensors
      }
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove_weight(weight.name); }),
                "tiny.gguf: tensor '" + named_for(weight.name) + "' is missing")
          << name;
    }
  }
}

TEST(DeltaNet, CountsThatAreMissingOrZeroOrTooLargeAreNamed) {
  for (const std::string& name : names()) {
    for (const char* key :
         {"ssm.group_count", "ssm.time_step_rank", "ssm.state_size", "ssm.inner_size", "ssm.conv_kernel"}) {
      const std::string what = "tiny.gguf: key '" + key_of(name, key) + "' is ";
      EXPECT_EQ(refusal(name, [&](ModelFile& model) { model.remove(key_of(name, key)); }), what + "missing");
      EXPECT_EQ(refusal_of_count(name, key, 0), what + "0, it must be in [1, 2^31)");
      EXPECT_EQ(refusal_of_count(name, key, 4294967295), what + "4294967295, it must be in [1, 2^31)");
    }
    for (const char* key : {"ssm.group_count", "ssm.time_step_rank", "ssm.state_size"}) {
      EXPECT_EQ(refusal_of_count(name, key, 2000000000),
                "tiny.gguf: key '" + key_of(name, key) + "' is 2000000000, at most 65536 is possible");
    }
    EXPECT_EQ(refusal_of_count(name, "full_attention_interval", 0),
              "tiny.gguf: key '" + key_of(name, "full_attention_interval") + "' is 0, it must be in [1, 2^31)");
  }
}

/// A state of 65,536 heads of 65,536 keys and 32,767 values: its bytes do not fit 32 bits, nor those of a row.
TEST(DeltaNet, SizesThatOverflowAreRefusedByTheFirstTensor) {
  const auto largest = [](const std::string& name) {
    return refusal(name, [&](ModelFile& model) {
      for (const char* key : {"ssm.group_count", "ssm.time_step_rank", "ssm.state_size"}) {
        model.set(key_of(name, key), std::uint64_t{65536});
      }
      model.set(key_of(name, "ssm.inner_size"), std::uint64_t{65536} * 32767);
    });
  };
  EXPECT_EQ(largest("qwen3next"), "tiny.gguf: tensor 'blk.0.attn_qkv.weight' is [104, 32], expected [10737352704, 32]");
  EXPECT_EQ(largest("qwen3next-joined"), "tiny.gguf: tensor 'blk.0.ssm_in.weight' is [176, 32], expected [12884770816, 32]");
  EXPECT_EQ(largest("qwen35"), "tiny.gguf: tensor 'blk.0.attn_qkv.weight' is [104, 32], expected [10737352704, 32]");
  EXPECT_EQ(largest("qwen35moe"), "tiny.gguf: tensor 'blk.0.attn_qkv.weight' is [104, 32], expected [10737352704, 32]");
}

TEST(DeltaNet, TensorsOfAnotherShapeAreRefused) {
  const auto expect_refused = [](const std::string& name, const std::string& tensor, const Shape& shape,
                                 const std::string& what) {
    EXPECT_EQ(refusal_of_shape(name, tensor, shape), "tiny.gguf: tensor '" + tensor + "' is " + what) << name;
  };
  for (const char* name : {"qwen35", "qwen35moe", "qwen3next"}) {
    expect_refused(name, "blk.0.attn_qkv.weight", {52, 64}, "[52, 64], expected [104, 32]");
    expect_refused(name, "blk.0.attn_gate.weight", {36, 64}, "[36, 64], expected [72, 32]");
    expect_refused(name, "blk.2.ssm_out.weight", {72, 32}, "[72, 32], expected [32, 72]");
    expect_refused(name, "blk.2.ssm_a", {3}, "[3], expected [6]");
    expect_refused(name, "blk.2.ssm_dt.bias", {2, 3}, "[2, 3], expected [6]");
    expect_refused(name, "blk.0.ssm_norm.weight", {6}, "[6], expected [12]");
  }
  expect_refused("qwen35", "blk.0.ssm_beta.weight", {3, 64}, "[3, 64], expected [6, 32]");
  expect_refused("qwen35moe", "blk.0.ssm_alpha.weight", {12, 16}, "[12, 16], expected [6, 32]");
  expect_refused("qwen35", "blk.0.ssm_conv1d.weight", {52, 10}, "[52, 10], expected [104, 5]");
  expect_refused("qwen3next", "blk.2.ssm_ba.weight", {6, 64}, "[6, 64], expected [12, 32]");
  expect_refused("qwen3next-joined", "blk.0.ssm_in.weight", {88, 64}, "[88, 64], expected [176, 32]");
}

}  // namespace
}  // namespace rocmforge::testing::delta_net_test
