#include "chat/tool_grammar.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/json_document.h"
#include "chat/message_json.h"
#include "chat/tool_call_rules.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// Adapts the references in a schema that becomes part of another schema at `place`.
void move_references(ordered_json& schema, const std::string& place) {
  if (schema.is_array()) {
    for (ordered_json& each : schema) {
      move_references(each, place);
    }
  }
  if (!schema.is_object()) {
    return;
  }
  for (auto& [key, value] : schema.items()) {
    // If "$ref" is the name of a property, its value is a schema and not a text.
    if (key == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with('#')) {
      value = place + value.get<std::string>().substr(1);
    } else if (key != "enum" && key != "const" && key != "default" && key != "examples") {
      move_references(value, place);
    }
  }
}

/// Renames the rule root. Each rule begins a line, and no rule refers to the root.
std::string with_root_renamed(std::string gbnf, std::string_view new_name) {
  constexpr std::string_view root = "root ::=";
  std::size_t at = gbnf.starts_with(root) ? 0 : gbnf.find("\nroot ::=");
  check(at != std::string::npos, "a grammar without a root");
  at += gbnf[at] == '\n' ? 1 : 0;
  return gbnf.replace(at, std::string_view("root").size(), new_name);
}

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

/// A name as a part of a JSON pointer in a URI fragment.
std::string pointer_token(std::string_view name) {
  std::string token;
  for (const char c : name) {
    token += c == '~' ? "~0" : c == '/' ? "~1" : c == '%' ? "%25" : std::string(1, c);
  }
  return token;
}

/// The JSON schema of one call as an object.
ordered_json call_schema(const ordered_json& tools, const ToolCallFormat& format) {
  ordered_json calls = ordered_json::array();
  for (const ordered_json& tool : tools) {
    ordered_json parameters = parameters_of(tool);
    const std::string place = tools.size() == 1 ? "#" : fmt::format("#/anyOf/{}", calls.size());
    const ordered_json& name = function_of(tool).at("name");
    const bool is_keyed = format.form == ToolCallFormat::Form::keyed;
    const std::string arguments = is_keyed ? name.get<std::string>() : std::string(format.keys.arguments);
    move_references(parameters, fmt::format("{}/properties/{}", place, pointer_token(arguments)));
    ordered_json properties = ordered_json::object(), required = ordered_json::array();
    if (!is_keyed && !format.keys.id.empty()) {
      properties[std::string(format.keys.id)] = {{"type", "string"}, {"pattern", "^[0-9]{1,3}$"}};
    }
    if (!is_keyed) {
      properties[std::string(format.keys.name)] = {{"const", name}};
      required.push_back(format.keys.name);
    }
    properties[arguments] = std::move(parameters);
    required.push_back(arguments);
    calls.push_back({{"type", "object"},
                     {"properties", std::move(properties)},
                     {"required", std::move(required)},
                     {"additionalProperties", false}});
  }
  return calls.size() == 1 ? calls[0] : ordered_json{{"anyOf", std::move(calls)}};
}

/// Whether whole calls in this style are JSON objects, so that one schema describes them.
bool writes_objects(ToolCallStyle style) {
  const ToolCallFormat::Form form = tool_call_format(style).form;
  return form == ToolCallFormat::Form::object || form == ToolCallFormat::Form::keyed || style == ToolCallStyle::mistral;
}

}  // namespace

ordered_json parameters_of(const ordered_json& tool) {
  const ordered_json& function = function_of(tool);
  const auto given = function.find("parameters");
  return given != function.end() && !given->is_null()
             ? rounded(*given)
             : ordered_json{{"type", "object"}, {"properties", ordered_json::object()}, {"additionalProperties", false}};
}

ToolGrammar make_tool_grammar(ToolCallStyle style, const ordered_json& tools, const ToolChoice& choice,
                              const SchemaToGbnf& schema_to_gbnf) {
  const ToolCallFormat& format = tool_call_format(style);
  const ordered_json chosen = chosen_tools(tools, choice.name);
  const std::string call = writes_objects(style)
                               ? with_root_renamed(schema_to_gbnf(call_schema(chosen, format)), "tool-call")
                               : tool_call_rules(format, chosen, schema_to_gbnf);
  ToolGrammar grammar;
  // A call without a mark is recognised by its first characters.
  grammar.trigger = format.is_marked ? format.opening : format.bare;
  grammar.trigger_is_part_of_grammar = grammar.trigger_at_start_only = !format.is_marked;
  grammar.repeats = format.opens_each && !choice.is_single();
  grammar.opening = choice.is_required && format.is_marked ? grammar.trigger : "";
  const auto literal = [](std::string_view text) { return text.empty() ? "" : ordered_json(text).dump() + " "; };
  const bool several = !choice.is_single() && !format.is_single && (choice.is_required || !format.opens_each);
  const std::string more = several ? fmt::format("({}tool-call)* ", literal(format.between)) : "";
  grammar.gbnf = fmt::format("root ::= {}tool-call {}{}\n{}", literal(format.before), more, literal(format.after), call);
  return grammar;
}

}  // namespace rocmforge
