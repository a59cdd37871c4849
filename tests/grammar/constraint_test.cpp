#include "grammar/grammar_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "base/error.h"
#include "grammar/json_schema.h"
#include "grammar_testing.h"
#include "linear_growth.h"

namespace rocmforge {
namespace {

using test::allowed_tokens;
using test::small_tokenizer;
using test::small_trie;
using testing::HasSubstr;

constexpr const char* json_grammar = R"(
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})? ws
ws ::= (" " | "\n" [ \t]{0,8})?
)";

std::int32_t token_of(const Tokenizer& tokenizer, std::string_view bytes) {
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    if (tokenizer.token_bytes(token) == bytes) {
      return token;
    }
  }
  ADD_FAILURE() << "no token '" << bytes << "'";
  return -1;
}

TEST(GrammarConstraint, AllowsTokensOfTheTextAlone) {
  const auto tokenizer = small_tokenizer({"ab", "abc", " a", "b", "x"});
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto constraint = test::constraint_of("root ::= \" \"? \"abc\"? \"<tool>\"?", trie);
  std::set<std::string> texts;
  for (const std::int32_t token : allowed_tokens(*constraint, *trie)) {
    EXPECT_TRUE(trie->is_end(token) || !trie->bytes(token).empty());
    EXPECT_NE(tokenizer->vocabulary().types[static_cast<std::size_t>(token)], TokenType::unused);
    texts.insert(trie->is_end(token) ? "END" : std::string(trie->bytes(token)));
  }
  EXPECT_EQ(texts, (std::set<std::string>{"END", " ", " a", "a", "ab", "abc", "<", "<tool>"}));
  EXPECT_FALSE(constraint->finished());

  constraint->accept(token_of(*tokenizer, "ab"));
  const std::vector<std::int32_t> next = allowed_tokens(*constraint, *trie);
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(trie->bytes(next[0]), "c");
  constraint->accept(next[0]);
  constraint->accept(token_of(*tokenizer, "<tool>"));
  EXPECT_TRUE(constraint->finished());
  EXPECT_EQ(allowed_tokens(*constraint, *trie), (std::vector<std::int32_t>{2}));
  constraint->accept(2);
  EXPECT_TRUE(constraint->finished());
}

TEST(GrammarConstraint, TokensMayEndInsideACharacter) {
  const auto tokenizer = small_tokenizer({"\u00e9"});
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto constraint = test::constraint_of("root ::= [\u00e0-\u00ef\u20ac]{2} \"!\"", trie);
  const auto leads = allowed_tokens(*constraint, *trie);
  EXPECT_EQ(leads.size(), 3u);  // C3, E2 and the whole character
  constraint->accept(token_of(*tokenizer, "\xE2"));
  for (const char* byte : {"\x82", "\xAC"}) {
    const auto next = allowed_tokens(*constraint, *trie);
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(trie->bytes(next[0]), byte);
    constraint->accept(next[0]);
  }
  constraint->accept(token_of(*tokenizer, "\xC3"));
  EXPECT_EQ(allowed_tokens(*constraint, *trie).size(), 16u);  // A0..AF
  constraint->accept(token_of(*tokenizer, "\xA9"));
  EXPECT_EQ(allowed_tokens(*constraint, *trie).size(), 1u);
}

TEST(GrammarConstraint, MasksEqualTryingEveryToken) {
  std::mt19937 random(3);
  std::vector<std::string> pieces;
  const std::vector<std::string> parts = {"{", "}", "[", "]", "\"", ":",  ",",      " ",    "\n",  "true",
                                          "e", "1", "-", ".", "\\", "u0", "\u00e9", "\xE2", "\x82"};
  for (int i = 0; i < 1500; ++i) {
    std::string piece;
    for (std::size_t length = 1 + random() % 5; length > 0; --length) {
      piece += parts[random() % parts.size()];
    }
    pieces.push_back(piece);
  }
  for (const char* grammar : {json_grammar, "root ::= \"{\" [^\\n]{0,40} \"}\"",
                              "root ::= (\"\\\"\" [^\"\\\\]{3,50} \"\\\"\" \"e\"*)* | .{0,17} | \"1\"* \"e1\"",
                              "root ::= \"[\" root \"]\" | \"[\" root \"]e\" | \"[[\" root \"}\" | \"\""}) {
    SCOPED_TRACE(grammar);
    const auto trie = small_trie(pieces);
    const auto matcher = test::matcher_of(grammar, trie);
    for (int walk = 0; walk < 6; ++walk) {
      const auto constraint = make_grammar_constraint(matcher);
      GrammarMatcher::Cursor place(matcher);
      for (int step = 0; step < 30; ++step) {
        std::vector<std::int32_t> expected;
        for (std::int32_t token = 0; token < trie->size(); ++token) {
          GrammarMatcher::Cursor copy(place);
          if (trie->is_end(token) ? place.may_end() : !trie->bytes(token).empty() && copy.accept(trie->bytes(token))) {
            expected.push_back(token);
          }
        }
        ASSERT_EQ(allowed_tokens(*constraint, *trie), expected);
        ASSERT_EQ(constraint->finished(), expected.size() == 1 && trie->is_end(expected[0]));
        const std::int32_t token = expected[random() % expected.size()];
        constraint->accept(token);
        if (trie->is_end(token)) {
          break;
        }
        ASSERT_TRUE(place.accept(trie->bytes(token)));
      }
    }
  }
}

TEST(GrammarConstraint, WalksOverRealVocabulariesStayInTheGrammar) {
  std::mt19937 random(5);
  for (const char* name : {"gpt-2", "llama-spm", "phi-3", "deepseek-coder"}) {
    SCOPED_TRACE(name);
    const auto trie = std::make_shared<const TokenTrie>(*test::load_golden(name));
    const auto matcher = test::matcher_of(json_grammar, trie);
    test::Walker walker(trie);
    int ended = 0;
    for (int walk = 0; walk < 10; ++walk) {
      const auto constraint = make_grammar_constraint(matcher);
      const test::Walk result = walker.walk(*constraint, random, 40);
      if (result.ended) {
        ++ended;
        EXPECT_TRUE(nlohmann::json::accept(result.text)) << result.text;
        EXPECT_TRUE(test::matches(matcher, result.text));
      }
    }
    EXPECT_GE(ended, 8);
  }
}

TEST(GrammarConstraint, AMaskInPiecesIsTheSameAndItsWorkIsCounted) {
  const auto trie = std::make_shared<const TokenTrie>(*test::load_golden("gpt-2"));
  const auto whole = test::constraint_of(json_grammar, trie);
  const auto pieces = test::constraint_of(json_grammar, trie);  // a matcher of its own, with empty caches
  std::vector<std::uint32_t> expected(trie->mask_words()), mask(trie->mask_words());
  std::mt19937 random(3);
  for (int step = 0; step < 12; ++step) {
    whole->allowed(expected);
    std::uint64_t before = pieces->work();
    int calls = 1;
    for (; !pieces->allowed_within(500, mask); ++calls) {
      EXPECT_GE(pieces->work() - before, 500u);
      EXPECT_LE(pieces->work() - before, 500 + GrammarMatcher::most_byte_work);
      before = pieces->work();
    }
    EXPECT_EQ(mask, expected) << "after " << calls << " calls";
    const auto tokens = allowed_tokens(*whole, *trie);
    const std::int32_t token = tokens[random() % tokens.size()];
    if (trie->is_end(token)) {
      break;
    }
    whole->accept(token);
    pieces->accept(token);
  }
  EXPECT_EQ(pieces->work(), whole->work());
}

// Limits of work must be far above the work for ordinary grammars.
TEST(GrammarConstraint, OrdinaryMasksTakeASmallPartOfTheirLimit) {
  std::uint64_t most = 0;
  for (const char* name : {"gpt-2", "llama-spm", "deepseek-coder"}) {
    const auto trie = std::make_shared<const TokenTrie>(*test::load_golden(name));
    for (const Grammar& grammar :
         {parse_gbnf(json_grammar), json_object_grammar(), parse_gbnf("root ::= .{0,17} \"!\""),
          parse_gbnf("root ::= [^a]+ \"a\""),
          json_schema_grammar(
              {{"properties", {{"name", {{"pattern", "^[A-Z][a-z]+( [A-Z][a-z]+)*$"}}}, {"n", {{"minimum", -7.5}}}}}})}) {
      std::mt19937 random(8);
      const auto constraint = make_grammar_constraint(GrammarMatcher::create(grammar, trie));
      std::vector<std::uint32_t> mask(trie->mask_words());
      for (int step = 0; step < 60 && !constraint->finished(); ++step) {
        const std::uint64_t before = constraint->work();
        constraint->allowed(mask);
        const auto tokens = allowed_tokens(*constraint, *trie);
        constraint->accept(tokens[random() % tokens.size()]);
        most = std::max(most, constraint->work() - before);
      }
    }
  }
  EXPECT_LE(most, GrammarMatcher::most_mask_work / 8);
}

TEST(GrammarConstraint, TellsItsMemory) {
  const auto trie = small_trie({"ab", "ba"});
  const auto small = test::matcher_of("root ::= \"a\"", trie);
  const auto large = test::matcher_of("root ::= ([a-z] [0-9] [A-Z]){3000}", trie);
  EXPECT_LT(small->memory_bytes(), 64u << 10);
  EXPECT_GT(large->memory_bytes(), std::size_t{9000} * 8);
  EXPECT_LT(large->memory_bytes(), std::size_t{2} << 20);
  const std::size_t before = large->memory_bytes();
  const auto constraint = make_grammar_constraint(large);
  (void)allowed_tokens(*constraint, *trie);
  EXPECT_GT(large->memory_bytes(), before);
}

TEST(GrammarConstraint, ClonesGoTheirOwnWay) {
  const auto tokenizer = small_tokenizer();
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto first = test::constraint_of("root ::= \"a\" (\"b\" | \"c\" \"d\")", trie);
  first->accept(token_of(*tokenizer, "a"));
  std::unique_ptr<TokenConstraint> third;
  {
    const auto second = first->clone();
    second->accept(token_of(*tokenizer, "c"));
    EXPECT_EQ(allowed_tokens(*second, *trie).size(), 1u);
    third = second->clone();
    second->accept(token_of(*tokenizer, "d"));
    EXPECT_TRUE(second->finished());
  }
  EXPECT_EQ(allowed_tokens(*first, *trie).size(), 2u);
  first->accept(token_of(*tokenizer, "b"));
  EXPECT_TRUE(first->finished());
  EXPECT_FALSE(third->finished());
  EXPECT_EQ(trie->bytes(allowed_tokens(*third, *trie).at(0)), "d");
}

TEST(GrammarConstraint, WrongCallsAreFaultsOfTheCaller) {
  const auto tokenizer = small_tokenizer();
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto constraint = test::constraint_of("root ::= \"a\"", trie);
  std::vector<std::uint32_t> short_mask(1);
  EXPECT_THROW(constraint->allowed(short_mask), LogicError);
  EXPECT_THROW(constraint->accept(2), LogicError);  // the text can't end yet
  EXPECT_THROW(constraint->accept(1), LogicError);  // a control token
  EXPECT_THROW(constraint->accept(-1), LogicError);
  EXPECT_THROW(constraint->accept(token_of(*tokenizer, "b")), LogicError);
  constraint->accept(token_of(*tokenizer, "a"));
  EXPECT_TRUE(constraint->finished());
}

TEST(GrammarConstraint, NeedsAVocabularyThatCanEndAndGoOn) {
  Vocabulary vocabulary = small_tokenizer()->vocabulary();
  vocabulary.eos = -1;
  vocabulary.tokens[2] = "<other>";
  const auto endless = Tokenizer::create(vocabulary);
  EXPECT_THROW((void)TokenTrie(*endless), Error);

  vocabulary = small_tokenizer()->vocabulary();
  vocabulary.types[3 + 'b'] = TokenType::unused;
  const auto tokenizer = Tokenizer::create(vocabulary);
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto constraint = test::constraint_of("root ::= \"ab\"", trie);
  constraint->accept(3 + 'a');
  std::vector<std::uint32_t> mask(trie->mask_words());
  try {
    constraint->allowed(mask);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no token of the vocabulary continues this text"));
  }
}

TEST(GrammarConstraint, EndlessTextsTakeBoundedMemory) {
  // Every byte of this text leads to a new state. The table must drop old states again and again, without an effect on
  // results.
  const auto trie = small_trie({"ab", "ba", "aab"});
  const auto matcher = test::matcher_of("root ::= (x{9000} \"!\")*\nx ::= [ab] | \"c\" [\u00e0-\uffff] \"c\"", trie);
  std::mt19937 random(1);
  const auto constraint = make_grammar_constraint(matcher);
  const auto old = make_grammar_constraint(matcher);
  old->accept(3 + 'a');
  std::string text;
  for (int step = 0; step < 20'000; ++step) {
    const auto tokens = allowed_tokens(*constraint, *trie);
    const std::int32_t token = tokens[random() % tokens.size()];
    if (trie->is_end(token)) {
      continue;
    }
    constraint->accept(token);
    text += trie->bytes(token);
  }
  GrammarMatcher::Cursor whole(test::matcher_of("root ::= ([ab] | \"c\" [\u00e0-\uffff] \"c\" | \"!\")*", trie));
  EXPECT_TRUE(whole.accept(text));
  EXPECT_EQ(allowed_tokens(*old, *trie).size(), 3u + 3u);
}

TEST(GrammarConstraint, HostileGrammarsEndWithAReason) {
  const std::vector<std::string> grammars = {
      // deep nesting
      "root ::= \"a\" root \"b\" | \"\"",
      "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" root root \"d\" | \"\"",
      // very ambiguous
      "root ::= (\"a\"{0,300} \"a\"{0,300} \"b\"?){0,300}",
      "root ::= x x x x x x x x\nx ::= (\"a\" | \"aa\" | \"aaa\" x \"b\" | \"a\" x \"c\")*",
  };
  const auto trie = small_trie({"aa", "aaaa", "aaaaaaaa", "aaaaaaaaaaaaaaaa", "ab", "ac"});
  for (const std::string& grammar : grammars) {
    SCOPED_TRACE(grammar);
    try {
      const auto constraint = test::constraint_of(grammar, trie);
      for (int step = 0; step < 5000; ++step) {
        ASSERT_FALSE(allowed_tokens(*constraint, *trie).empty());
        constraint->accept(3 + 'a');
      }
    } catch (const Error& error) {
      EXPECT_THAT(std::string(error.what()),
                  testing::AnyOf(HasSubstr("too ambiguous"), HasSubstr("too large"), HasSubstr("nested deeper")));
    } catch (const LogicError&) {  // no more 'a' is possible
    }
  }
}

TEST(GrammarConstraint, ServesSeveralThreads) {
  const auto trie = small_trie({"{\"", "\":", "\"a", "},", "true", " "});
  const auto matcher = test::matcher_of(json_grammar, trie);
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(9);
      test::Walker walker(trie);
      for (int walk = 0; walk < 5; ++walk) {
        texts[i] += walker.walk(*make_grammar_constraint(matcher), random, 60).text;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& text : texts) {
    EXPECT_EQ(text, texts[0]);
  }
}

// A mask must not examine each token: measured, the median is 0.002 ms and the slowest of a hundred takes 0.1 ms. The limit
// is the processor time of one addition for each byte of the vocabulary, measured in turn, so the test also works on a busy
// machine.
TEST(GrammarConstraintScale, MasksCostLessThanAWalkOverTheVocabulary) {
  const auto tokenizer = test::load_golden("gpt-2");
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto matcher = test::matcher_of(json_grammar, trie);
  std::vector<std::string> pieces;
  for (std::int32_t id = 0; id < 50257; ++id) {
    pieces.push_back(tokenizer->token_bytes(id));
  }
  std::mt19937 random(2);
  std::vector<std::uint32_t> mask(trie->mask_words());
  double masks_seconds = 0.0;
  double walks_seconds = 0.0;
  std::uint64_t sum = 0;
  for (int walk = 0; walk < 40; ++walk) {
    const auto constraint = make_grammar_constraint(matcher);
    for (int step = 0; step < 60; ++step) {
      masks_seconds += test::processor_seconds(1, [&] { constraint->allowed(mask); });
      walks_seconds += test::processor_seconds(1, [&] {
        for (const std::string& piece : pieces) {
          sum = std::accumulate(piece.begin(), piece.end(), sum);
        }
      });
      const auto tokens = allowed_tokens(*constraint, *trie);
      const std::int32_t token = tokens[random() % tokens.size()];
      if (trie->is_end(token)) {
        break;
      }
      constraint->accept(token);
    }
  }
  EXPECT_NE(sum, 0u);
  EXPECT_LT(masks_seconds, walks_seconds);
}

/// The marks of the harmony format are control tokens; its models do not write them as text.
TEST(LazyGrammar, MarksThatAreControlTokensTriggerItAndArePartOfIt) {
  Vocabulary vocabulary = small_tokenizer({"final", "analysis"})->vocabulary();
  for (const char* text : {"<|channel|>", "<|message|>", "<|other|>"}) {
    vocabulary.tokens.emplace_back(text);
    vocabulary.types.push_back(TokenType::control);
    vocabulary.scores.push_back(0);
  }
  const auto tokenizer = Tokenizer::create(std::move(vocabulary));
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto matcher = test::matcher_of("root ::= \"a\" \"<|message|>\" \"b\"", trie);
  const auto constraint = make_lazy_grammar_constraint(matcher, {.text = "<|channel|>final<|message|>"});
  const auto allowed = [&] {
    std::set<std::string> texts;
    for (const std::int32_t token : allowed_tokens(*constraint, *trie)) {
      texts.insert(std::string(trie->bytes(token)));
    }
    return texts;
  };
  for (const char* channel : {"analysis", "final"}) {
    EXPECT_EQ(allowed_tokens(*constraint, *trie).size(), static_cast<std::size_t>(trie->size())) << channel;
    for (const char* text : {"<|channel|>", channel, "<|message|>"}) {
      constraint->accept(token_of(*tokenizer, text));
    }
  }
  EXPECT_EQ(allowed(), (std::set<std::string>{"a"}));
  constraint->accept(token_of(*tokenizer, "a"));
  EXPECT_EQ(allowed(), (std::set<std::string>{"<", "<|message|>"}));
  constraint->accept(token_of(*tokenizer, "<|message|>"));
  EXPECT_EQ(allowed(), (std::set<std::string>{"b"}));
}

TEST(LazyGrammar, FreeUntilTheTriggerThenBound) {
  const auto tokenizer = small_tokenizer({"<call", ">1", ">x", "x<call>", "call>2", "</call>", "<call>3</"});
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto matcher = test::matcher_of("root ::= [0-9]+ \"</call>\"", trie);
  const auto constraint = make_lazy_grammar_constraint(matcher, {.text = "<call>", .repeats = true});
  const auto allows = [&](TokenConstraint& one, std::string_view bytes) {
    const auto tokens = allowed_tokens(one, *trie);
    return std::find(tokens.begin(), tokens.end(), token_of(*tokenizer, bytes)) != tokens.end();
  };
  const auto accept = [&](TokenConstraint& one, std::string_view bytes) {
    EXPECT_TRUE(allows(one, bytes)) << bytes;
    one.accept(token_of(*tokenizer, bytes));
  };
  EXPECT_EQ(allowed_tokens(*constraint, *trie).size(), static_cast<std::size_t>(trie->size()));  // control tokens too
  accept(*constraint, "<call");
  EXPECT_FALSE(allows(*constraint, ">x"));
  EXPECT_TRUE(allows(*constraint, ">1"));
  EXPECT_TRUE(allows(*constraint, ">"));
  EXPECT_TRUE(allows(*constraint, "<call>3</"));
  const auto fork = constraint->clone();
  accept(*fork, "x");
  EXPECT_TRUE(allows(*fork, ">x"));
  accept(*fork, "<call>3</");
  EXPECT_EQ(allowed_tokens(*fork, *trie).size(), 1u);

  accept(*constraint, ">1");
  EXPECT_FALSE(allows(*constraint, "x"));
  EXPECT_TRUE(allows(*constraint, "7"));
  accept(*constraint, "</call>");
  EXPECT_FALSE(constraint->finished());
  EXPECT_TRUE(allows(*constraint, "x"));  // free again
  accept(*constraint, "x<call>");
  EXPECT_FALSE(allows(*constraint, "</call>"));
  accept(*constraint, "9");
  accept(*constraint, "</call>");
  constraint->accept(2);
  EXPECT_TRUE(constraint->finished());
}

TEST(LazyGrammar, BeginsBehindReasoning) {
  const auto tokenizer = small_tokenizer({"<t>", "</t>", "</", "t>", "<call>", "</t><call>", "</t><call>x", "<call>x"});
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto matcher = test::matcher_of("root ::= [0-9]+ \"</call>\"", trie);
  const auto every = static_cast<std::size_t>(trie->size());
  const auto after = [&](bool is_open, std::initializer_list<std::string_view> tokens) {
    const auto constraint = make_lazy_grammar_constraint(
        matcher, {.text = "<call>", .tokens = {token_of(*tokenizer, "<call>")}, .thought = {"<t>", "</t>", is_open}});
    for (const std::string_view token : tokens) {
      constraint->accept(token_of(*tokenizer, token));
    }
    return allowed_tokens(*constraint, *trie).size();
  };
  EXPECT_EQ(after(true, {"<call>"}), every);
  EXPECT_EQ(after(true, {"<call>x", "x"}), every);
  EXPECT_EQ(after(false, {"\n", "<", "t>", "<call>", "x"}), every);
  EXPECT_EQ(after(false, {"<t>", "<call>", "x", "</", "t>", "x"}), every - 2);  // a call without digits is forbidden
  constexpr std::size_t digits = 10;
  EXPECT_EQ(after(true, {"<call>", "</t>", "<call>"}), digits);
  EXPECT_EQ(after(true, {"x", "</t><call>"}), digits);
  EXPECT_EQ(after(true, {"x", "</t><call>x"}), every);  // was allowed as reasoning
  EXPECT_EQ(after(false, {"<t>", "<call>", "</", "t>", "<call>"}), digits);
  EXPECT_EQ(after(false, {"x", "<t>", "<call>"}), digits);  // reasoning is only at the beginning
  EXPECT_EQ(after(false, {"<call>"}), digits);
}

TEST(LazyGrammar, BeginsAtATokenOrAtTheStart) {
  const auto tokenizer = small_tokenizer({" {", "{1"});
  const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
  const auto matcher = test::matcher_of("root ::= \"{\" [0-9]* \"}\"", trie);
  const auto by_token = make_lazy_grammar_constraint(matcher, {.tokens = {1}});
  by_token->accept(token_of(*tokenizer, "x"));
  by_token->accept(1);
  EXPECT_EQ(allowed_tokens(*by_token, *trie).size(), 2u);  // "{" and "{1"
  by_token->accept(token_of(*tokenizer, "{1"));
  by_token->accept(token_of(*tokenizer, "}"));
  EXPECT_TRUE(by_token->finished());
  EXPECT_EQ(allowed_tokens(*by_token, *trie), (std::vector<std::int32_t>{2}));

  const GrammarTrigger at_start{.text = "{", .at_start_only = true, .text_is_part_of_grammar = true};
  const auto json = make_lazy_grammar_constraint(matcher, at_start);
  json->accept(token_of(*tokenizer, "\n"));
  json->accept(token_of(*tokenizer, " {"));
  EXPECT_EQ(allowed_tokens(*json, *trie).size(), 11u);  // digits and "}"
  const auto prose = make_lazy_grammar_constraint(matcher, at_start);
  prose->accept(token_of(*tokenizer, "x"));
  prose->accept(token_of(*tokenizer, "{1"));
  EXPECT_EQ(allowed_tokens(*prose, *trie).size(), static_cast<std::size_t>(trie->size()));

  EXPECT_THROW((void)make_lazy_grammar_constraint(matcher, {.text = "[", .text_is_part_of_grammar = true}), Error);
}

}  // namespace
}  // namespace rocmforge
