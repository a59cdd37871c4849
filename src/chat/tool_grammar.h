#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/work_budget.h"
#include "chat/answer_parser.h"
#include "grammar/grammar.h"

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
  Grammar grammar;
  /// If a call is not required, the grammar begins to match at this text, or after it unless the text is part of the
  /// grammar. After the match, if `repeats`, the text is free again.
  std::string trigger;
  bool trigger_at_start_only = false;
  bool trigger_is_part_of_grammar = false;
  bool repeats = false;
};

/// Makes the grammar. `tools` has the form of ChatRequest::tools. Each schema may take grammar_compile_units of `budget`.
/// Throws Error when no tool has the chosen name, and the exceptions of json_schema_value() and GrammarBuilder. Whether the
/// grammar is too large for an automaton is seen only when that is made (ByteAutomaton).
ToolGrammar make_tool_grammar(ToolCallStyle style, const nlohmann::ordered_json& tools, const ToolChoice& choice,
                              WorkBudget& budget);

/// The schema of a tool's arguments. A tool without one takes an empty object.
nlohmann::ordered_json parameters_of(const nlohmann::ordered_json& tool);

}  // namespace rocmforge
