#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "chat/tool_grammar.h"

namespace rocmforge {

/// The rule `tool-call` and those it needs: one call of any of `tools` as that style writes it. `tools` as in ChatRequest,
/// one at least. Text values of the styles that tag each argument are free: their schema's pattern and length do not hold.
std::string tool_call_rules(const ToolCallFormat& format, const nlohmann::ordered_json& tools,
                            const SchemaToGbnf& schema_to_gbnf);

}  // namespace rocmforge
