#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "chat/json.h"
#include "chat/tool_calls.h"

namespace rocmforge {

/// What `tool_choice` asks for.
struct ToolChoice {
  bool is_required = false;  ///< the answer is a call: "required", or a function by name
  std::string name{};        ///< "" for any of the tools; one that is named is called once
  bool parallel = true;      ///< parallel_tool_calls: several calls may come

  [[nodiscard]] bool is_single() const { return !parallel || !name.empty(); }
};

/// A grammar that holds calls to the schemas of the tools.
struct ToolGrammar {
  /// Where a call is required and marked: the mark. It goes to the end of the prompt as the template's own text, and to the
  /// parser as the answer's first text; the grammar holds for what follows.
  std::string opening;
  /// GBNF, with a rule `root`.
  std::string gbnf;
  /// Where a call is not required, the grammar holds from this text on (after it, unless it is part of the grammar). Then,
  /// if it repeats, the text is free again.
  std::string trigger;
  bool trigger_at_start_only = false;
  bool trigger_is_part_of_grammar = false;
  bool repeats = false;
};

/// Makes a grammar whose rule `root`, to which no other refers, is JSON of a schema.
using SchemaToGbnf = std::function<std::string(const nlohmann::ordered_json& schema)>;

/// `tools` as in ChatRequest. Throws Error when no tool has the chosen name, and what `schema_to_gbnf` throws.
ToolGrammar make_tool_grammar(ToolCallStyle style, const nlohmann::ordered_json& tools, const ToolChoice& choice,
                              const SchemaToGbnf& schema_to_gbnf);

/// The schema of a tool's arguments; without one they are an empty object.
nlohmann::ordered_json parameters_of(const nlohmann::ordered_json& tool);

}  // namespace rocmforge
