#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/grammar_matcher.h"
#include "grammar/token_constraint.h"
#include "grammar/token_trie.h"

namespace rocmforge {

/// Constrains a text to a grammar, with the caches of `matcher`, which many texts of one grammar may share.
std::unique_ptr<TokenConstraint> make_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher);

/// Reasoning at the beginning of a text, in which no grammar begins.
struct LeadingThought {
  std::string begin{}, end{};  ///< "" for `end`: there is no reasoning
  bool is_open = false;        ///< the text begins inside it
};

/// Where a grammar begins inside a free text.
struct GrammarTrigger {
  std::string text{};                    ///< the grammar begins behind this text; "" for none
  std::vector<std::int32_t> tokens{};    ///< and behind each of these tokens, control tokens as well
  bool at_start_only = false;            ///< `text` counts only if nothing but blanks precede it
  bool text_is_part_of_grammar = false;  ///< the grammar's own text begins with `text`
  LeadingThought thought{};              ///< where `text` and `tokens` do not count
  bool repeats = false;                  ///< where the grammar is complete the text is free again; otherwise it ends
};

/// Allows everything until the trigger occurs.
std::unique_ptr<TokenConstraint> make_lazy_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher,
                                                              GrammarTrigger trigger);

/// Allows the texts of `answer`, or the trigger and then texts of the grammar `call`. A call may begin where the answer
/// begins: at the start, or behind the first `mark`, until which `answer` leaves the text free.
std::unique_ptr<TokenConstraint> make_call_or_answer(std::unique_ptr<TokenConstraint> answer,
                                                     std::shared_ptr<GrammarMatcher> call, const GrammarTrigger& trigger,
                                                     std::string mark = {});

}  // namespace rocmforge
