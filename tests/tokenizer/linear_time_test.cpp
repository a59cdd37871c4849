#include <fmt/format.h>
#include <gtest/gtest.h>

#include "linear_growth.h"
#include "tokenizer/random_text.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

constexpr std::size_t kib = 1024;

std::string repeated(std::string_view unit, std::size_t size) {
  std::string text;
  while (text.size() < size) {
    text += unit;
  }
  return text;
}

std::string random_text(std::size_t size) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < size; ++i) {
    text += RandomText(i).make();
  }
  return text;
}

/// How the time grows from `small` to `large`, which is growth_of_input times longer.
double growth(const Tokenizer& tokenizer, const std::string& small, const std::string& large) {
  return growth_of_time([&](const std::string& text) { EXPECT_FALSE(tokenizer.encode(text, {}).empty()); }, small, large);
}

constexpr std::string_view units[] = {"a",          "A",       "1",      " ",    "\n",    "\t",     "'",           "\u4E2D",
                                      "\U0001F600", "a ",      " \n",    "the",  "Aa",    "\r",     "<|",          "\u0301",
                                      "1\u00BD",    "\u4E2DA", "\u00A0", "\xFF", "a\xFF", "\u02B0", "\u0967\u3000"};

TEST(PreTokenizerScale, NoTextTakesMoreThanItsLength) {
  constexpr std::size_t large = 256 * kib;
  constexpr std::size_t small = large / growth_of_input;
  for (const char* name : {"gpt-2", "deepseek-coder", "llama-spm", "phi-3", "bert-bge", "unigram"}) {
    const auto tokenizer = load_golden(name);
    for (const std::string_view unit : units) {
      EXPECT_LT(growth(*tokenizer, repeated(unit, small), repeated(unit, large)), most_linear_growth)
          << name << " " << testing::PrintToString(unit);
    }
    EXPECT_LT(growth(*tokenizer, random_text(small), random_text(large)), most_linear_growth) << name;
  }
}

TEST(PreTokenizerScale, NoInputStopsAPreTokenizer) {
  constexpr std::size_t large = 128 * kib;
  constexpr std::size_t small = large / growth_of_input;
  for (const char* pre :
       {"llama-bpe", "qwen2",    "qwen35",     "gpt-4o", "tekken",   "kimi-k2",  "deepseek-llm", "deepseek-v3", "starcoder",
        "falcon",    "default",  "seed-coder", "youtu",  "bloom",    "viking",   "minicpm5",     "ufakzeka",    "exaone-moe",
        "laguna",    "spark2_5", "chameleon",  "jais-2", "tiny_aya", "superbpe", "afmoe"}) {
    const auto tokenizer = gpt2_with(pre);
    const auto expect_linear = [&](std::string_view begin, std::string_view unit, const std::string& end) {
      const auto text = [&](std::size_t size) { return fmt::format("{}{}{}", begin, repeated(unit, size), end); };
      EXPECT_LT(growth(*tokenizer, text(small), text(large)), most_linear_growth)
          << pre << " " << testing::PrintToString(unit) << " before " << testing::PrintToString(end);
    };
    for (const std::string_view unit : units) {
      expect_linear("", unit, "");
    }
    for (const std::string_view end : {"x", "\u0967", "\n", "\x01", "A"}) {
      expect_linear("", " ", std::string(end));
      expect_linear("", "A", std::string(end));
      expect_linear("", "1", std::string(end));
      expect_linear(end, "A", fmt::format("'{}", end));
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
