#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schedule/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// How much an answer may think before it answers.
struct ThoughtBudget {
  std::string begin{}, end{};           ///< the marks around its reasoning
  bool is_open = false;                 ///< the answer begins inside its reasoning; else `begin` may be its first text
  std::int32_t tokens = 0;              ///< of reasoning at most
  std::vector<std::int32_t> closing{};  ///< what ends it then: a text with `end`
};

/// Ends reasoning that has as many tokens as it may have: nothing but `closing` follows. Everything else is as `inner` has
/// it, which may be null: no other constraint. A token of `closing` that `inner` forbids is not forced.
std::unique_ptr<TokenConstraint> make_thought_budget(std::shared_ptr<const Tokenizer> tokenizer, ThoughtBudget budget,
                                                     const TokenConstraint* inner);

}  // namespace rocmforge
