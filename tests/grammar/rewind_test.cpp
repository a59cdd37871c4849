// Every constraint goes back over the last tokens, as if they had never been accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/thought_budget.h"
#include "grammar_testing.h"

namespace rocmforge {
namespace {

using test::allowed_tokens;
using Constraint = std::unique_ptr<TokenConstraint>;

/// Tokens that lead to every part of the constraints below.
const std::vector<std::string> pieces = {"<t>", "</t>", "<call>", "<c",  "all>", "{",      "}",       "\"a\"",
                                         ":",   "1",    "23",     "[",   "]",    ",",      "</call>", "</t><call>",
                                         "</",  "t>",   " ",      "end", "x",    "{\"a\":"};

struct Vocabulary {
  std::shared_ptr<const Tokenizer> tokenizer = test::small_tokenizer(pieces);
  std::shared_ptr<const TokenTrie> trie = std::make_shared<const TokenTrie>(*tokenizer);
  std::vector<std::int32_t> leading{};  ///< the tokens of `pieces`, and one that ends a text

  Vocabulary() {
    for (const std::string& piece : pieces) {
      for (std::int32_t token = 0; token < trie->size(); ++token) {
        if (trie->bytes(token) == piece) {
          leading.push_back(token);
        }
      }
    }
    leading.push_back(trie->end_ids().front());
    leading.insert(leading.end(), 6, tokenizer->find("</"));  // so that marks are often cut in two
  }

  [[nodiscard]] std::shared_ptr<GrammarMatcher> matcher(const std::string& gbnf) const {
    return test::matcher_of(gbnf, trie);
  }
  [[nodiscard]] Constraint grammar(const std::string& gbnf) const { return make_grammar_constraint(matcher(gbnf)); }
};

const char* const json = R"(
root ::= value
value ::= "{" ("\"a\"" ":" value ("," "\"a\"" ":" value)*)? "}" | "[" (value ("," value)*)? "]" | [0-9]{1,4} | "\"" [a-z<>/]* "\""
)";
const char* const call = "root ::= [0-9]+ (\"{\" [0-9]* \"}\")? \"</call>\"";

struct Case {
  const char* name;
  std::function<Constraint(const Vocabulary&)> make;
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

std::vector<Case> cases() {
  const LeadingThought thought{.begin = "<t>", .end = "</t>"};
  const auto lazy = [](GrammarTrigger trigger, const char* gbnf = call) {
    return [=](const Vocabulary& all) { return make_lazy_grammar_constraint(all.matcher(gbnf), trigger); };
  };
  const auto limited = [](bool is_open, std::int32_t tokens, bool has_inner) {
    return [=](const Vocabulary& all) {
      const ThoughtBudget budget{.begin = "<t>",
                                 .end = "</t>",
                                 .is_open = is_open,
                                 .tokens = tokens,
                                 .closing = {all.tokenizer->find("</"), all.tokenizer->find("t>")}};
      const Constraint inner = has_inner ? make_lazy_grammar_constraint(all.matcher(json), {.text = "</t>"}) : nullptr;
      return make_thought_budget(all.tokenizer, budget, inner.get());
    };
  };
  return {
      {"grammar", [](const Vocabulary& all) { return all.grammar(json); }},
      {"ambiguous",
       [](const Vocabulary& all) { return all.grammar("root ::= ([a-z<>/]* | \"<\" root \">\" | [{}\\[\\]] root)*"); }},
      {"lazy", lazy({.text = "<call>"})},
      {"lazy_repeats", lazy({.text = "<call>", .repeats = true})},
      {"lazy_token", lazy({.tokens = {1}})},
      {"lazy_at_start", lazy({.text = "{", .at_start_only = true, .text_is_part_of_grammar = true}, json)},
      {"lazy_thought", lazy({.text = "<call>", .thought = thought, .repeats = true})},
      {"lazy_open_thought", lazy({.text = "<call>", .thought = {.begin = "<t>", .end = "</t>", .is_open = true}})},
      {"limit", limited(false, 5, false)},
      {"limit_open", limited(true, 9, false)},
      {"limit_inner", limited(true, 7, true)},
      {"call_or_answer",
       [](const Vocabulary& all) { return make_call_or_answer(all.grammar(json), all.matcher(call), {.text = "<call>"}); }},
      {"call_or_answer_mark",
       [=](const Vocabulary& all) {
         return make_call_or_answer(make_lazy_grammar_constraint(all.matcher(json), {.text = "</t>"}), all.matcher(call),
                                    {.text = "<call>", .thought = {.begin = "<t>", .end = "</t>", .is_open = true}}, "</t>");
       }},
  };
}

class Rewind : public testing::TestWithParam<Case> {
 protected:
  /// A random token among the allowed ones; often one of `leading`.
  std::int32_t draw(const std::vector<std::int32_t>& allowed) {
    for (int attempt = 0; attempt < 40; ++attempt) {
      const std::int32_t token = all.leading[random() % all.leading.size()];
      if (std::ranges::binary_search(allowed, token)) {
        return token;
      }
    }
    return allowed[random() % allowed.size()];
  }

  /// Compares the masks after each token of a few texts, which complete marks that have begun and reach limits.
  void expect_same_future(const TokenConstraint& constraint, const TokenConstraint& fresh) {
    const std::vector<std::vector<std::string>> probes = {{"t>", "<call>", "x", "x", "x", "x", "x", "x", "x", "x"},
                                                          {"all>", "1"},
                                                          {"</t>", "<call>", "1", "{"},
                                                          {"x", "x", "x", "x", "x", "x", "x", "x", "x"},
                                                          {"{", "\"a\"", ":", "1", "}"}};
    for (const std::vector<std::string>& probe : probes) {
      const Constraint one = constraint.clone(), other = fresh.clone();
      for (const std::string& text : probe) {
        const std::vector<std::int32_t> allowed = allowed_tokens(*one, *all.trie);
        ASSERT_EQ(allowed, allowed_tokens(*other, *all.trie)) << text;
        const std::int32_t token = all.tokenizer->find(text);
        if (!std::ranges::binary_search(allowed, token)) {
          break;
        }
        one->accept(token);
        other->accept(token);
      }
      ASSERT_EQ(allowed_tokens(*one, *all.trie), allowed_tokens(*other, *all.trie));
    }
  }

  Vocabulary all;
  std::mt19937 random{11};
};

TEST_P(Rewind, TheMasksAreThoseOfTheTextThatIsLeft) {
  for (int walk = 0; walk < 15; ++walk) {
    const Constraint constraint = GetParam().make(all);
    std::vector<std::int32_t> text;
    for (int round = 0; round < 20; ++round) {
      constraint->checkpoint();
      const std::size_t before = text.size(),
                        most = random() % (random() % 2 == 0 ? 3 : TokenConstraint::most_draft_tokens + 1);
      while (text.size() - before < most && (text.empty() || !all.trie->is_end(text.back()))) {
        text.push_back(draw(allowed_tokens(*constraint, *all.trie)));
        constraint->accept(text.back());
      }
      const std::uint64_t work = constraint->work();
      const std::size_t count = random() % (text.size() - before + 1), first = random() % (count + 1);
      for (const std::size_t part : {first, count - first}) {
        constraint->rewind(part);
        text.resize(text.size() - part);
      }
      ASSERT_GE(constraint->work(), work);
      const Constraint fresh = GetParam().make(all);
      for (const std::int32_t token : text) {
        (void)allowed_tokens(*fresh, *all.trie);
        fresh->accept(token);
      }
      ASSERT_EQ(constraint->finished(), fresh->finished());
      if (!text.empty() && all.trie->is_end(text.back())) {
        break;
      }
      ASSERT_NO_FATAL_FAILURE(expect_same_future(*constraint, *fresh)) << "after " << text.size();
    }
  }
}

TEST_P(Rewind, AMarkBelongsToOneObjectAndToAFewTokens) {
  const Constraint constraint = GetParam().make(all);
  EXPECT_THROW(constraint->rewind(1), LogicError);
  constraint->checkpoint();
  const auto start = allowed_tokens(*constraint, *all.trie);
  const auto go_on = [&] {
    std::vector<std::int32_t> allowed = allowed_tokens(*constraint, *all.trie);
    std::erase_if(allowed, [&](std::int32_t token) { return all.trie->is_end(token); });
    if (allowed.empty()) {
      return false;
    }
    constraint->accept(draw(allowed));
    return true;
  };
  ASSERT_TRUE(go_on());
  const Constraint copy = constraint->clone();
  EXPECT_THROW(copy->rewind(1), LogicError);
  EXPECT_THROW(constraint->rewind(2), LogicError);
  constraint->rewind(1);
  EXPECT_EQ(allowed_tokens(*constraint, *all.trie), start);
  std::size_t accepted = 0;
  for (; accepted <= TokenConstraint::most_draft_tokens && go_on(); ++accepted) {
  }
  if (accepted > TokenConstraint::most_draft_tokens) {
    EXPECT_THROW(constraint->rewind(1), LogicError) << "the mark is too far away";
  } else {
    constraint->rewind(accepted);
    EXPECT_EQ(allowed_tokens(*constraint, *all.trie), start);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryConstraint, Rewind, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rocmforge
