#include "gateway/asked_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/blanks.h"
#include "base/decimal.h"
#include "base/error.h"
#include "base/json_document.h"
#include "base/printable.h"
#include "server/api/multipart.h"

namespace rocmforge {
namespace {

constexpr std::size_t longest_value = 4096;  ///< a name is shorter

/// Walks over the members of an object.
class Members {
 public:
  explicit Members(std::string_view text) : text_(text) {}

  /// Calls `take` with the name and the value of each, as they stand in the text.
  template <class Take>
  void each(const Take& take) {
    if (!pass('{')) {
      return;
    }
    while (true) {
      const std::string_view name = value();
      if (name.empty() || !pass(':')) {
        return;
      }
      const std::string_view found = value();
      if (found.empty()) {
        return;
      }
      take(name, found);
      if (!pass(',')) {
        return;
      }
    }
  }

 private:
  bool pass(char wanted) {
    at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size());
    const bool is_there = at_ < text_.size() && text_[at_] == wanted;
    at_ += is_there ? 1 : 0;
    return is_there;
  }

  /// To the end of the string that begins at `at_`.
  void pass_string() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      at_ += text_[at_] == '\\' ? 1 : 0;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  /// The next value; "" at the end of the text.
  std::string_view value() {
    at_ = std::min(text_.find_first_not_of(blanks, at_), text_.size());
    const std::size_t begin = at_;
    std::size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
      if (depth == 0 && (closes || c == ',' || c == ':')) {
        break;
      }
      if (c == '"') {
        pass_string();
      } else {
        ++at_;
        depth += opens ? 1 : 0;
        depth -= closes ? 1 : 0;
      }
      if (depth == 0 && (closes || c == '"')) {
        break;
      }
    }
    const std::string_view found = text_.substr(begin, at_ - begin);
    return found.substr(0, found.find_last_not_of(blanks) + 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The text of a JSON string; empty for other values.
std::optional<std::string> text_of(std::string_view value) {
  if (!value.starts_with('"') || value.size() > longest_value) {
    return std::nullopt;
  }
  const JsonDocument read = read_json(value);
  return read.problem.empty() && read.value.is_string() ? std::optional(read.value.get<std::string>()) : std::nullopt;
}

/// The digits of a number, or a string's text.
std::optional<std::string> text_or_number(std::string_view value) {
  const bool is_number = !value.empty() && (value[0] == '-' || (value[0] >= '0' && value[0] <= '9'));
  return is_number ? std::optional(std::string(value.substr(0, longest_value))) : text_of(value);
}

struct Unit {
  std::string_view name;
  double milliseconds;
};
constexpr auto units = std::to_array<Unit>({{"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}, {"h", 3.6e6}, {"m", 6e4}, {"s", 1e3}});

}  // namespace

AskedModel read_asked_model(std::string_view body) {
  AskedModel asked;
  std::optional<std::string> other;
  Members(body).each([&](std::string_view name, std::string_view value) {
    if (name.size() > longest_value) {
      return;
    }
    const std::optional<std::string> key = text_of(name);
    if (key == "model") {
      asked.name = text_of(value);
    } else if (key == "name") {
      other = text_of(value);
    } else if (key == "keep_alive") {
      asked.keep_alive = text_or_number(value);
    }
  });
  if (!asked.name) {
    asked.name = std::move(other);
  }
  return asked;
}

AskedModel read_asked_form(std::string_view content_type, std::string_view body) {
  AskedModel asked;
  for (const FormPart& part : read_form(content_type, body, nullptr)) {
    if (part.name == "model") {
      asked.name = part.content.substr(0, longest_value);
    }
  }
  return asked;
}

KeepAlive read_keep_alive(std::string_view text) {
  constexpr double longest = 1e12;  // 31 years
  const auto wrong = [&] {
    return Error(fmt::format("'{}' is no time to stay loaded: give seconds, or 5m or 1h30m; -1 is for ever",
                             printable(text.substr(0, 64))));
  };
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  rest.remove_prefix(negative ? 1 : 0);
  double sum = 0.0;
  if (rest.empty()) {
    throw wrong();
  }
  while (!rest.empty()) {
    const std::string digits(rest.substr(0, rest.find_first_not_of("0123456789.")));
    const DecimalPrefix number = read_decimal(digits);
    if (digits.empty() || number.length != digits.size()) {
      throw wrong();
    }
    rest.remove_prefix(number.length);
    const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& one) { return rest.starts_with(one.name); });
    if (unit == units.end() && (!rest.empty() || sum != 0.0)) {
      throw wrong();
    }
    sum += number.value * (unit != units.end() ? unit->milliseconds : 1e3);
    rest.remove_prefix(unit != units.end() ? unit->name.size() : 0);
  }
  if (negative && sum > 0.0) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(sum, longest)));
}

}  // namespace rocmforge
