#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "chat/jinja/interpreter.h"

namespace rocmforge::jinja {

/// The deepest nesting of JSON that is accepted.
constexpr std::int32_t deepest_json = 200;

/// The caller's data as a value. Its texts do not count as text of the template. Throws Error for JSON that is nested too
/// deeply.
Value from_json(const nlohmann::ordered_json& json);

struct JsonStyle {
  bool ensure_ascii = false;  ///< write other characters than ASCII as \uXXXX
  bool sort_keys = false;
  std::optional<std::string> indent;                              ///< of one level; if unset, all is on one line
  std::optional<std::pair<std::string, std::string>> separators;  ///< between items and after keys; if unset, Python's
};

/// The same text as Python's json.dumps. It counts as data of the caller, not as text of the template. Throws TemplateError.
Text to_json(Interpreter& run, const Value& value, const JsonStyle& style);

}  // namespace rocmforge::jinja
