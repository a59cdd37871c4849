#include "chat/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/decimal.h"
#include "chat/jinja/json_text.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/text_operations.h"

namespace rocmforge::jinja {
namespace {

Value default_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (bound.flag(1, false) && !is_true(value));
  return missing ? bound.value(0, run.literal("")) : value;
}

Value length_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "length", arguments, {});
  return Value::integer(static_cast<Integer>(length(run, value)));
}

Value attribute_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "attr", arguments, {"name"}, 1);
  if (value.mapping() != nullptr) {  // only an attribute, never the value of a key
    return attribute(run, Value(std::make_shared<const Mapping>()), bound.text(0).bytes());
  }
  return attribute(run, value, bound.text(0).bytes());
}

/// The text that int() and float() read: an optional sign and digits, without the single underscores between digits.
std::string number_text(std::string_view text) {
  text = text.substr(0, end_without_space(text));
  text.remove_prefix(skip_space(text));
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return "";
    }
  }
  return digits;
}

std::optional<Integer> parse_integer(std::string_view text, int base) {
  std::string digits = number_text(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  constexpr std::string_view prefixes = "bBoOxX";
  if (digits.size() > 2 && digits[0] == '0' && prefixes.find(digits[1]) != std::string_view::npos) {
    const char kind = static_cast<char>(digits[1] | 0x20);
    const int named = kind == 'b' ? 2 : (kind == 'o' ? 8 : 16);
    if (base == named || base == 0) {
      base = named;
      digits.erase(0, 2);
    }
  }
  const auto value = read_integer(digits, base == 0 ? 10 : base);
  return value.has_value() && negative ? std::optional(-*value) : value;
}

std::optional<double> parse_real(std::string_view text) {
  const std::string digits = number_text(text);
  // As Python reads them. read_decimal also accepts hexadecimal numbers and nan(...).
  if (digits.empty() || digits.find_first_of("xX(") != std::string::npos ||
      std::isspace(static_cast<unsigned char>(digits.front())) != 0) {
    return std::nullopt;
  }
  const DecimalPrefix read = read_decimal(digits);
  return read.length == digits.size() ? std::optional(read.value) : std::nullopt;
}

constexpr std::size_t longest_exact = 30;  // numbers of up to this many decimal digits fit read_integer

Value int_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "int", arguments, {"default", "base"});
  const std::int64_t base = bound.integer(1, 10);
  if (base != 0 && (base < 2 || base > 36)) {
    run.fail("int: the base must be 0 or 2 to 36");
  }
  constexpr double limit = 1e30;
  double number = value.real() != nullptr ? *value.real() : limit;
  if (const auto whole = value.whole()) {
    return Value::integer(*whole);
  }
  if (const Text* text = value.text()) {
    if (const auto integer = parse_integer(text->bytes(), static_cast<int>(base))) {
      return Value::integer(*integer);
    }
    const std::string digits = number_text(text->bytes());
    if (digits.size() > longest_exact && digits.find_first_not_of("+-0123456789") == std::string::npos) {
      run.fail("int: an integer that is too large");
    }
    number = parse_real(text->bytes()).value_or(limit);
  }
  if (value.is_undefined()) {
    run.fail(value.reason());
  }
  return std::abs(number) < limit ? Value::integer(static_cast<Integer>(number)) : bound.value(0, Value::integer(0));
}

Value float_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "float", arguments, {"default"});
  if (value.is_undefined()) {
    run.fail(value.reason());
  }
  const auto number = value.text() != nullptr ? parse_real(value.text()->bytes()) : value.number();
  return number.has_value() ? Value::real(*number) : bound.value(0, Value::real(0.0));
}

Value abs_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "abs", arguments, {});
  const auto number = value.number();
  if (!number.has_value()) {
    run.fail(value.is_undefined() ? value.reason() : fmt::format("abs: a number is needed, not {}", value.type_name()));
  }
  return *number < 0.0 ? negate(run, value, true) : negate(run, value, false);
}

/// Rounds the exact value to `precision` digits after the point, halves to even, like Python's round.
double round_common(double value, int precision) {
  constexpr int most_digits = 300;
  if (!std::isfinite(value) || precision > most_digits) {
    return value;
  }
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    return std::nearbyint(value / unit) * unit;
  }
  return read_decimal(fmt::format("{:.{}f}", value, precision)).value;
}

Value round_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "round", arguments, {"precision", "method"});
  const auto number = value.number();
  if (!number.has_value()) {
    run.fail(value.is_undefined() ? value.reason() : fmt::format("round: a number is needed, not {}", value.type_name()));
  }
  const int precision = static_cast<int>(std::clamp<std::int64_t>(bound.integer(0, 0), -300, 301));
  const std::string method = bound.has(1) ? bound.text(1).bytes() : "common";
  if (method == "common") {
    const bool stays_whole = value.whole().has_value();
    const double rounded = round_common(*number, precision);
    return stays_whole ? Value::integer(precision >= 0 ? *value.whole() : static_cast<Integer>(rounded))
                       : Value::real(rounded);
  }
  if (method != "ceil" && method != "floor") {
    run.fail("round: the method must be common, ceil or floor");
  }
  const double unit = std::pow(10.0, precision);
  return Value::real((method == "ceil" ? std::ceil(*number * unit) : std::floor(*number * unit)) / unit);
}

Value to_json_filter(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Bound bound(run, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound.has(1) && bound[1].text() != nullptr) {
    style.indent = bound.text(1).bytes();
  } else if (bound.has(1) && !bound[1].is_none()) {
    constexpr std::int64_t widest = 64;
    const std::int64_t width = bound.integer(1, 0);
    if (width > widest) {
      run.fail("tojson: an indent that is too wide");
    }
    style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const std::vector<Value> pair = items(run, bound[2]);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr) {
      run.fail("tojson: separators must be two texts");
    }
    style.separators = {pair[0].text()->bytes(), pair[1].text()->bytes()};
  }
  return run.text(to_json(run, value, style));
}

constexpr std::array<NamedFilter, 10> value_filters = {{
    {"default", default_filter},
    {"d", default_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"attr", attribute_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"tojson", to_json_filter},
}};

}  // namespace

Filter find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_list_filter, find_selection_filter}) {
    if (const Filter filter = find(name)) {
      return filter;
    }
  }
  return find_in(value_filters, name);
}

}  // namespace rocmforge::jinja
