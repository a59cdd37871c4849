#include "tokenizer/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "error_of.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test::tokenizer_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr Tokenizer::EncodeOptions plain{.add_special = false, .parse_special = false};
constexpr Tokenizer::EncodeOptions parsed{.add_special = false, .parse_special = true};

/// A byte-level vocabulary of the letters a to d, a few merges and control tokens.
Vocabulary small_bpe() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::bpe;
  vocabulary.pre = "gpt-2";
  vocabulary.tokens = {"a", "b", "c", "d", "ab", "bc", "cd", "abcd", "<s>", "<e>", "Ġ"};
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::normal);
  vocabulary.types[8] = vocabulary.types[9] = TokenType::control;
  vocabulary.merges = {"b c", "a b", "c d"};
  vocabulary.bos = 8;
  vocabulary.eos = 9;
  return vocabulary;
}

/// A SentencePiece vocabulary; scores as given, bytes for U+00E9 alone.
Vocabulary small_spm() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::spm;
  vocabulary.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "aa", "ab", "▁a", "<0xC3>", "<0xA9>"};
  vocabulary.types.assign(vocabulary.tokens.size(), TokenType::normal);
  vocabulary.types[0] = TokenType::unknown;
  vocabulary.types[1] = vocabulary.types[2] = TokenType::control;
  vocabulary.types[9] = vocabulary.types[10] = TokenType::byte;
  vocabulary.scores = {0, 0, 0, -10, -11, -12, -2, -2, -3, 0, 0};
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  return vocabulary;
}

TEST(Bpe, LowestRankFirst) {
  const auto tokenizer = Tokenizer::create(small_bpe());
  EXPECT_THAT(tokenizer->encode("abcd", plain), ElementsAre(0, 5, 3));
  EXPECT_THAT(tokenizer->encode("ababcdcd", plain), ElementsAre(4, 0, 5, 3, 6));
}

TEST(Bpe, LeftmostOfEquals) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.tokens[7] = "aa";
  vocabulary.merges = {"a a"};
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("aaa", plain), ElementsAre(7, 0));
}

TEST(Bpe, WholePieceIsTakenWhereMergesAreIgnored) {
  Vocabulary vocabulary = small_bpe();
  for (const char* pre : {"llama-bpe", "tekken", "glm4"}) {
    vocabulary.pre = pre;
    EXPECT_THAT(Tokenizer::create(vocabulary)->encode("abcd", plain), ElementsAre(7)) << pre;
  }
  for (const char* pre : {"chatglm-bpe", "qwen2", "gpt-4o"}) {
    vocabulary.pre = pre;
    EXPECT_THAT(Tokenizer::create(vocabulary)->encode("abcd", plain), ElementsAre(0, 5, 3)) << pre;
  }
}

TEST(Bpe, MergeWithoutTokenFallsBackToBytes) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.merges = {"b c", "bc d"};
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("abcd", plain), ElementsAre(0, 1, 2, 3));
}

TEST(Bpe, ByteWithoutTokenIsLeftOut) {
  Vocabulary vocabulary = small_bpe();
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("azc", plain), ElementsAre(0, 2));
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("z", plain), ElementsAre());
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("bzc", plain), ElementsAre(5));  // its neighbours become adjacent
  for (const TokenType type : {TokenType::control, TokenType::unknown, TokenType::normal}) {
    vocabulary.unknown = vocabulary.eos;
    vocabulary.types[static_cast<std::size_t>(vocabulary.eos)] = type;
    EXPECT_THAT(Tokenizer::create(vocabulary)->encode("azzc", plain), ElementsAre(0, 2));
  }
}

/// The results of Python's bytes.decode("utf-8", errors="replace").
TEST(Encode, WhatIsNoUtf8BecomesTheReplacementCharacter) {
  const std::string mark = "\uFFFD";
  const std::pair<const char*, int> cases[] = {{"\x80", 1},         {"\xFF\xFE", 2},          {"\xC0\x80", 2},
                                               {"\xE0\x80\x80", 3}, {"\xED\xA0\x80", 3},      {"\xF4\x90\x80\x80", 4},
                                               {"\xF0\x9F\x98", 1}, {"\xF0\x9F\x98\x41", -1}, {"\xE2\x82", 1},
                                               {"\xC3", 1},         {"\xF0\x9F\xE2\x82", 2}};
  for (const char* name : {"gpt-2", "llama-spm"}) {
    const auto tokenizer = load_golden(name);
    for (const auto& [bytes, count] : cases) {
      const std::string text = fmt::format("a{}b", bytes);
      std::string expected = "a";
      for (int i = 0; i < std::abs(count); ++i) {
        expected += mark;
      }
      expected += count < 0 ? "Ab" : "b";
      EXPECT_EQ(tokenizer->encode(text, plain), tokenizer->encode(expected, plain)) << name;
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, plain)), expected) << name;
    }
  }
}

TEST(Encode, PartsOfTextAreReplacedEachForItself) {
  const auto tokenizer = load_golden("gpt-2");
  const Tokenizer::TextPart halves[] = {{"\xC3", true}, {"\xA9", false}};
  EXPECT_EQ(tokenizer->encode(halves, false), tokenizer->encode("\uFFFD\uFFFD", plain));
}

TEST(Spm, HighestScoreThenLeftmost) {
  Vocabulary vocabulary = small_spm();
  vocabulary.add_space_prefix = false;
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_THAT(tokenizer->encode("aab", plain), ElementsAre(6, 5));  // "aa" and "ab" have one score
  EXPECT_THAT(tokenizer->encode("aaab", plain), ElementsAre(6, 7));
}

TEST(Spm, ByteFallbackAndUnknown) {
  const auto tokenizer = Tokenizer::create(small_spm());
  EXPECT_THAT(tokenizer->encode("é", plain), ElementsAre(3, 9, 10));
  EXPECT_THAT(tokenizer->encode("z", plain), ElementsAre(3, 0));
  EXPECT_THAT(tokenizer->encode("zyxaz z", plain), ElementsAre(3, 0, 4, 0, 3, 0));  // one for a run of characters
  EXPECT_THAT(tokenizer->encode("è", plain), ElementsAre(3, 0));                    // one byte of two is there
  EXPECT_EQ(tokenizer->decode(Ids{3, 9, 10}), "é");
}

TEST(Spm, TheUnknownTokenIsNoControlToken) {
  Vocabulary vocabulary = small_spm();
  vocabulary.unknown = vocabulary.eos;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("az", plain), ElementsAre(8));
  vocabulary.types[2] = TokenType::unknown;  // the text "</s>" ends an answer, whatever the type says
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("az", plain), ElementsAre(8));
}

TEST(Spm, SpacePrefixAtTheStartAndAfterSpecialTokens) {
  Vocabulary vocabulary = small_spm();
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a</s>a", parsed), ElementsAre(8, 2, 8));
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode(" a", plain), ElementsAre(3, 8));
  vocabulary.add_space_prefix = false;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a</s>a", parsed), ElementsAre(4, 2, 4));
  EXPECT_EQ(Tokenizer::create(vocabulary)->decode(Ids{8}), " a");
}

TEST(Bos, DefaultsOfTheKinds) {
  EXPECT_TRUE(Tokenizer::create(small_spm())->adds_bos());
  EXPECT_FALSE(Tokenizer::create(small_spm())->adds_eos());
  Vocabulary vocabulary = small_bpe();
  for (const char* pre : {"llama-bpe", "llama3", "llama-v3", "tekken"}) {
    vocabulary.pre = pre;
    EXPECT_TRUE(Tokenizer::create(vocabulary)->adds_bos()) << pre;
  }
  for (const char* pre : {"gpt-2", "qwen2", "gpt-4o", "glm4", "deepseek-v3", "default", ""}) {
    vocabulary.pre = pre;
    EXPECT_FALSE(Tokenizer::create(vocabulary)->adds_bos()) << pre;
  }
}

TEST(Bos, TheFileOverridesTheDefault) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.add_bos = true;
  vocabulary.add_eos = true;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a", {}), ElementsAre(8, 0, 9));
  vocabulary.pre = "llama-bpe";
  vocabulary.add_bos = false;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a", {}), ElementsAre(0, 9));
}

TEST(Bos, EmptyText) {
  const auto tokenizer = Tokenizer::create(small_spm());
  EXPECT_THAT(tokenizer->encode("", {}), ElementsAre(1));
  EXPECT_THAT(tokenizer->encode("", plain), ElementsAre());
  EXPECT_EQ(tokenizer->decode(Ids{}), "");
}

TEST(Bos, NeverTwice) {
  const auto tokenizer = Tokenizer::create(small_spm());
  EXPECT_THAT(tokenizer->encode("<s>a", {.add_special = true, .parse_special = true}), ElementsAre(1, 8));
  EXPECT_THAT(tokenizer->encode("a", {}), ElementsAre(1, 8));
}

TEST(Bos, LeftOutWhereTheModelNamesNone) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.pre = "llama-bpe";
  vocabulary.bos = -1;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a", {}), ElementsAre(0));
}

TEST(Special, ControlTokensAreTextInAUsersWords) {
  for (const char* name : {"gpt-2", "deepseek-coder", "llama-spm", "phi-3"}) {
    const auto tokenizer = load_golden(name);
    const Vocabulary& vocabulary = tokenizer->vocabulary();
    int checked = 0;
    for (std::int32_t id = 0; id < tokenizer->size(); ++id) {
      const auto type = vocabulary.types[static_cast<std::size_t>(id)];
      if (type != TokenType::control && type != TokenType::unknown) {
        continue;
      }
      const std::string& text = vocabulary.tokens[static_cast<std::size_t>(id)];
      const Ids ids = tokenizer->encode("x" + text + "y", plain);
      EXPECT_THAT(ids, testing::Not(testing::Contains(id))) << text;
      EXPECT_EQ(tokenizer->decode(ids), "x" + text + "y");
      EXPECT_THAT(tokenizer->encode("x" + text + "y", parsed), testing::Contains(id)) << text;
      ++checked;
    }
    EXPECT_GT(checked, 0) << name;
  }
  const auto llama = load_golden("llama-spm");
  EXPECT_EQ(llama->decode(llama->encode("<0x0A>", plain)), "<0x0A>");
}

TEST(Special, EndTokensThatAFileMarksAsOrdinaryAreControl) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.tokens[9] = "<|im_end|>";
  vocabulary.types[9] = TokenType::normal;
  vocabulary.eos = -1;
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_THAT(tokenizer->encode("a<|im_end|>", plain), ElementsAre(0, 3));  // only "d" has a token
  EXPECT_THAT(tokenizer->encode("a<|im_end|>", parsed), ElementsAre(0, 9));
  EXPECT_EQ(tokenizer->decode(Ids{0, 9}), "a");
  EXPECT_TRUE(tokenizer->is_end_of_generation(9));
}

TEST(Special, UserDefinedTokensAlwaysMatch) {
  const auto tokenizer = load_golden("deepseek-coder");
  EXPECT_THAT(tokenizer->encode("<|User|>", plain), ElementsAre(32019));
  EXPECT_EQ(tokenizer->decode(Ids{32019}), "<|User|>");
}

TEST(Special, LeftmostThenLongest) {
  SpecialTokens tokens;
  tokens.add("<a>", 1, false);
  tokens.add("<a><b>", 2, false);
  tokens.add("b>!", 3, true);
  const std::string text = "x<a><b>!";
  SpecialTokens::Match match = tokens.find(text, 0, true);
  EXPECT_EQ(match.id, 2);
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.length, 6u);
  match = tokens.find(text, 0, false);
  EXPECT_EQ(match.id, 3);
  EXPECT_EQ(match.begin, 5u);
  EXPECT_EQ(tokens.find(text, 6, true).id, -1);
}

TEST(Special, PartsAreOneTextExceptForControlTokens) {
  const auto tokenizer = load_golden("gpt-2");
  const std::vector<Tokenizer::TextPart> parts = {{"Hel", true}, {"lo wor", false}, {"ld<|endof", true}, {"text|>", false}};
  EXPECT_EQ(tokenizer->encode(parts, false), tokenizer->encode("Hello world<|endoftext|>", plain));
}

TEST(EndOfGeneration, IdsAndTexts) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"<|eot_id|>", "<|end|>", "<pad>", "<|call|>"});
  vocabulary.types.resize(vocabulary.tokens.size(), TokenType::control);
  vocabulary.fim_pad = 13;
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_THAT(tokenizer->end_of_generation_ids(), ElementsAre(9, 11, 12, 13, 14));
  EXPECT_TRUE(tokenizer->is_end_of_generation(11));
  EXPECT_FALSE(tokenizer->is_end_of_generation(8));
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
}

TEST(EndOfGeneration, EndOfAMessageIsNotTheEndInHarmony) {
  for (const auto& [first, second] : {std::pair{"<|return|>", "<|call|>"}, std::pair{"<|calls|>", "<|flush|>"}}) {
    Vocabulary vocabulary = small_bpe();
    vocabulary.tokens.insert(vocabulary.tokens.end(), {first, second, "<|end|>", "<|channel|>"});
    vocabulary.types.resize(vocabulary.tokens.size(), TokenType::control);
    const auto tokenizer = Tokenizer::create(vocabulary);
    EXPECT_THAT(tokenizer->end_of_generation_ids(), ElementsAre(9, 11, 12));
    // The marks of a message's parts belong to the answer's text, and still can't come from a user's.
    EXPECT_EQ(tokenizer->decode(Ids{14, 0}), "<|channel|>a");
    EXPECT_THAT(tokenizer->encode("<|channel|>", plain), testing::Not(testing::Contains(14)));
  }
}

TEST(EndOfGeneration, OfTheVocabularies) {
  EXPECT_THAT(load_golden("gpt-2")->end_of_generation_ids(), ElementsAre(50256));
  EXPECT_THAT(load_golden("llama-spm")->end_of_generation_ids(), ElementsAre(2));
  EXPECT_THAT(load_golden("phi-3")->end_of_generation_ids(), ElementsAre(2, 32000, 32007));
  EXPECT_THAT(load_golden("deepseek-coder")->end_of_generation_ids(), ElementsAre(32014));
}

TEST(GapMarks, AreKnownByTheirTextsAllOrNone) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.tokens.insert(vocabulary.tokens.end(), {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"});
  vocabulary.types.resize(vocabulary.tokens.size(), TokenType::user_defined);
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_EQ(tokenizer->vocabulary().fim_pre, 11);
  EXPECT_EQ(tokenizer->vocabulary().fim_suf, 12);
  EXPECT_EQ(tokenizer->vocabulary().fim_mid, 13);
  EXPECT_EQ(tokenizer->vocabulary().fim_sep, 14);
  EXPECT_EQ(tokenizer->vocabulary().fim_rep, -1);
  EXPECT_TRUE(tokenizer->is_end_of_generation(14));
  EXPECT_THAT(tokenizer->encode("<|fim_prefix|>", plain), testing::Not(testing::Contains(11)));
  // An id in the file is not replaced.
  vocabulary.fim_mid = 14;
  EXPECT_EQ(Tokenizer::create(vocabulary)->vocabulary().fim_mid, 14);
  vocabulary.fim_mid = -1;
  vocabulary.tokens[13] = "<|other|>";
  EXPECT_EQ(Tokenizer::create(vocabulary)->vocabulary().fim_pre, -1);
  EXPECT_EQ(Tokenizer::create(vocabulary)->vocabulary().fim_sep, -1);
}

TEST(Create, IdsOutsideTheVocabularyAreNone) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.eos = 11;
  vocabulary.eot = 1000000;
  vocabulary.bos = -5;
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_EQ(tokenizer->vocabulary().eos, -1);
  EXPECT_EQ(tokenizer->vocabulary().eot, -1);
  EXPECT_EQ(tokenizer->vocabulary().bos, -1);
  EXPECT_THAT(tokenizer->end_of_generation_ids(), ElementsAre());
}

TEST(Create, UnknownPreTokenizerIsAnErrorThatListsTheKnown) {
  Vocabulary vocabulary = small_bpe();
  vocabulary.pre = "llama-4711";
  const std::string message = error_of([&] { static_cast<void>(Tokenizer::create(vocabulary)); });
  EXPECT_THAT(message, testing::StartsWith("unknown pre-tokenizer 'llama-4711'"));
  for (const char* known : {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "deepseek-v3", "gpt-4o",
                            "tekken", "smollm", "starcoder", "falcon", "phi-2", "glm4", "command-r", "default"}) {
    EXPECT_THAT(message, HasSubstr(known));
  }
}

/// What the expressions of the files find by reading on to the end of a number, where random strings are too short.
TEST(PreTokenizer, NumbersAreCutInGroupsFromTheirEnd) {
  const auto pieces = [](std::string_view pre, std::string_view text) {
    std::vector<std::string> copies;
    for (const std::string_view piece : PreTokenizer(pre_tokenizer_rules(pre)).split(text)) {
      copies.emplace_back(piece);
    }
    return copies;
  };
  using Pieces = std::vector<std::string>;
  for (const char* pre : {"tiny_aya", "superbpe", "afmoe"}) {
    EXPECT_EQ(pieces(pre, "1"), Pieces({"1"})) << pre;
    EXPECT_EQ(pieces(pre, "123"), Pieces({"123"})) << pre;
    EXPECT_EQ(pieces(pre, "1234"), Pieces({"1", "234"})) << pre;
    EXPECT_EQ(pieces(pre, "12345678901"), Pieces({"12", "345", "678", "901"})) << pre;
    EXPECT_EQ(pieces(pre, "1234.5678"), Pieces({"1", "234", ".", "5", "678"})) << pre;
  }
  EXPECT_EQ(pieces("tiny_aya", "1234x"), Pieces({"123", "4", "x"}));  // the number ends within a word
  EXPECT_EQ(pieces("tiny_aya", "1234\u00BD"), Pieces({"1", "234", "\u00BD"}));
  EXPECT_EQ(pieces("afmoe", "1234x"), Pieces({"1", "234", "x"}));
  EXPECT_EQ(pieces("superbpe", "a 1234x"), Pieces({"a ", "1", "234", "x"}));
  EXPECT_EQ(pieces("superbpe", "1234\u00BD5\u00BD6789"), Pieces({"1", "234\u00BD5\u00BD6", "789"}));
}

TEST(Create, InconsistentVocabulariesAreErrors) {
  const auto error = [](Vocabulary vocabulary) {
    return error_of([&] { static_cast<void>(Tokenizer::create(std::move(vocabulary))); });
  };
  EXPECT_EQ(error({}), "the vocabulary has no tokens");
  Vocabulary vocabulary = small_bpe();
  vocabulary.types.pop_back();
  EXPECT_EQ(error(vocabulary), "the vocabulary has 11 tokens but 10 token types");
  vocabulary = small_bpe();
  vocabulary.scores = {1.0f};
  EXPECT_EQ(error(vocabulary), "the vocabulary has 11 tokens but 1 scores");
  vocabulary = small_bpe();
  vocabulary.merges.clear();
  EXPECT_THAT(error(vocabulary), HasSubstr("needs merges"));
  for (const char* merge : {"ab", "", " ", "a ", "a"}) {
    vocabulary.merges = {"a b", merge};
    EXPECT_THAT(error(vocabulary), testing::StartsWith("merge 1 is '" + std::string(merge) + "'"));
  }
  vocabulary = small_spm();
  vocabulary.scores.clear();
  EXPECT_NO_THROW((void)Tokenizer::create(vocabulary));
  vocabulary = small_spm();
  vocabulary.scores[4] = std::nanf("");
  EXPECT_EQ(error(vocabulary), "the score of token 4 is not a number");
  vocabulary = small_spm();
  vocabulary.tokens[9] = "<0xG0>";
  EXPECT_THAT(error(vocabulary), testing::StartsWith("token 9 is '<0xG0>'"));
}

TEST(Find, ByExactText) {
  const auto tokenizer = load_golden("phi-3");
  EXPECT_EQ(tokenizer->find("<|end|>"), 32007);
  EXPECT_EQ(tokenizer->find("no such token"), -1);
}

/// Ids: 0 <unk>, 1 <bos>, 2 to 257 the bytes, then these.
Vocabulary small_marked() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::marked_bpe;
  vocabulary.tokens = {"<unk>", "<bos>"};
  vocabulary.types = {TokenType::unknown, TokenType::control};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    vocabulary.types.push_back(TokenType::byte);
  }
  for (const char* text : {"\u2581", "a", "b", "ab", "\u2581a", "\n", "\n\n", "<turn|>"}) {
    vocabulary.tokens.emplace_back(text);
    vocabulary.types.push_back(TokenType::normal);
  }
  vocabulary.merges = {"\u2581 a", "a b", "\n \n"};
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  return vocabulary;
}

TEST(MarkedBpe, CharactersMergeByRankAndSpacesAreMarked) {
  const auto tokenizer = Tokenizer::create(small_marked());
  const std::int32_t mark = 258, a = 259, b = 260, ab = 261, mark_a = 262;
  const auto encode = [&](const char* text) { return tokenizer->encode(text, {.add_special = false}); };
  EXPECT_THAT(encode("ab"), ElementsAre(ab));
  EXPECT_THAT(encode(" ab"), ElementsAre(mark_a, b));  // the first merge has priority
  EXPECT_THAT(encode("a  ba"), ElementsAre(a, mark, mark, b, a));
  EXPECT_EQ(tokenizer->decode(encode(" ab  a")), " ab  a");
  EXPECT_THAT(tokenizer->encode("a", {}), ElementsAre(1, a));
}

TEST(MarkedBpe, RunsOfLineEndsAreTokensWhereTheyCanBe) {
  const auto tokenizer = Tokenizer::create(small_marked());
  const std::int32_t line = 263, two = 264;
  const auto encode = [&](const char* text) { return tokenizer->encode(text, {.add_special = false}); };
  EXPECT_THAT(encode("\n"), ElementsAre(line));
  EXPECT_THAT(encode("\n\n"), ElementsAre(two));
  EXPECT_THAT(encode("\n\n\n"), ElementsAre(two, line));
  EXPECT_EQ(tokenizer->decode(encode("a\n\n\n b")), "a\n\n\n b");
}

TEST(MarkedBpe, OtherCharactersAreBytesOrUnknown) {
  Vocabulary vocabulary = small_marked();
  const auto tokenizer = Tokenizer::create(vocabulary);
  EXPECT_THAT(tokenizer->encode("\u00E4", {.add_special = false}), ElementsAre(2 + 0xC3, 2 + 0xA4));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{2 + 0xC3, 2 + 0xA4}), "\u00E4");
  vocabulary.types[2 + 0xC3] = TokenType::unused;
  EXPECT_THAT(Tokenizer::create(vocabulary)->encode("a\u00E4\u00E4b", {.add_special = false}), ElementsAre(259, 0, 260));
  EXPECT_THAT(Tokenizer::create(vocabulary)->end_of_generation_ids(), ElementsAre(265));
}

TEST(MarkedBpe, AVocabularyWithoutMergesIsRefused) {
  Vocabulary vocabulary = small_marked();
  vocabulary.merges.clear();
  EXPECT_THROW(Tokenizer::create(vocabulary), Error);
  vocabulary.merges = {"ab"};
  EXPECT_THROW(Tokenizer::create(vocabulary), Error);
}

}  // namespace
}  // namespace rocmforge::test::tokenizer_test
