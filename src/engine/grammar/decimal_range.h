#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/grammar/grammar_text.h"

namespace rocmforge {

/// A decimal number in digits: without an exponent, without leading zeros before the point or trailing ones behind it.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction{};

  [[nodiscard]] bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// From JSON's notation. None where that takes more than 40 digits on one side of the point.
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

/// An expression for the JSON numbers of a range: whole ones of up to 16 digits, or with up to 15 significant digits where
/// `fractions` are asked for, unless a bound needs more; without exponents where there is a bound. Fewer digits than a
/// double tells apart keep every number on its side of a bound when a reader rounds it. None where the range holds no such
/// number.
std::optional<std::string> decimal_range_grammar(const DecimalRange& range, bool fractions, GrammarText& grammar);

}  // namespace rocmforge
