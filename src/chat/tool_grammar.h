#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "chat/tool_calls.h"

namespace rocmforge {

/// The meaning of `tool_choice` in a request.
struct ToolChoice {
  bool is_required = false;  ///< the answer must be a call: "required", or a function by name
  std::string name{};        ///< the tool to call, once; "" for any of the tools
  bool parallel = true;      ///< parallel_tool_calls: several calls are allowed

  [[nodiscard]] bool is_single() const { return !parallel || !name.empty(); }
};

/// A grammar that makes calls follow the schemas of the tools.
struct ToolGrammar {
  /// The mark of a call if a call is required and has a mark. It must be appended to the prompt as text of the template, and
  /// be passed to the parser as the first text of the answer. The grammar matches the text after it.
  std::string opening;
  /// GBNF with a rule `root`.
  std::string gbnf;
  /// If a call is not required, the grammar begins to match at this text, or after it unless the text is part of the
  /// grammar. After the match, if `repeats`, the text is free again.
  std::string trigger;
  bool trigger_at_start_only = false;
  bool trigger_is_part_of_grammar = false;
  bool repeats = false;
};

/// Makes a grammar whose rule `root`, to which no other rule refers, matches JSON of a schema.
using SchemaToGbnf = std::function<std::string(const nlohmann::ordered_json& schema)>;

/// Makes the grammar. `tools` has the form of ChatRequest::tools. Throws Error when no tool has the chosen name, and the
/// exceptions of `schema_to_gbnf`.
ToolGrammar make_tool_grammar(ToolCallStyle style, const nlohmann::ordered_json& tools, const ToolChoice& choice,
                              const SchemaToGbnf& schema_to_gbnf);

/// The schema of a tool's arguments. A tool without one takes an empty object.
nlohmann::ordered_json parameters_of(const nlohmann::ordered_json& tool);

}  // namespace rocmforge
