#include <gtest/gtest.h>

#include <ctime>

#include "tokenizer/random_text.h"
#include "tokenizer/vocabulary_files.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROCMFORGE_TEST_SANITIZED 1
#else
#define ROCMFORGE_TEST_SANITIZED 0
#endif

namespace rocmforge::test {
namespace {

constexpr std::size_t kib = 1024;
// Sanitizers slow everything down several times; there only growth is judged.
constexpr double second = ROCMFORGE_TEST_SANITIZED ? 30.0 : 1.0;

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

/// Processor time, which a busy machine does not stretch.
double seconds_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t begin = std::clock();
  const auto ids = tokenizer.encode(text, {});
  EXPECT_FALSE(ids.empty());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

constexpr std::string_view units[] = {"a",          "A",      "1",    " ",     "\n",     "\t",          "'",  "\u4E2D",
                                      "\U0001F600", "a ",     " \n",  "the",   "Aa",     "\r",          "<|", "\u0301",
                                      "\u4E2DA",    "\u00A0", "\xFF", "a\xFF", "\u02B0", "\u0967\u3000"};

TEST(LinearTime, OneMebibyteWithinTwoSeconds) {
  for (const char* name : {"gpt-2", "deepseek-coder", "llama-spm", "phi-3"}) {
    const auto tokenizer = load_golden(name);
    for (const std::string_view unit : units) {
      const double seconds = seconds_of(*tokenizer, repeated(unit, 1024 * kib));
      EXPECT_LT(seconds, 2 * second) << name << " " << testing::PrintToString(unit);
    }
    EXPECT_LT(seconds_of(*tokenizer, random_text(1024 * kib)), 2 * second) << name;
  }
}

TEST(LinearTime, EightTimesTheTextCostsAboutEightTimesTheTime) {
  for (const char* name : {"gpt-2", "deepseek-coder", "llama-spm"}) {
    const auto tokenizer = load_golden(name);
    for (const std::string_view unit : {"a", " ", "\u4E2D", "the", "a "}) {
      const double small = seconds_of(*tokenizer, repeated(unit, 128 * kib));
      const double large = seconds_of(*tokenizer, repeated(unit, 1024 * kib));
      EXPECT_LT(large, 24 * std::max(small, 0.004 * second)) << name << " " << testing::PrintToString(unit);
    }
  }
}

TEST(LinearTime, NoInputStopsAPreTokenizer) {
  // Anything quadratic takes many seconds already at this length.
  constexpr std::size_t length = 128 * kib;
  for (const char* pre : {"llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm", "deepseek-v3", "starcoder",
                          "falcon", "default"}) {
    const auto tokenizer = gpt2_with(pre);
    for (const std::string_view unit : units) {
      EXPECT_LT(seconds_of(*tokenizer, repeated(unit, length)), 0.5 * second) << pre << " " << testing::PrintToString(unit);
    }
    for (const std::string_view end : {"x", "\u0967", "\n", "\x01", "A"}) {
      EXPECT_LT(seconds_of(*tokenizer, repeated(" ", length) + std::string(end)), 0.5 * second) << pre;
      EXPECT_LT(seconds_of(*tokenizer, repeated("A", length) + std::string(end)), 0.5 * second) << pre;
      EXPECT_LT(seconds_of(*tokenizer, std::string(end) + repeated("A", length) + "'" + std::string(end)), 0.5 * second)
          << pre;
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
