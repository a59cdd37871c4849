#include "base/decimal.h"

#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale is POSIX
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): strtod_l

#include "base/error.h"

namespace rocmforge {

// std::from_chars would do, but some standard libraries lack it for floating-point numbers.
DecimalPrefix read_decimal(const std::string& text) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  if (c_locale == nullptr) {
    throw Error("the C locale cannot be opened");
  }
  char* end = nullptr;
  const double value = strtod_l(text.c_str(), &end, c_locale);
  return {value, static_cast<std::size_t>(end - text.c_str())};
}

}  // namespace rocmforge
