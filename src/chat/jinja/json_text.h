#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "chat/jinja/interpreter.h"

namespace rocmforge::jinja {

/// JSON nested deeper than this is refused.
constexpr std::int32_t deepest_json = 200;

/// The caller's data as a value; its texts count as data. Throws Error for JSON that is nested too deeply.
Value from_json(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;  ///< others than ASCII as \uXXXX
  bool sort_keys = false;
  std::optional<std::string> indent;                              ///< of one level; without it all is one line
  std::optional<std::pair<std::string, std::string>> separators;  ///< between items, after keys; Python's where unset
};

/// As Python's json.dumps. The whole of it counts as the caller's data.
Text to_json(Interpreter& run, const Value& value, const JsonStyle& style);

}  // namespace rocmforge::jinja
