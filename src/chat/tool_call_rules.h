#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "chat/tool_grammar.h"

namespace rocmforge {

/// The rule `tool-call`, which matches one call of any of `tools` in this style, and the rules that it refers to. `tools`
/// has the form of ChatRequest::tools and at least one element. In styles that tag each argument, the pattern and length of
/// text values are not checked.
std::string tool_call_rules(const ToolCallFormat& format, const nlohmann::ordered_json& tools,
                            const SchemaToGbnf& schema_to_gbnf);

}  // namespace rocmforge
