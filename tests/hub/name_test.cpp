#include "hub/name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "error_of.h"
#include "hub/choice.h"

namespace rocmforge::hub {
namespace {

using test::error_of;
using Strings = std::vector<std::string>;

/// "source repository choice file revision"
std::string read(const std::string& text) {
  const ModelName name = parse_model_name(text);
  return std::string(name.source == ModelName::Source::ollama ? "ollama" : "hub") + " " + name.repository + " " +
         name.choice + " " + name.file + " " + name.revision;
}

TEST(HubName, HasManyForms) {
  for (const char* text :
       {"a/b", "hf.co/a/b", "huggingface.co/a/b", "https://huggingface.co/a/b", "https://hf.co/a/b?x=y#z"}) {
    EXPECT_EQ(read(text), "hub a/b   main") << text;
  }
  EXPECT_EQ(read("a/b:Q8_0"), "hub a/b Q8_0  main");
  EXPECT_EQ(read("a/b/c/d.gguf"), "hub a/b  c/d.gguf main");
  EXPECT_EQ(read("https://huggingface.co/a/b/blob/v1/c/d.gguf"), "hub a/b  c/d.gguf v1");
  EXPECT_EQ(read("qwen3"), "ollama library/qwen3   main");
  EXPECT_EQ(read("qwen3:0.6b"), "ollama library/qwen3 0.6b  main");
  EXPECT_EQ(read("ollama.com/library/qwen3:0.6b"), "ollama library/qwen3 0.6b  main");
  EXPECT_EQ(read("https://ollama.com/someone/m"), "ollama someone/m   main");
}

TEST(HubName, RefusesWhatIsNone) {
  for (const char* text : {"",     "/",       "a/",          "/b",
                           "a/b/", "a//b",    "../b",        "a/..",
                           "a/b:", "a/b:c:d", "a/b/c",       "a/b/../c.gguf",
                           "a b",  "a\n",     "https://a/b", "ollama.com/qwen3",
                           ".a/b", "-a/b",    "a--b/c",      "a/b/resolve/../c.gguf"}) {
    const std::string message = error_of([&] { static_cast<void>(parse_model_name(text)); });
    EXPECT_NE(message.find("names no model"), std::string::npos) << text;
  }
}

TEST(HubName, KnowsPathsThatStayInside) {
  for (const char* path : {"a", "a/b.gguf", "..a/b..", "\xc3\xa4/\xe6\xbc\xa2.gguf", "a b.gguf"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "./a", "..", "a/..", "a/../b", "a\\b", "a\tb", "\x7f", "\xff", "a\xe2\x80\xae"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
}

TEST(HubChoice, ReadsTheQuantOfAName) {
  EXPECT_EQ(quant_of("Qwen3-0.6B-Q4_K_M"), "Q4_K_M");
  EXPECT_EQ(quant_of("model.q8_0"), "Q8_0");
  EXPECT_EQ(quant_of("x-UD-IQ2_XXS"), "UD-IQ2_XXS");
  EXPECT_EQ(quant_of("Q4_K_M/model_bf16"), "BF16");
  EXPECT_EQ(quant_of("gpt-oss-20b-mxfp4"), "MXFP4");
  EXPECT_EQ(quant_of("Q8_0/model"), "");
  EXPECT_EQ(quant_of("model"), "");
}

TEST(HubChoice, ReadsThePartFromTheWholeName) {
  const SplitName split = split_name("model-Q4_K-00002-of-00005.gguf");
  EXPECT_EQ(split.base, "model-Q4_K");
  EXPECT_EQ(split.part, 2);
  EXPECT_EQ(split.count, 5);
  for (const char* name : {"best-of-all.gguf", "a-0001-of-0002.gguf", "-00001-of-00002.gguf", "a-00001-of-0000x.gguf"}) {
    EXPECT_EQ(split_name(name).count, 1) << name;
  }
}

TEST(HubChoice, TakesTheDefaultOrWhatIsNearest) {
  const ModelName name = parse_model_name("a/b");
  EXPECT_EQ(choose_files({"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf"}, name), Strings{"m-Q4_K_M.gguf"});
  EXPECT_EQ(choose_files({"m-BF16.gguf", "m-Q8_0.gguf"}, name), Strings{"m-Q8_0.gguf"});
  EXPECT_EQ(choose_files({"m-UD-Q4_K_XL.gguf", "m-Q2_K.gguf"}, name), Strings{"m-UD-Q4_K_XL.gguf"});
  EXPECT_EQ(choose_files({"only-this.gguf", "mmproj-F16.gguf"}, name), Strings{"only-this.gguf"});
  EXPECT_EQ(error_of([&] {
              choose_files({"x-Q4_K_M.gguf", "y-Q4_K_M.gguf"}, name);
            }),
            "a/b has several files: name one as a/b/FILE.gguf, of x-Q4_K_M.gguf, y-Q4_K_M.gguf");
}

TEST(HubChoice, TakesTheBestImageEncoder) {
  EXPECT_EQ(choose_image_encoder({"m-Q8_0.gguf", "mmproj-F32.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"}),
            "mmproj-F16.gguf");
  EXPECT_EQ(choose_image_encoder({"m-mmproj-f32.gguf", "a/m.mmproj-Q8_0.gguf", "mmproj.gguf"}), "a/m.mmproj-Q8_0.gguf");
  EXPECT_EQ(choose_image_encoder({"mmproj-F32.gguf", "mmproj-model.gguf"}), "mmproj-model.gguf");
  EXPECT_EQ(choose_image_encoder({"m-Q8_0.gguf", "mmproj.json"}), "");
}

TEST(HubChoice, PutsPartsInTheirOrder) {
  const Strings parts = {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"};
  EXPECT_EQ(choose_files({parts[1], "readme.md", parts[0]}, parse_model_name("a/b")), parts);
  for (const char* lost : {"m-00000-of-00000.gguf", "m-00002-of-00001.gguf", "m-00001-of-99999.gguf"}) {
    EXPECT_NE(error_of([&] { choose_files({lost}, parse_model_name("a/b")); }).find(" is missing"), std::string::npos)
        << lost;
  }
}

}  // namespace
}  // namespace rocmforge::hub
