#include "chat/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

const ordered_json& function_of(const ordered_json& tool) {
  const auto found = tool.find("function");
  return found != tool.end() ? *found : tool;
}

/// References of a schema that becomes part of another one at `place`.
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
    // Where "$ref" is the name of a property, its value is a schema and no text.
    if (key == "$ref" && value.is_string() && value.get_ref<const std::string&>().starts_with('#')) {
      value = place + value.get<std::string>().substr(1);
    } else if (key != "enum" && key != "const" && key != "default" && key != "examples") {
      move_references(value, place);
    }
  }
}

/// Rules begin lines, and no rule refers to the root.
std::string with_root_renamed(std::string gbnf, std::string_view new_name) {
  constexpr std::string_view root = "root ::=";
  std::size_t at = gbnf.starts_with(root) ? 0 : gbnf.find("\nroot ::=");
  check(at != std::string::npos, "a grammar without a root");
  at += gbnf[at] == '\n' ? 1 : 0;
  return gbnf.replace(at, std::string_view("root").size(), new_name);
}

/// The names of all rules of a grammar with `prefix` before them.
std::string with_prefix(std::string_view gbnf, std::string_view prefix) {
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  std::string out;
  for (std::size_t i = 0; i < gbnf.size();) {
    const char c = gbnf[i];
    std::size_t end = i + 1;
    if (c == '"' || c == '[') {
      const char close = c == '"' ? '"' : ']';
      while (end < gbnf.size() && gbnf[end] != close) {
        end += gbnf[end] == '\\' ? 2 : 1;
      }
      ++end;
    } else if (c == '#' || c == '{') {
      end = std::min(gbnf.find(c == '#' ? '\n' : '}', i), gbnf.size());
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      while (end < gbnf.size() && is_name(gbnf[end])) {
        ++end;
      }
      out += prefix;
    }
    out += gbnf.substr(i, end - i);
    i = end;
  }
  return out;
}

/// `"f[ARGS]" {...}` for each of the tools, whose grammars stand side by side.
std::string named_calls(const ordered_json& tools, const std::string& name, const SchemaToGbnf& schema_to_gbnf) {
  std::string calls;
  std::string rules;
  std::size_t count = 0;
  for (const ordered_json& tool : tools) {
    if (!name.empty() && function_of(tool).at("name") != name) {
      continue;
    }
    const ordered_json schema = tool_call_schema(ToolCallStyle::mistral_named, ordered_json::array({tool}), "");
    const std::string prefix = fmt::format("tool{}-", count);
    // Whatever a name holds, its JSON form is a literal of the grammar.
    const std::string head = ordered_json(function_of(tool).at("name").get<std::string>() + "[ARGS]").dump();
    calls += fmt::format("{}{} {}root", count++ == 0 ? "" : " | ", head, prefix);
    rules += with_prefix(schema_to_gbnf(schema), prefix) + "\n";
  }
  return fmt::format("tool-call ::= {}\n{}", calls, rules);
}

}  // namespace

ordered_json tool_call_schema(ToolCallStyle style, const ordered_json& tools, const std::string& name) {
  const char* arguments = style == ToolCallStyle::llama3 ? "parameters" : "arguments";
  std::size_t chosen = 0;
  for (const ordered_json& tool : tools) {
    chosen += name.empty() || function_of(tool).at("name") == name ? 1 : 0;
  }
  if (chosen == 0) {
    throw Error(name.empty() ? "tools: a call is required, but there is no tool"
                             : fmt::format("tool_choice: there is no tool '{}'", name));
  }
  ordered_json calls = ordered_json::array();
  for (const ordered_json& tool : tools) {
    const ordered_json& function = function_of(tool);
    if (!name.empty() && function.at("name") != name) {
      continue;
    }
    const auto given = function.find("parameters");
    ordered_json parameters =
        given != function.end() && !given->is_null()
            ? *given
            : ordered_json{{"type", "object"}, {"properties", ordered_json::object()}, {"additionalProperties", false}};
    const std::string place = chosen == 1 ? "#" : fmt::format("#/anyOf/{}", calls.size());
    move_references(parameters,
                    style == ToolCallStyle::mistral_named ? place : fmt::format("{}/properties/{}", place, arguments));
    if (style == ToolCallStyle::mistral_named) {
      calls.push_back(std::move(parameters));
      continue;
    }
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function.at("name")}}}, {arguments, std::move(parameters)}}},
                     {"required", {"name", arguments}},
                     {"additionalProperties", false}});
  }
  return calls.size() == 1 ? calls[0] : ordered_json{{"anyOf", std::move(calls)}};
}

ToolGrammar make_tool_grammar(ToolCallStyle style, const ordered_json& tools, const ToolChoice& choice,
                              const SchemaToGbnf& schema_to_gbnf) {
  const ordered_json schema = tool_call_schema(style, tools, choice.name);
  const std::string call = style == ToolCallStyle::mistral_named ? named_calls(tools, choice.name, schema_to_gbnf)
                                                                 : with_root_renamed(schema_to_gbnf(schema), "tool-call");
  ToolGrammar grammar;
  const auto repeated = [&](std::string_view separator) {
    return choice.is_single() ? std::string("tool-call") : fmt::format("tool-call (\"{}\" tool-call)*", separator);
  };
  std::string root;
  switch (style) {
    case ToolCallStyle::hermes:
      grammar.trigger = "<tool_call>";
      grammar.repeats = !choice.is_single();
      root = R"("\n" tool-call "\n</tool_call>")";
      if (choice.is_required && !choice.is_single()) {
        root += R"( ("\n<tool_call>\n" tool-call "\n</tool_call>")*)";
      }
      break;
    case ToolCallStyle::mistral_named:
      grammar.trigger = "[TOOL_CALLS]";
      grammar.repeats = !choice.is_single();
      root = choice.is_required && !choice.is_single() ? R"(tool-call ("[TOOL_CALLS]" tool-call)*)" : "tool-call";
      break;
    case ToolCallStyle::mistral:
    case ToolCallStyle::granite:
      grammar.trigger = style == ToolCallStyle::mistral ? "[TOOL_CALLS]" : "<|tool_call|>";
      root = fmt::format(R"("[" {} "]")", repeated(", "));
      break;
    case ToolCallStyle::llama3:
      grammar.trigger = "{\"name\"";
      root = repeated("; ");
      break;
    case ToolCallStyle::generic:
      grammar.trigger = "{\"tool_calls\"";
      root = fmt::format(R"("{{\"tool_calls\": [" {} "]}}")", repeated(", "));
      break;
  }
  grammar.trigger_is_part_of_grammar = grammar.trigger.starts_with('{');
  grammar.trigger_at_start_only = grammar.trigger_is_part_of_grammar;
  if (choice.is_required && !grammar.trigger_is_part_of_grammar) {
    grammar.opening = grammar.trigger;
  }
  grammar.gbnf = fmt::format("root ::= {}\n{}", root, call);
  return grammar;
}

}  // namespace rocmforge
