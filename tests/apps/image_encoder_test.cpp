#include "image_encoder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "apps/program.h"

namespace rocmforge {
namespace {

using app::find_image_encoder;

TEST(ImageEncoder, IsFoundBesideItsModel) {
  const TemporaryFolder folder;
  const std::string model = folder.write("Qwen3-VL-2B-Instruct-Q4_K_M.gguf", "");
  EXPECT_EQ(find_image_encoder(model), "");
  const std::string f32 = folder.write("mmproj-F32.gguf", "");
  EXPECT_EQ(find_image_encoder(model), f32);
  const std::string bf16 = folder.write("mmproj-BF16.gguf", "");
  EXPECT_EQ(find_image_encoder(model), bf16);
  const std::string f16 = folder.write("mmproj-F16.gguf", "");
  folder.write("Qwen3-VL-2B-Instruct-Q8_0.gguf", "");
  folder.write("notes-mmproj.txt", "");
  EXPECT_EQ(find_image_encoder(model), f16) << "the same model in two formats shares it";
}

TEST(ImageEncoder, OfAnotherModelIsNotTaken) {
  const TemporaryFolder folder;
  const std::string eye = folder.write("gemma-3-4b-it-Q4_0.gguf", "");
  const std::string blind = folder.write("qwen3-8b-q4_k_m.gguf", "");
  folder.write("mmproj-F16.gguf", "");
  EXPECT_EQ(find_image_encoder(eye), "") << "it may belong to either";
  const std::string own = folder.write("mmproj-Gemma-3-4B-it-Q8_0.gguf", "");
  EXPECT_EQ(find_image_encoder(eye), own);
  EXPECT_EQ(find_image_encoder(blind), "");
  EXPECT_EQ(find_image_encoder((folder.path() / "none" / "m.gguf").string()), "");
}

}  // namespace
}  // namespace rocmforge
