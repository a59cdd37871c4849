#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/builder.h"

namespace rocmforge {

/// A decimal number in digits: without an exponent, without leading zeros before the point or trailing zeros after it.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction{};

  [[nodiscard]] bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Parses a JSON number. None if it has more than 40 digits on one side of the point.
std::optional<Decimal> parse_decimal(std::string_view json_number);

/// Below, equal or above: a negative, zero or positive number.
int compare(const Decimal& a, const Decimal& b);

struct DecimalBound {
  Decimal value;
  bool exclusive = false;
};
struct DecimalRange {
  std::optional<DecimalBound> lower, upper;
};

/// The JSON numbers of a range: integers of up to 16 digits, or with `fractions` numbers of up to 15
/// significant digits, unless a bound needs more. With a bound there are no exponents. The digits are fewer than a double
/// can represent, so a number stays on its side of a bound when a reader rounds it. None if the range holds no such number.
std::optional<GrammarNode> decimal_range_grammar(const DecimalRange& range, bool fractions, GrammarBuilder& grammar);

}  // namespace rocmforge
