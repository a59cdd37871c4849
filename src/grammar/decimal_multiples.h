#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/builder.h"
#include "grammar/decimal_range.h"

namespace rocmforge {

/// Whether `value` is a multiple of `unit` (above 0), exactly.
bool is_multiple(const Decimal& value, const Decimal& unit);

/// The JSON numbers of a range that are multiples of all `units` (at least one, each above 0): without
/// exponents, of up to 15 digits, or 16 where they are integers, unless a bound needs more. None where there is no such
/// number. Throws Error where a unit has too many digits, or where telling the multiples takes too many rules.
std::optional<GrammarNode> decimal_multiples_grammar(const DecimalRange& range, const std::vector<Decimal>& units,
                                                     GrammarBuilder& grammar);

}  // namespace rocmforge
