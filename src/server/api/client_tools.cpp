#include "server/api/client_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "chat/message_json.h"
#include "grammar/pattern_grammar.h"

namespace rocmforge {
namespace {

struct ClientTool {
  std::string_view type;  ///< without a date
  std::string_view name;
  std::string_view description;
  std::string_view parameters;  ///< a JSON schema
};

// The arguments are those that the vendors document for these tools.
constexpr std::array client_tools = {
    ClientTool{"bash", "bash", "Runs a command in a bash shell that keeps its state between calls.",
               R"({"type": "object", "properties": {
                    "command": {"type": "string", "description": "The command to run."},
                    "restart": {"type": "boolean", "description": "true starts the shell anew."}}})"},
    ClientTool{"text_editor", "str_replace_based_edit_tool", "Shows, creates and edits text files.",
               R"({"type": "object", "properties": {
                    "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "undo_edit"]},
                    "path": {"type": "string", "description": "The file or folder."},
                    "view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: the first and last line; -1 is the end."},
                    "file_text": {"type": "string", "description": "create: the file's text."},
                    "old_str": {"type": "string", "description": "str_replace: a text that occurs exactly once."},
                    "new_str": {"type": "string", "description": "str_replace: what replaces it."},
                    "insert_line": {"type": "integer", "description": "insert: the line after which to insert."},
                    "insert_text": {"type": "string", "description": "insert: the text."}},
                    "required": ["command", "path"]})"},
    ClientTool{"memory", "memory", "Reads and writes files under /memories, which are kept between conversations.",
               R"({"type": "object", "properties": {
                    "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
                    "path": {"type": "string"}, "view_range": {"type": "array", "items": {"type": "integer"}},
                    "file_text": {"type": "string"}, "old_str": {"type": "string"}, "new_str": {"type": "string"},
                    "insert_line": {"type": "integer"}, "insert_text": {"type": "string"},
                    "old_path": {"type": "string"}, "new_path": {"type": "string"}}, "required": ["command"]})"},
    ClientTool{"computer", "computer", "Uses the mouse and the keyboard of a computer.",
               R"({"type": "object", "properties": {
                    "action": {"type": "string"}, "coordinate": {"type": "array", "items": {"type": "integer"}},
                    "start_coordinate": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"},
                    "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
                    "scroll_amount": {"type": "integer"}, "duration": {"type": "number"}}, "required": ["action"]})"},
    ClientTool{"local_shell", "local_shell", "Runs a command on the user's machine.",
               R"({"type": "object", "properties": {
                    "command": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."},
                    "working_directory": {"type": "string"}, "timeout_ms": {"type": "integer"}}, "required": ["command"]})"},
    ClientTool{"shell", "shell", "Runs commands in a shell on the user's machine.",
               R"({"type": "object", "properties": {
                    "commands": {"type": "array", "items": {"type": "string"}}, "timeout_ms": {"type": "integer"},
                    "max_output_length": {"type": "integer"}}, "required": ["commands"]})"},
    ClientTool{"apply_patch", "apply_patch", "Creates, updates or deletes one file.",
               R"({"type": "object", "properties": {
                    "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
                    "path": {"type": "string"}, "diff": {"type": "string", "description": "The change as a diff in the V4A format."}},
                    "required": ["type", "path"]})"},
};

/// "bash_20250124" without its date.
std::string_view without_date(std::string_view type) {
  const std::size_t last = type.rfind('_');
  const std::string_view end = last == std::string_view::npos ? "" : type.substr(last + 1);
  const bool is_date = !end.empty() && std::ranges::all_of(end, [](char c) { return c >= '0' && c <= '9'; });
  return is_date ? type.substr(0, last) : type;
}

/// Whether answers are held to the syntax. Any text is; a regular expression must match the whole text.
bool can_enforce(const TextSyntax& syntax) {
  if (syntax.kind != "regex") {
    return syntax.kind.empty();
  }
  try {
    WorkBudget budget(grammar_compile_units, "reading the pattern");
    static_cast<void>(pattern_grammar(syntax.definition, budget));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<Json> function_of_client_tool(std::string_view type, std::string_view name) {
  const auto found = std::ranges::find(client_tools, without_date(type), &ClientTool::type);
  if (found == client_tools.end()) {
    return std::nullopt;
  }
  return Json{{"name", name.empty() ? found->name : name},
              {"description", found->description},
              {"parameters", Json::parse(found->parameters)}};
}

Tool text_tool(const std::string& name, std::string_view description, const TextSyntax& syntax) {
  const bool is_enforced = can_enforce(syntax);
  Json input = {{"type", "string"}};
  if (is_enforced && syntax.kind == "regex") {
    input["pattern"] = fmt::format("^(?:{})$", syntax.definition);
  }
  const Json parameters = {{"type", "object"},
                           {"properties", {{"input", std::move(input)}}},
                           {"required", {"input"}},
                           {"additionalProperties", false}};
  Json function = {{"name", name},
                   {"description", syntax.definition.empty()
                                       ? std::string(description)
                                       : fmt::format("{}\nThe input has this syntax:\n{}", description, syntax.definition)},
                   {"parameters", parameters}};
  return {.name = name, .declaration = wrapped_function(std::move(function)), .is_relaxed = !is_enforced};
}

std::string input_of_text_tool(const std::string& arguments) {
  const JsonDocument document = read_json(arguments);
  const bool is_text = document.problem.empty() && document.value.is_object() && document.value.size() == 1 &&
                       document.value.contains("input") && document.value["input"].is_string();
  return is_text ? document.value["input"].get<std::string>() : arguments;
}

}  // namespace rocmforge
