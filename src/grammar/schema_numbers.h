#pragma once

#include <optional>

#include "grammar/builder.h"
#include "grammar/schema_facets.h"

namespace rocmforge {

/// The numbers of `facets`, with `fractions` or without; none where there are none. Throws Error.
std::optional<GrammarNode> number_grammar(const SchemaFacets& facets, bool fractions, GrammarBuilder& grammar);

}  // namespace rocmforge
