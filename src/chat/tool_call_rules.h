#pragma once

#include <nlohmann/json_fwd.hpp>

#include "grammar/json_grammar.h"
#include "tokenizer/answer_formats.h"

namespace rocmforge {

/// One call of any of `tools` in this style. `tools` has the form of ChatRequest::tools and at least one element. In styles
/// that tag each argument, the pattern and length of text values are not checked. The schema of a tool may take
/// grammar_compile_units of `budget`. Throws the exceptions of json_schema_value().
GrammarNode tool_call_node(ToolCallStyle style, const nlohmann::ordered_json& tools, JsonGrammar& json, WorkBudget& budget);

}  // namespace rocmforge
