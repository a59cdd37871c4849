#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/fake_model.h"
#include "engine/grammar/grammar_matcher.h"
#include "server/api/constraints.h"

namespace rocmforge {
namespace {

TEST(GrammarCache, SharesWhatIsInUseAndKeepsWhatWasUsedLast) {
  GrammarCache cache(byte_tokenizer());
  const auto held = cache.get("root ::= \"held\"");
  const std::weak_ptr<GrammarMatcher> dropped = cache.get("root ::= \"dropped\"");
  EXPECT_FALSE(dropped.expired());
  for (std::size_t i = 0; i < GrammarCache::most_grammars; ++i) {
    (void)cache.get(fmt::format("root ::= \"{}\"", i));
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(cache.get("root ::= \"held\""), held);
  EXPECT_GE(cache.memory_bytes(), held->memory_bytes());
}

}  // namespace
}  // namespace rocmforge
