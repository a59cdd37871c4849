#include "grammar/cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "grammar/builder.h"
#include "grammar_testing.h"

namespace rocmforge {
namespace {

TEST(GrammarCache, SharesWhatIsInUseAndKeepsWhatWasUsedLast) {
  GrammarCache cache(test::small_tokenizer());
  WorkBudget budget(100'000'000, "reading");
  const auto held = cache.get(parse_gbnf("root ::= \"held\""), budget);
  const std::weak_ptr<GrammarMatcher> dropped = cache.get(parse_gbnf("root ::= \"dropped\""), budget);
  EXPECT_FALSE(dropped.expired());
  for (std::size_t i = 0; i < GrammarCache::most_grammars; ++i) {
    (void)cache.get(parse_gbnf(fmt::format("root ::= \"{}\"", i)), budget);
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(cache.get(parse_gbnf("root ::= \"held\""), budget), held);
  EXPECT_GE(cache.memory_bytes(), held->memory_bytes());
}

TEST(GrammarCache, CompilingIsAPartOfTheRequestsWork) {
  GrammarCache cache(test::small_tokenizer());
  const std::string gbnf = "root ::= [a-z]{0,20000}";
  WorkBudget enough(100'000'000, "reading");
  (void)cache.get(parse_gbnf(gbnf), enough);
  EXPECT_GE(enough.spent(), 20'000u);
  const std::uint64_t compiled = enough.spent();
  (void)cache.get(parse_gbnf(gbnf), enough);
  EXPECT_EQ(enough.spent(), compiled) << "it is known";
  WorkBudget little(compiled / 2, "reading");
  EXPECT_THROW((void)cache.get(parse_gbnf(gbnf + " \"b\""), little), Error);
  EXPECT_EQ(little.spent(), compiled / 2);
  WorkBudget stopped(100'000'000, "reading");
  stopped.stop();
  EXPECT_THROW((void)cache.get(parse_gbnf(gbnf + " \"c\""), stopped), Interrupted);
}

TEST(GrammarCache, TheSameGrammarFromATextAndFromNodesIsOne) {
  GrammarCache cache(test::small_tokenizer());
  WorkBudget budget(100'000'000, "reading");
  GrammarBuilder builder(budget);
  const auto built = cache.get(builder.finish(builder.sequence({builder.literal("a"), builder.literal("b")})), budget);
  Grammar read = parse_gbnf("root ::= \"a\" \"b\"");
  read.rules[0].line = 0;
  EXPECT_EQ(cache.get(std::move(read), budget), built);
  EXPECT_NE(cache.get(parse_gbnf("root ::= \"a\" \"c\""), budget), built);
}

TEST(GrammarCache, AKnownTextIsNotReadAgain) {
  GrammarCache cache(test::small_tokenizer());
  WorkBudget budget(100'000'000, "reading");
  const std::string text = "root ::= \"a\" \"b\"";
  const auto first = cache.get(text, budget);
  WorkBudget none(0, "reading");
  EXPECT_EQ(cache.get(text, none), first);
  EXPECT_EQ(cache.get(parse_gbnf(text), budget), first) << "the same from its nodes";
  EXPECT_THROW((void)cache.get(text + " ", none), Error) << "another text";
  const std::string large = text + std::string(GrammarCache::longest_known_text, ' ');
  EXPECT_EQ(cache.get(large, budget), first);
  EXPECT_THROW((void)cache.get(large, none), Error) << "is read each time";
  EXPECT_THROW((void)cache.get("root ::= (", budget), Error);
}

TEST(GrammarCache, WithoutATokenizerEveryGrammarIsRefused) {
  GrammarCache cache(nullptr);
  WorkBudget budget(1'000'000, "reading");
  EXPECT_THROW((void)cache.get(parse_gbnf("root ::= \"a\""), budget), Error);
}

}  // namespace
}  // namespace rocmforge
