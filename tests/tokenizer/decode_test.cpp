#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/utf8.h"
#include "tokenizer/random_text.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr Tokenizer::EncodeOptions plain{.add_special = false, .parse_special = false};
const char* const all_names[] = {"gpt-2", "deepseek-coder", "llama-spm", "phi-3"};

bool is_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Unit unit = utf8_unit(text, position);
    if (unit.kind != Utf8Unit::Kind::character) {
      return false;
    }
    position += unit.length;
  }
  return true;
}

std::string random_bytes(std::mt19937& random, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) {
    // Lead and continuation bytes are more frequent than by chance, so that characters are incomplete in many ways.
    const std::uint32_t kind = static_cast<std::uint32_t>(random() % 3);
    bytes.push_back(static_cast<char>(kind == 0   ? random() % 256
                                      : kind == 1 ? 0x80 + random() % 0x40
                                                  : 0xC0 + random() % 0x40));
  }
  return bytes;
}

std::string all_bytes(const Tokenizer& tokenizer, const Ids& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) {
    bytes += tokenizer.token_bytes(id);
  }
  return bytes;
}

TEST(Decode, StreamGivesTheWholeInWholeCharacters) {
  for (const char* name : all_names) {
    const auto tokenizer = load_golden(name);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::string text = RandomText(1000000 + i).make();
      const Ids ids = tokenizer->encode(text, plain);
      StreamDecoder stream(tokenizer);
      std::string whole;
      for (const std::int32_t id : ids) {
        const std::string part = stream.add(id);
        ASSERT_TRUE(is_utf8(part)) << name << " string " << i;
        whole += part;
      }
      EXPECT_EQ(stream.finish(), "");
      ASSERT_EQ(whole, tokenizer->decode(ids)) << name << " string " << i;
    }
  }
}

TEST(Decode, StreamOfAnyIdsEqualsTheWhole) {
  std::mt19937 random(7);
  for (const char* name : all_names) {
    const auto tokenizer = load_golden(name);
    for (int round = 0; round < 200; ++round) {
      Ids ids;
      for (std::uint32_t i = 0; i < 40; ++i) {
        // Every other id from the start, where the byte tokens are.
        const auto limit = static_cast<std::uint32_t>(i % 2 == 0 ? 260 : tokenizer->size());
        ids.push_back(static_cast<std::int32_t>(random() % limit));
      }
      for (const bool special : {false, true}) {
        StreamDecoder stream(tokenizer, special);
        std::string whole;
        for (const std::int32_t id : ids) {
          const std::string part = stream.add(id);
          ASSERT_TRUE(is_utf8(part));
          whole += part;
        }
        whole += stream.finish();
        ASSERT_TRUE(is_utf8(whole));
        ASSERT_EQ(whole, tokenizer->decode(ids, special)) << name;
      }
    }
  }
}

TEST(Decode, CharacterInSeveralTokensIsHeldBack) {
  const auto tokenizer = load_golden("llama-spm");
  const Ids ids = tokenizer->encode("\U0001F999", plain);  // a llama, four byte tokens after the space
  ASSERT_EQ(ids.size(), 5u);
  StreamDecoder stream(tokenizer);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(stream.add(ids[i]), "");
  }
  EXPECT_EQ(stream.add(ids[4]), "\U0001F999");
}

TEST(Decode, BrokenCharacterBecomesAReplacementAndHoldsNothingUp) {
  const auto tokenizer = load_golden("llama-spm");
  const auto byte = [&](const char* text) { return tokenizer->find(text); };
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.add(byte("<0xF0>")), "");
  EXPECT_EQ(stream.add(byte("<0x9F>")), "");
  EXPECT_EQ(stream.add(byte("a")), "\uFFFDa");
  EXPECT_EQ(stream.add(byte("<0xFF>")), "\uFFFD");
  EXPECT_EQ(stream.add(byte("<0x80>")), "\uFFFD");
  EXPECT_EQ(stream.add(byte("<0xE4>")), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Decode, OneLeadingSpaceIsTheTokenizersOwn) {
  const auto tokenizer = load_golden("llama-spm");
  const std::int32_t hello = tokenizer->find("▁Hello"), space = tokenizer->find("▁");
  EXPECT_EQ(tokenizer->decode(Ids{1, hello, hello}), "Hello Hello");
  EXPECT_EQ(tokenizer->decode(Ids{space, hello}), " Hello");
  EXPECT_EQ(tokenizer->decode(Ids{space}), "");
  EXPECT_EQ(tokenizer->decode(Ids{1, hello}, /*special=*/true), "<s> Hello");
  EXPECT_EQ(StreamDecoder(tokenizer).add(hello), "Hello");
  EXPECT_EQ(StreamDecoder(tokenizer, false, /*at_start=*/false).add(hello), " Hello");
  EXPECT_EQ(load_golden("gpt-2")->decode(Ids{load_golden("gpt-2")->find("ĠHello")}), " Hello");
}

TEST(Decode, ControlTokensShowOnlyOnRequest) {
  const auto tokenizer = load_golden("gpt-2");
  EXPECT_EQ(tokenizer->token_bytes(50256), "");
  EXPECT_EQ(tokenizer->token_bytes(50256, true), "<|endoftext|>");
  EXPECT_EQ(tokenizer->token_bytes(-1, true), "");
  EXPECT_EQ(tokenizer->token_bytes(50257, true), "");
}

/// The text of random bytes.
std::string replaced(const std::string& bytes) {
  std::string held;
  return std::string(replace_invalid_utf8(bytes, held));
}

TEST(InvalidUtf8, BytesComeBackAsReplacementCharacters) {
  std::mt19937 random(11);
  for (const char* name : {"gpt-2", "llama-spm", "phi-3"}) {
    const auto tokenizer = load_golden(name);
    for (std::size_t i = 0; i < 2000; ++i) {
      const std::string bytes = random_bytes(random, 1 + i % 40);
      const std::string back = all_bytes(*tokenizer, tokenizer->encode(bytes, plain));
      ASSERT_EQ(tokenizer->drops_leading_space() ? back.substr(1) : back, replaced(bytes)) << name << " " << i;
    }
  }
}

TEST(InvalidUtf8, EveryPreTokenizerCopes) {
  std::mt19937 random(13);
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "starcoder", "falcon", "default"}) {
    const auto tokenizer = gpt2_with(pre);
    for (std::size_t i = 0; i < 300; ++i) {
      std::string bytes = random_bytes(random, i % 60);
      bytes += RandomText(i).make() + random_bytes(random, i % 5);
      ASSERT_EQ(all_bytes(*tokenizer, tokenizer->encode(bytes, plain)), replaced(bytes)) << pre << " " << i;
    }
  }
}

TEST(InvalidUtf8, BytesThatAVocabularyLacksAreLeftOutAndTheRestStays) {
  Vocabulary vocabulary = load_golden("gpt-2")->vocabulary();
  vocabulary.types[static_cast<std::size_t>(load_golden("gpt-2")->find("\u00C3"))] = TokenType::unused;  // the byte C3
  vocabulary.unknown = vocabulary.eos;
  std::erase_if(vocabulary.merges, [](const std::string& merge) { return merge.find("\u00C3") != std::string::npos; });
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_EQ(all_bytes(*tokenizer, tokenizer->encode("a\x80z", plain)), "a\uFFFDz");
  EXPECT_EQ(all_bytes(*tokenizer, tokenizer->encode("ab\u00E9z", plain)), "ab\xA9z");
  std::mt19937 random(17);
  for (std::size_t i = 0; i < 500; ++i) {
    const auto ids = tokenizer->encode(random_bytes(random, i % 50), plain);
    EXPECT_EQ(std::ranges::count(ids, vocabulary.eos), 0);
  }
}

TEST(Utf8, UnitsByTheTableOfTheStandard) {
  using Kind = Utf8Unit::Kind;
  struct Case {
    std::string bytes;
    Kind kind;
    std::size_t length;
  };
  const Case cases[] = {{"a", Kind::character, 1},
                        {"\xC3\xA9", Kind::character, 2},
                        {"\xE2\x96\x81", Kind::character, 3},
                        {"\xF4\x8F\xBF\xBF", Kind::character, 4},
                        {"\x80", Kind::invalid, 1},
                        {"\xC0\x80", Kind::invalid, 1},          // overlong
                        {"\xE0\x80\x80", Kind::invalid, 1},      // overlong
                        {"\xED\xA0\x80", Kind::invalid, 1},      // surrogate
                        {"\xF4\x90\x80\x80", Kind::invalid, 1},  // past U+10FFFF
                        {"\xF0\x9F\x98!", Kind::invalid, 3},
                        {"\xF0\x9F\x98", Kind::incomplete, 3},
                        {"\xE2", Kind::incomplete, 1},
                        {"\xFF", Kind::invalid, 1}};
  for (const Case& each : cases) {
    const Utf8Unit unit = utf8_unit(each.bytes, 0);
    EXPECT_EQ(unit.kind, each.kind) << testing::PrintToString(each.bytes);
    EXPECT_EQ(unit.length, each.length) << testing::PrintToString(each.bytes);
  }
}

}  // namespace
}  // namespace rocmforge::test
