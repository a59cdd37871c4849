#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/grammar_matcher.h"
#include "engine/grammar/token_trie.h"
#include "schedule/token_constraint.h"

namespace rocmforge {

/// Holds a text to a grammar (docs/grammars.md). Throws Error for a bad one.
std::unique_ptr<TokenConstraint> make_grammar_constraint(const std::string& gbnf, std::shared_ptr<const TokenTrie> trie);
/// The same, sharing what `matcher` knows already: for many texts of one grammar.
std::unique_ptr<TokenConstraint> make_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher);

/// When a grammar begins inside a free text.
struct GrammarTrigger {
  std::string text{};                    ///< the grammar rules what follows this text; "" for none
  std::vector<std::int32_t> tokens{};    ///< and what follows each of these tokens, control tokens as well
  bool at_start_only = false;            ///< `text` counts only where nothing but blanks stands before it
  bool text_is_part_of_grammar = false;  ///< the grammar's own text begins with `text`
  bool repeats = false;                  ///< where the grammar is complete the text is free again; otherwise it ends there
};

/// Everything is allowed until the trigger comes.
std::unique_ptr<TokenConstraint> make_lazy_grammar_constraint(std::shared_ptr<GrammarMatcher> matcher,
                                                              GrammarTrigger trigger);

}  // namespace rocmforge
