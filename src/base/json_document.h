#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/work_budget.h"

namespace rocmforge {

// JSON documents whose integers stay exact. nlohmann's values hold 64 bits and would turn larger integers into doubles. Here
// such an integer is a "binary" value with its digits. JSON texts can't produce other binary values.

/// The number of levels to which JSON from outside may be nested inside its outermost value.
constexpr std::int32_t max_json_depth = 96;

/// Limits for reading a text.
struct ReadingCost {
  WorkBudget* budget = nullptr;                    ///< null: no limit
  std::function<void(std::int64_t bytes)> hold{};  ///< called before memory is allocated; may throw
};

struct JsonDocument {
  nlohmann::ordered_json value;
  std::string problem;  ///< what is wrong with the text, and where; "" if it is valid
};

/// Reads a text of n bytes in O(n log n). A text is invalid if it is not JSON, is nested deeper than max_json_depth, or
/// contains invalid UTF-8 or a number beyond the range of doubles. Of members with the same name, the value of the last is
/// kept. Throws the exceptions of `cost`.
JsonDocument read_json(std::string_view text, const ReadingCost& cost = {});

/// Frees the content of `document`, which may be nested up to max_json_depth, without allocating memory. The library's own
/// way allocates some, and ends the program if there is none.
void clear(nlohmann::ordered_json& document) noexcept;

/// The digits, with a sign if it is negative, of an integer that does not fit 64 bits. Empty for every other value.
std::optional<std::string_view> long_integer(const nlohmann::ordered_json& value);

/// The same document with such integers rounded to doubles, for code that computes with them.
nlohmann::ordered_json rounded(nlohmann::ordered_json document);

/// The document on one line. U+FFFD replaces invalid UTF-8.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace rocmforge
