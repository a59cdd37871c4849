#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "error_of.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/prefix_trie.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int32_t cls = 101, sep = 102, unk = 100;

TEST(WordPiece, TextsStandBetweenTheirMarks) {
  const auto tokenizer = load_golden("bert-bge");
  EXPECT_THAT(tokenizer->encode("Hello, world!", {}), ElementsAre(cls, 7592, 1010, 2088, 999, sep));
  EXPECT_THAT(tokenizer->encode("", {}), ElementsAre(cls, sep));
  EXPECT_THAT(tokenizer->encode_pair("hello", "world"), ElementsAre(cls, 7592, sep, 2088, sep));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("hello world", {})), "hello world");
}

TEST(WordPiece, TextNamesNoControlToken) {
  const auto tokenizer = load_golden("bert-bge");
  EXPECT_THAT(tokenizer->encode("[SEP]", {.add_special = false, .parse_special = true}), ElementsAre(sep));
  EXPECT_THAT(tokenizer->encode("[SEP]", {.add_special = false}), testing::Not(testing::Contains(sep)));
}

TEST(WordPiece, LongWordsAreUnknown) {
  const auto tokenizer = load_golden("bert-bge");
  EXPECT_THAT(tokenizer->encode(std::string(100, '!'), {.add_special = false}), testing::SizeIs(100));
  EXPECT_THAT(tokenizer->encode(std::string(101, 'a') + " a", {.add_special = false}), ElementsAre(unk, 1037));
  EXPECT_GT(tokenizer->encode(std::string(100, 'a'), {.add_special = false}).size(), 1u);
}

TEST(WordPiece, AVocabularyWithoutMarksIsRefused) {
  for (std::int32_t Vocabulary::*id : {&Vocabulary::bos, &Vocabulary::separator, &Vocabulary::unknown}) {
    Vocabulary vocabulary = load_golden("bert-bge")->vocabulary();
    vocabulary.eos = -1;
    vocabulary.*id = -1;
    EXPECT_THAT(error_of([&] { static_cast<void>(Tokenizer::create(vocabulary)); }),
                HasSubstr("a WordPiece vocabulary needs the token that"));
  }
}

TEST(Unigram, MarksAndPairs) {
  Vocabulary vocabulary = load_golden("unigram")->vocabulary();
  vocabulary.separator = 2;
  vocabulary.add_sep = true;
  const auto tokenizer = Tokenizer::create(vocabulary);
  const auto a = tokenizer->encode("a", {.add_special = false});
  ASSERT_EQ(a.size(), 1u);
  EXPECT_THAT(tokenizer->encode("a", {}), ElementsAre(1, a[0], 2));
  EXPECT_THAT(tokenizer->encode_pair("a", "a"), ElementsAre(1, a[0], 2, 2, a[0], 2));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("etas shrdlu", {})), "etas shrdlu");
}

TEST(Unigram, UserDefinedTokensAreAlwaysTaken) {
  const auto tokenizer = load_golden("unigram");
  EXPECT_THAT(tokenizer->encode("a<mark>", {.add_special = false}), testing::Contains(3));
}

TEST(Unigram, DamagedVocabulariesAreRefused) {
  const Vocabulary good = load_golden("unigram")->vocabulary();
  const auto error_with = [&](auto&& change) {
    Vocabulary bad = good;
    change(bad);
    return error_of([&] { static_cast<void>(Tokenizer::create(std::move(bad))); });
  };
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.scores.clear(); }), HasSubstr("needs scores"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.unknown = -1; }), HasSubstr("unknown_token_id"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.scores[7] = 1.0f / 0.0f; }), HasSubstr("the score of token 7"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.tokens[9] = std::string(1025, 'a'); }),
              HasSubstr("token 9 has 1025 bytes"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.charsmap.resize(3); }), HasSubstr("3 bytes and a table of 0"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.charsmap.pop_back(); }), HasSubstr("without an end"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.charsmap[3] = '\x7F'; }), HasSubstr("contradict"));
  EXPECT_THAT(error_with([](Vocabulary& bad) { bad.charsmap += std::string(2000, 'a') + '\0'; }),
              HasSubstr("longer than 1,024"));
}

TEST(Charsmap, DamagedTablesNeverLeadOutside) {
  const std::string good = load_golden("unigram")->vocabulary().charsmap;
  EXPECT_EQ(Charsmap(good).match("\uFF21 b").replacement, "A");
  EXPECT_EQ(Charsmap(good).match("b").length, 0u);
  for (std::size_t at = 4; at < 4096; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    const Charsmap map(bad);
    for (const char* text : {"\uFF21", "\u00E9\u0301", "\uFB01x", "\u1E9B\u0323"}) {
      const Charsmap::Match match = map.match(text);
      EXPECT_LE(match.length, std::string_view(text).size());
      EXPECT_LE(match.replacement.size(), 1024u);
    }
  }
}

TEST(PrefixTrie, FindsTheEntriesAndTheirBeginnings) {
  const PrefixTrie trie({{"b", 4}, {"ab", 3}, {"a", 1}, {"abc", 2}, {"", 9}, {"a", 0}});
  const auto id_of = [&](std::string_view text) {
    std::int32_t node = PrefixTrie::root;
    for (const char c : text) {
      node = trie.child(node, c);
      if (node < 0) {
        return -2;
      }
    }
    return trie.id(node);
  };
  EXPECT_EQ(id_of("a"), 0);
  EXPECT_EQ(id_of("ab"), 3);
  EXPECT_EQ(id_of("abc"), 2);
  EXPECT_EQ(id_of("b"), 4);
  EXPECT_EQ(id_of(""), -1);
  EXPECT_EQ(id_of("c"), -2);
  EXPECT_EQ(id_of("abcd"), -2);
  EXPECT_LT(PrefixTrie().child(PrefixTrie::root, 'a'), 0);
}

}  // namespace
}  // namespace rocmforge::test
