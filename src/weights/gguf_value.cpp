#include "weights/gguf_value.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/printable.h"

namespace rocmforge {

namespace {

constexpr std::size_t longest_quote = 80;

[[noreturn]] void fail_kind(const GgufValue& value, std::string_view expected) {
  throw Error(fmt::format("is {}, {} was expected", describe(value), expected));
}

std::int64_t checked_integer(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    throw Error(fmt::format("is {}, over the largest signed 64-bit integer", value));
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string describe(const GgufValue& value) {
  static constexpr std::array<std::string_view, 5> scalars{"an integer", "an integer", "a float", "a boolean", "a string"};
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("an array of {}", name(array->element_type));
  }
  return std::string(scalars[value.index()]);
}

std::string quote(std::string_view text) {
  return fmt::format("'{}{}'", printable(text.substr(0, longest_quote)), text.size() > longest_quote ? "..." : "");
}

std::int64_t to_integer(const GgufValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return *integer;
  }
  if (const auto* integer = std::get_if<std::uint64_t>(&value)) {
    return checked_integer(*integer);
  }
  fail_kind(value, "an integer");
}

double to_number(const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    return *number;
  }
  if (const auto* integer = std::get_if<std::uint64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*integer);
  }
  fail_kind(value, "a number");
}

bool to_boolean(const GgufValue& value) {
  if (const auto* boolean = std::get_if<bool>(&value)) {
    return *boolean;
  }
  fail_kind(value, "a boolean");
}

const std::string& to_string(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    return *text;
  }
  fail_kind(value, "a string");
}

const std::vector<std::string>& to_strings(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    if (const auto* strings = std::get_if<std::vector<std::string>>(&array->elements)) {
      return *strings;
    }
  }
  fail_kind(value, "an array of strings");
}

std::vector<std::int64_t> to_integers(const GgufValue& value) {
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) {
    return {to_integer(value)};
  }
  return std::visit(
      [&](const auto& elements) -> std::vector<std::int64_t> {
        using T = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (std::is_integral_v<T>) {
          std::vector<std::int64_t> out;
          out.reserve(elements.size());
          for (const T element : elements) {
            if constexpr (std::is_same_v<T, std::uint64_t>) {
              out.push_back(checked_integer(element));
            } else {
              out.push_back(element);
            }
          }
          return out;
        } else {
          fail_kind(value, "an array of integers");
        }
      },
      array->elements);
}

std::vector<double> to_numbers(const GgufValue& value) {
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) {
    return {to_number(value)};
  }
  return std::visit(
      [&](const auto& elements) -> std::vector<double> {
        using T = typename std::decay_t<decltype(elements)>::value_type;
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          std::vector<double> out;
          out.reserve(elements.size());
          for (const T element : elements) {
            out.push_back(static_cast<double>(element));
          }
          return out;
        } else {
          fail_kind(value, "an array of numbers");
        }
      },
      array->elements);
}

}  // namespace rocmforge
