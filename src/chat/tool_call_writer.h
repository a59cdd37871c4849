#pragma once

#include <string>

#include "base/json.h"
#include "tokenizer/answer_formats.h"

namespace rocmforge {

/// Calls as a model of this style writes them, for templates without a place for them. `calls` is an array of
/// {"name": "f", "arguments": {...}}.
std::string written_tool_calls(ToolCallStyle style, const nlohmann::ordered_json& calls);

}  // namespace rocmforge
