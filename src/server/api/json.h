#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/work_budget.h"

namespace rocmforge {

using Json = nlohmann::ordered_json;

constexpr int max_json_depth = 96;

/// Frees all that is in `json`, of max_json_depth at most, and takes no memory for it: the library's own way takes some, and
/// ends the program where there is none.
void clear(Json& json) noexcept;

/// A document that is freed so.
struct Document {
  Json root;

  explicit Document(Json json) : root(std::move(json)) {}
  ~Document() { clear(root); }
  Document(Document&&) = default;
  Document& operator=(Document&&) = delete;
};

/// What pays for reading a text.
struct ReadingCost {
  WorkBudget* budget = nullptr;                    ///< null: none
  std::function<void(std::int64_t bytes)> hold{};  ///< is told of memory before it is taken, and may throw
};

/// Parses a request's body. Throws ApiError(400) for what is no JSON, is nested deeper than max_json_depth, holds invalid
/// UTF-8 or a number that no double can hold, or is no object.
Json parse_body(std::string_view body, const ReadingCost& cost = {});

/// On one line; text that is no UTF-8 has U+FFFD in its place.
std::string to_text(const Json& json);

/// The shortest number that is read back as `value`: 0.8 for a float that is 0.800000011920929 as a double.
Json number_of(float value);

}  // namespace rocmforge
