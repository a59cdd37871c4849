#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/work_budget.h"
#include "chat/json.h"

namespace rocmforge {

// JSON documents whose integers stay exact. nlohmann's values hold 64 bits; an integer that needs more would become a
// double. Here it is a "binary" value, which no JSON text can give otherwise, that holds the digits.

/// JSON from outside is read as deep as this.
constexpr std::int32_t max_json_depth = 96;

/// What pays for reading a text.
struct ReadingCost {
  WorkBudget* budget = nullptr;                    ///< null: none
  std::function<void(std::int64_t bytes)> hold{};  ///< is told of memory before it is taken, and may throw
};

struct JsonDocument {
  nlohmann::ordered_json value;
  std::string problem;  ///< what is wrong with the text and where; "" for nothing
};

/// Reads a text in a time that grows as the text does. Invalid: what is no JSON, is nested deeper than max_json_depth, holds
/// invalid UTF-8 or a number beyond the range of doubles. Of members with one name the last value counts. Throws what `cost`
/// throws.
JsonDocument read_json(std::string_view text, const ReadingCost& cost = {});

/// Frees all that is in `document`, of max_json_depth at most, and takes no memory for it: the library's own way takes some,
/// and ends the program where there is none.
void clear(nlohmann::ordered_json& document) noexcept;

/// The digits, with a sign where it is negative, of an integer that 64 bits do not hold; empty for every other value.
std::optional<std::string_view> long_integer(const nlohmann::ordered_json& value);

/// The same document with such integers rounded to doubles, for code that computes with them.
nlohmann::ordered_json rounded(nlohmann::ordered_json document);

/// The document on one line; text that is no UTF-8 has U+FFFD in its place.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace rocmforge
