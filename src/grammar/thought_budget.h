#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grammar/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// The limit of an answer's reasoning.
struct ThoughtBudget {
  std::string begin{}, end{};           ///< the marks around its reasoning
  bool is_open = false;                 ///< the answer begins inside its reasoning; otherwise `begin` may be its first text
  std::int32_t tokens = 0;              ///< the most tokens of reasoning
  std::vector<std::int32_t> closing{};  ///< the forced tokens at the limit: a text with `end`
};

/// A constraint that ends reasoning at its limit: then only the tokens of `closing` may follow. Otherwise it allows what
/// `inner` allows; null: everything. A token of `closing` that `inner` forbids is not forced.
std::unique_ptr<TokenConstraint> make_thought_budget(std::shared_ptr<const Tokenizer> tokenizer, ThoughtBudget budget,
                                                     const TokenConstraint* inner);

}  // namespace rocmforge
