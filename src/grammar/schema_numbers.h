#pragma once

#include <optional>
#include <string>

#include "grammar/grammar_text.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// An expression for the numbers of `facets`, with `fractions` or without; none where there are none. Throws Error.
std::optional<std::string> number_grammar(const SchemaFacets& facets, bool fractions, WorkBudget& budget,
                                          GrammarText& grammar);

}  // namespace rocmforge
