#include "chat/tool_grammar.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "base/json_document.h"
#include "chat/message_json.h"
#include "chat/tool_call_rules.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// The tools that `name` selects; all for "". Throws Error when there is none.
ordered_json chosen_tools(const ordered_json& tools, const std::string& name) {
  ordered_json chosen = ordered_json::array();
  for (const ordered_json& tool : tools) {
    if (name.empty() || function_of(tool).at("name") == name) {
      chosen.push_back(tool);
    }
  }
  if (chosen.empty()) {
    throw Error(name.empty() ? "tools: a call is required, but there is no tool"
                             : fmt::format("tool_choice: there is no tool '{}'", name));
  }
  return chosen;
}

}  // namespace

ordered_json parameters_of(const ordered_json& tool) {
  const ordered_json& function = function_of(tool);
  const auto given = function.find("parameters");
  return given != function.end() && !given->is_null()
             ? rounded(*given)
             : ordered_json{{"type", "object"}, {"properties", ordered_json::object()}, {"additionalProperties", false}};
}

ToolGrammar make_tool_grammar(ToolCallStyle style, const ordered_json& tools, const ToolChoice& choice, WorkBudget& budget) {
  const ToolCallFormat& format = tool_call_format(style);
  GrammarBuilder builder(budget);
  JsonGrammar json(builder);
  const GrammarNode call = tool_call_node(style, chosen_tools(tools, choice.name), json, budget);
  ToolGrammar grammar;
  // A call without a mark is recognised by its first characters.
  grammar.trigger = format.is_marked ? format.opening : format.bare;
  grammar.trigger_is_part_of_grammar = grammar.trigger_at_start_only = !format.is_marked;
  grammar.repeats = format.opens_each && !choice.is_single();
  grammar.opening = choice.is_required && format.is_marked ? grammar.trigger : "";
  std::vector<GrammarNode> parts = {builder.literal(format.before), call};
  const bool several = !choice.is_single() && !format.is_single && (choice.is_required || !format.opens_each);
  if (several) {
    parts.push_back(builder.any_number(builder.sequence({builder.literal(format.between), call})));
  }
  parts.push_back(builder.literal(format.after));
  grammar.grammar = builder.finish(builder.sequence(parts));
  return grammar;
}

}  // namespace rocmforge
