#pragma once

#include <cstddef>
#include <string>

namespace rocmforge {

/// The number at the beginning of a text.
struct DecimalPrefix {
  double value = 0.0;
  std::size_t length = 0;  ///< in bytes; 0: there is no number
};

/// Reads as strtod does in the C locale, whatever LC_NUMERIC the program that loaded this library has set: leading white
/// space, a sign, digits with a point, an exponent, hexadecimal numbers, inf and nan. Infinite where the number is too
/// large.
DecimalPrefix read_decimal(const std::string& text);

}  // namespace rocmforge
