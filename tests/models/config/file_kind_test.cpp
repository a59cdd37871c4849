#include "models/config/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/config/model_config.h"
#include "weights/gguf_builder.h"

namespace rocmforge {
namespace {

using ::testing::HasSubstr;

struct Keys {
  std::string architecture, type, key, tensor;
};

std::string kind_of(const Keys& keys) {
  GgufBuilder builder;
  if (!keys.architecture.empty()) {
    builder.string("general.architecture", keys.architecture);
  }
  if (!keys.type.empty()) {
    builder.string("general.type", keys.type);
  }
  if (!keys.key.empty()) {
    builder.string(keys.key, "x");
  }
  if (!keys.tensor.empty()) {
    builder.tensor(keys.tensor, {8}, DType::f32, 32);
  }
  const std::vector<std::byte> bytes = builder.build();
  const GgufFile file = GgufFile::from_memory(bytes, "file");
  const std::string kind = other_file_kind(file);
  try {
    (void)ModelConfig::from_gguf(file);
    ADD_FAILURE() << "a config of no model";
  } catch (const Error& error) {  // whatever else is missing
    EXPECT_EQ(std::string(error.what()) == "file: this is no model but " + kind, !kind.empty()) << error.what();
  }
  return kind;
}

TEST(FileKind, AFileSaysWhatItIs) {
  EXPECT_THAT(kind_of({"llama", "adapter", "", "blk.0.attn_q.weight.lora_a"}),
              HasSubstr("a LoRA adapter for 'llama' models"));
  EXPECT_THAT(kind_of({"qwen3", "", "adapter.type", ""}), HasSubstr("a LoRA adapter for 'qwen3' models"));
  EXPECT_THAT(kind_of({"", "imatrix", "", ""}), HasSubstr("importance matrix (imatrix): llama-quantize --imatrix takes it"));
  EXPECT_THAT(kind_of({"", "", "", "blk.0.attn_q.weight.in_sum2"}), HasSubstr("importance matrix"));
  EXPECT_THAT(kind_of({"clip", "mmproj", "", "v.blk.0.ln1.weight"}), HasSubstr("(mmproj)"));
  EXPECT_THAT(kind_of({"clip", "", "", "v.blk.0.ln1.weight"}), HasSubstr("load the model it belongs to"));
  EXPECT_THAT(kind_of({"controlvector", "", "", "direction.1"}), HasSubstr("a control vector"));
  EXPECT_THAT(kind_of({"", "", "", "direction.1"}), HasSubstr("a control vector"));
  EXPECT_THAT(kind_of({"eagle3", "", "", "fc.weight"}), HasSubstr("and this file with --draft-model"));
  EXPECT_THAT(kind_of({"gemma4-assistant", "model", "", "blk.0.attn_q.weight"}),
              HasSubstr("an assistant of a Gemma 4 model"));
  EXPECT_THAT(kind_of({"dflash", "", "", "fc.weight"}), HasSubstr("a draft head (dflash)"));
  EXPECT_THAT(kind_of({"llada", "model", "", "token_embd.weight"}), HasSubstr("a diffusion language model (llada)"));
  EXPECT_THAT(kind_of({"flux", "", "", "img_in.weight"}), HasSubstr("stable-diffusion.cpp takes it"));
  EXPECT_THAT(kind_of({"llama", "vocab", "", ""}), HasSubstr("a vocabulary alone"));
  EXPECT_EQ(kind_of({"llama", "model", "", "token_embd.weight"}), "");
  EXPECT_EQ(kind_of({"bert", "", "", "token_embd.weight"}), "") << "an architecture that is not known is named as such";
  EXPECT_EQ(kind_of({"", "", "", ""}), "");
}

}  // namespace
}  // namespace rocmforge
