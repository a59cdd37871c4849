#include "grammar/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "grammar/byte_automaton.h"
#include "grammar_testing.h"

namespace rocmforge {
namespace {

using test::matches;
using testing::HasSubstr;

class Builder : public testing::Test {
 protected:
  std::shared_ptr<GrammarMatcher> finished(GrammarNode root) {
    return GrammarMatcher::create(builder.finish(root), test::small_trie());
  }
  GrammarNode digit() { return builder.characters(std::vector<CodeRange>{{U'0', U'9'}}); }

  WorkBudget budget{grammar_compile_units, "compiling"};
  GrammarBuilder builder{budget};
};

TEST_F(Builder, PiecesMayBePartsOfSeveralOthers) {
  const GrammarNode number = builder.repeat(digit(), 1, 3);
  const GrammarNode sum = builder.sequence({number, builder.any_number(builder.sequence({builder.literal("+"), number}))});
  const auto matcher =
      finished(builder.choice({sum, builder.sequence({builder.literal("-"), sum}), builder.literal("\"\\")}));
  for (const char* text : {"1", "123+4", "-7+8+901", "\"\\"}) {
    EXPECT_TRUE(matches(matcher, text)) << text;
  }
  for (const char* text : {"", "1234", "+1", "--1", "1+", "\""}) {
    EXPECT_FALSE(matches(matcher, text)) << text;
  }
}

TEST_F(Builder, PiecesThatAreSharedInEachOtherStayAsSmallAsTheyAreBuilt) {
  GrammarNode node = builder.literal("ab");
  for (int i = 0; i < 60; ++i) {
    node = builder.add_rule("twice", builder.sequence({node, node}));
  }
  const Grammar grammar = builder.finish(node);
  EXPECT_EQ(grammar.rules.size(), 61u);
  const auto matcher = GrammarMatcher::create(grammar, test::small_trie());
  GrammarMatcher::Cursor cursor(matcher);
  EXPECT_TRUE(cursor.accept("ababab"));
  EXPECT_FALSE(cursor.accept("b"));
}

TEST_F(Builder, SharingWithoutRulesIsRefusedWhereItMultiplies) {
  GrammarNode node = builder.literal("ab");
  for (int i = 0; i < 60; ++i) {
    node = builder.sequence({node, node});
  }
  const Grammar grammar = builder.finish(node);
  try {
    static_cast<void>(ByteAutomaton(grammar, budget));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("250000 places"));
  }
}

TEST_F(Builder, RulesMayReferToLaterOnes) {
  const GrammarRule list = builder.declare("list");
  const GrammarNode element = builder.choice({builder.literal("x"), builder.reference(list)});
  builder.define(list, builder.sequence({builder.literal("["), builder.any_number(element), builder.literal("]")}));
  const auto matcher = finished(builder.reference(list));
  EXPECT_TRUE(matches(matcher, "[x[[]x]]"));
  EXPECT_FALSE(matches(matcher, "[x"));
  EXPECT_FALSE(matches(matcher, "[]]"));
}

TEST_F(Builder, AnAutomatonHasTheTextsAlongItsEdges) {
  const std::vector<AutomatonState> states = {
      {.edges = {{builder.literal("a"), 1}, {builder.choice({builder.literal("xy"), digit()}), 2}}},
      {.edges = {{builder.literal("b"), 0}}, .ends = true},
      {.ends = true}};
  const GrammarNode node = builder.automaton(states);
  const GrammarNode nothing = builder.automaton(std::vector<AutomatonState>{{.ends = true}});
  const auto matcher = finished(builder.choice(
      {node, builder.sequence({builder.literal("("), builder.repeat(node, 2, 3), nothing, builder.literal(")")})}));
  for (const char* text : {"a", "aba", "xy", "7", "ababxy", "ab7", "(aa)", "(abaxy7)", "(axya)"}) {
    EXPECT_TRUE(matches(matcher, text)) << text;
  }
  for (const char* text : {"", "ab", "x", "aa", "77", "(a)", "()", "(aaaa)", "(ab)"}) {
    EXPECT_FALSE(matches(matcher, text)) << text;
  }
  EXPECT_THROW((void)builder.automaton(std::vector<AutomatonState>{}), LogicError);
}

TEST_F(Builder, AnAutomatonThatMayEndAtItsStartMayBeLeftOut) {
  const std::vector<AutomatonState> letters = {{.edges = {{builder.literal("a"), 0}}, .ends = true}};
  const GrammarNode node = builder.automaton(letters);
  const GrammarRule list = builder.declare("list");
  builder.define(list, builder.sequence({node, builder.choice({builder.literal(";"), builder.reference(list)})}));
  EXPECT_THROW((void)GrammarMatcher::create(GrammarBuilder(builder).finish(list), test::small_trie()), Error)
      << "the list can begin with itself";
  const auto matcher = finished(builder.sequence({node, builder.literal("!"), node}));
  for (const char* text : {"!", "aa!", "!a", "a!aaa"}) {
    EXPECT_TRUE(matches(matcher, text)) << text;
  }
}

TEST_F(Builder, RepetitionsOfOneOrNothingAreNoNodes) {
  const GrammarNode piece = digit();
  EXPECT_EQ(builder.repeat(piece, 1, 1), piece);
  EXPECT_EQ(builder.sequence({piece}), piece);
  EXPECT_EQ(builder.choice({piece}), piece);
  const auto matcher = finished(builder.sequence({builder.repeat(piece, 0, 0), builder.sequence({}), builder.literal("")}));
  EXPECT_TRUE(matches(matcher, ""));
  EXPECT_FALSE(matches(matcher, "1"));
}

TEST_F(Builder, MakesWhatTheParserMakes) {
  Grammar read = parse_gbnf("root ::= \"a\" ([0-9]{1,3} | \"\u00e9\")? ");
  const GrammarRule root = builder.declare("root");
  const GrammarNode a = builder.literal("a"), number = builder.repeat(digit(), 1, 3), letter = builder.literal("\u00e9");
  builder.define(root, builder.sequence({a, builder.optional(builder.choice({number, letter}))}), 1);
  EXPECT_EQ(builder.finish(root), read);
}

TEST_F(Builder, RefusesWhatExceedsALimit) {
  const GrammarNode piece = digit();
  const std::vector<std::pair<std::function<void()>, std::string>> cases = {
      {[&] { builder.repeat(piece, 0, 100'001); }, "more than 100000 repetitions"},
      {[&] { builder.repeat(piece, 100'001, GrammarBuilder::unbounded); }, "more than 100000 repetitions"},
      {[&] { builder.repeat(piece, 3, 2); }, "at most 2 repetitions are fewer than at least 3"},
      {[&] {
         for (int i = 0; i < 20'001; ++i) {
           builder.declare("r");
         }
       },
       "more than 20000 rules"},
      {[&] { builder.literal(std::string(5 << 20, 'a')); }, "more than 4194304 pieces"},
  };
  for (const auto& [build, message] : cases) {
    try {
      build();
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST_F(Builder, RefusesRulesThatNeverEnd) {
  const GrammarRule endless = builder.declare("endless");
  builder.define(endless, builder.sequence({digit(), builder.reference(endless)}));
  const GrammarRule fine = builder.declare("fine");
  builder.define(fine, builder.optional(builder.sequence({digit(), builder.reference(fine)})));
  GrammarBuilder with_both = builder;
  EXPECT_NO_THROW((void)builder.finish(fine)) << "nothing refers to the other rule";
  try {
    static_cast<void>(with_both.finish(endless));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rule 'endless' never comes to an end"));
  }
}

TEST_F(Builder, SpendsItsBudget) {
  WorkBudget little(100, "compiling");
  GrammarBuilder bounded(little);
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) {
          bounded.literal("a");
        }
      },
      Error);
}

TEST_F(Builder, MistakesOfCodeAreTold) {
  EXPECT_THROW((void)builder.choice(std::vector<GrammarNode>{}), LogicError);
  const GrammarRule rule = builder.declare("rule");
  const GrammarNode node = builder.reference(rule);
  EXPECT_THROW((void)GrammarBuilder(builder).finish(node), LogicError) << "it is not defined";
  builder.define(rule, builder.literal("a"));
  EXPECT_THROW(builder.define(rule, builder.literal("b")), LogicError);
}

}  // namespace
}  // namespace rocmforge
