#include "option_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/decimal.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

template <class T>
struct Held {
  using Type = T;
};
template <class T>
struct Held<std::optional<T>> {
  using Type = T;
};

/// The type of a target's value.
template <class Pointer>
using ValueOf = typename Held<std::remove_pointer_t<Pointer>>::Type;

std::string number_text(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

std::string describe_range(const Range& range) {
  std::string text;
  if (std::isfinite(range.least) && std::isfinite(range.most)) {
    text = fmt::format("{} to {}", number_text(range.least), number_text(range.most));
  } else if (std::isfinite(range.least)) {
    text = fmt::format("at least {}", number_text(range.least));
  } else if (std::isfinite(range.most)) {
    text = fmt::format("at most {}", number_text(range.most));
  }
  if (range.special) {
    text += fmt::format(", or {} for {}", number_text(*range.special), range.special_note);
  }
  return text + (range.note.empty() ? "" : fmt::format(" ({})", range.note));
}

std::string describe_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  }
  return text;
}

struct NumberReading {
  bool whole = false;  ///< all of the text is a number
  bool in_range = false;
};

template <class T>
NumberReading read_digits(const std::string& text, T& value) {
  const char* begin = text.c_str() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const char* end = text.c_str() + text.size();
  if constexpr (std::is_integral_v<T>) {
    const auto [stop, error] = std::from_chars(begin, end, value);
    return {stop == end && error != std::errc::invalid_argument, error == std::errc()};
  } else {
    const DecimalPrefix read = read_decimal(std::string(begin, end));
    value = read.value;
    return {begin != end && begin + read.length == end && std::isspace(static_cast<unsigned char>(*begin)) == 0, true};
  }
}

template <class T>
T read_number(const Option& option, const std::string& text) {
  const auto fail = [&](const std::string& must) -> void {
    throw UsageError(fmt::format("{} is {}, must be {}", option.main_name(), text.empty() ? "empty" : text, must));
  };
  T value{};
  const auto [read_whole, in_range] = read_digits(text, value);
  const std::string range = describe_range(option.range);
  const bool whole = std::is_integral_v<T> || option.range.whole;
  const std::string kind = whole ? "a whole number" : "a number";
  if (!read_whole || (whole && std::isfinite(static_cast<double>(value)) &&
                      static_cast<double>(value) != std::floor(static_cast<double>(value)))) {
    fail(range.empty() ? kind : fmt::format("{}, {}", kind, range));
  }
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    const bool below = text.starts_with('-');
    if (!in_range && !std::isfinite(below ? option.range.least : option.range.most)) {  // only the type limits it
      fail(below ? fmt::format("at least {}", Limits::min()) : fmt::format("at most {}", Limits::max()));
    }
  }
  const auto wide = static_cast<double>(value);
  const bool fits = in_range && wide >= option.range.least && wide <= option.range.most;  // NaN does not
  const bool special = in_range && option.range.special == wide;
  if ((!fits && !special) || !std::isfinite(wide)) {
    fail(range.empty() ? kind + " that is not so large" : range);
  }
  return value;
}

std::string read_choice(const Option& option, const std::string& text) {
  if (!option.choices.empty() && std::ranges::find(option.choices, text) == option.choices.end()) {
    throw UsageError(fmt::format("{} is {}, must be {}", option.main_name(), text.empty() ? "empty" : text,
                                 describe_choices(option.choices)));
  }
  return text;
}

}  // namespace

void assign(const Option& option, const std::vector<std::string>& texts) {
  const auto set = [&](auto* target) {
    using Value = ValueOf<decltype(target)>;
    if constexpr (std::is_same_v<Value, bool>) {
      *target = texts.empty() || texts.back() != "false";
    } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
      target->clear();
      for (const std::string& text : texts) {
        target->push_back(read_choice(option, text));
      }
    } else if constexpr (std::is_same_v<Value, std::string>) {
      *target = read_choice(option, texts.back());
    } else {
      *target = read_number<Value>(option, texts.back());
    }
  };
  std::visit(set, option.target);
}

std::string describe_values(const Option& option) {
  return option.choices.empty() ? describe_range(option.range) : describe_choices(option.choices);
}

std::string default_text(const Option& option) {
  return std::visit(
      [](const auto* target) -> std::string {
        using Held = std::remove_cv_t<std::remove_pointer_t<decltype(target)>>;
        if constexpr (std::is_same_v<Held, std::string>) {
          return *target;
        } else if constexpr (std::is_arithmetic_v<Held> && !std::is_same_v<Held, bool>) {
          return number_text(static_cast<double>(*target));
        } else {
          return "";
        }
      },
      option.target);
}

ValueKind value_kind(const Option& option) {
  return std::visit(
      [&](auto* target) {
        using Value = ValueOf<decltype(target)>;
        return std::is_same_v<Value, bool>          ? ValueKind::flag
               : std::is_integral_v<Value>          ? ValueKind::integer
               : option.range.whole                 ? ValueKind::integer
               : std::is_floating_point_v<Value>    ? ValueKind::number
               : std::is_same_v<Value, std::string> ? ValueKind::text
                                                    : ValueKind::texts;
      },
      option.target);
}

std::string value_name(const Option& option) {
  if (!option.value.empty() || option.is_argument()) {
    return option.value.empty() ? option.names : option.value;
  }
  switch (value_kind(option)) {
    case ValueKind::flag:
      return "";
    case ValueKind::integer:
      return "N";
    case ValueKind::number:
      return "X";
    case ValueKind::text:
    case ValueKind::texts:
      return option.choices.empty() ? "TEXT" : "NAME";
  }
  return "";
}

}  // namespace rocmforge::app
