#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/fake_model.h"
#include "grammar/grammar_matcher.h"
#include "server/api/constraints.h"

namespace rocmforge {
namespace {

TEST(GrammarCache, SharesWhatIsInUseAndKeepsWhatWasUsedLast) {
  GrammarCache cache(byte_tokenizer());
  WorkBudget budget(100'000'000, "reading");
  const auto held = cache.get("root ::= \"held\"", budget);
  const std::weak_ptr<GrammarMatcher> dropped = cache.get("root ::= \"dropped\"", budget);
  EXPECT_FALSE(dropped.expired());
  for (std::size_t i = 0; i < GrammarCache::most_grammars; ++i) {
    (void)cache.get(fmt::format("root ::= \"{}\"", i), budget);
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(cache.get("root ::= \"held\"", budget), held);
  EXPECT_GE(cache.memory_bytes(), held->memory_bytes());
}

TEST(GrammarCache, CompilingIsAPartOfTheRequestsWork) {
  GrammarCache cache(byte_tokenizer());
  const std::string gbnf = "root ::= [a-z]{0,20000}";
  WorkBudget enough(100'000'000, "reading");
  (void)cache.get(gbnf, enough);
  EXPECT_GE(enough.spent(), 20'000u);
  const std::uint64_t compiled = enough.spent();
  (void)cache.get(gbnf, enough);
  EXPECT_EQ(enough.spent(), compiled) << "it is known";
  WorkBudget little(compiled / 2, "reading");
  EXPECT_THROW((void)cache.get(gbnf + " \"b\"", little), Error);
  EXPECT_EQ(little.spent(), compiled / 2);
  WorkBudget stopped(100'000'000, "reading");
  stopped.stop();
  EXPECT_THROW((void)cache.get(gbnf + " \"c\"", stopped), Interrupted);
}

}  // namespace
}  // namespace rocmforge
