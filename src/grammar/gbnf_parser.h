#pragma once

#include <cstddef>
#include <string_view>

#include "base/work_budget.h"
#include "grammar/grammar.h"

namespace rocmforge {

/// The limit of a grammar's text.
constexpr std::size_t longest_grammar_bytes = std::size_t{4} << 20;

/// Parses a grammar in GBNF as docs/grammars.md describes it; a text begins with the rule `root`. Checks that every named
/// rule is defined, and that every rule that `root` needs can derive a text of finite length. Throws Error with line and
/// column, or when the budget is spent.
Grammar parse_gbnf(std::string_view text, WorkBudget& budget);
/// With a budget of grammar_compile_units.
Grammar parse_gbnf(std::string_view text);

}  // namespace rocmforge
