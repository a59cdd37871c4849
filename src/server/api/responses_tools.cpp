#include "server/api/responses_tools.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "chat/message_json.h"
#include "server/api/api_error.h"
#include "server/api/chat_prompt.h"
#include "server/api/client_tools.h"

namespace rocmforge {
namespace {

/// Tools that the client runs and whose calls are items of their own.
struct ActionTool {
  std::string_view type, member;
};
constexpr std::array action_tools = {ActionTool{"local_shell", "action"}, ActionTool{"shell", "action"},
                                     ActionTool{"apply_patch", "operation"}, ActionTool{"tool_search", "arguments"}};

const ActionTool* action_tool(std::string_view type) {
  for (const ActionTool& tool : action_tools) {
    if (tool.type == type) {
      return &tool;
    }
  }
  return nullptr;
}

Json described_function(Fields& tool) {
  Json function = {{"name", tool.needed_text("name")}};
  for (const char* name : {"description", "parameters", "strict"}) {
    if (const Json* value = tool.find(name)) {
      function[name] = *value;
    }
  }
  return function;
}

/// A tool that takes a text, as chat completions describe it.
Json text_tool(Fields& tool) {
  Json custom = {{"name", tool.needed_text("name")}, {"description", tool.text("description").value_or("")}};
  const Json* format = tool.object("format");
  if (format != nullptr && string_of(*format, "type") == "grammar") {
    custom["format"] = {
        {"type", "grammar"},
        {"grammar", {{"syntax", string_of(*format, "syntax")}, {"definition", string_of(*format, "definition")}}}};
  }
  return custom;
}

/// Null for tools that run on the vendor's server.
Json action_function(Fields& tool, const std::string& type) {
  if (type == "tool_search" && tool.text("execution") == "client") {
    Json function = {{"name", type}};
    for (const char* name : {"description", "parameters"}) {
      if (const Json* value = tool.find(name)) {
        function[name] = *value;
      }
    }
    return function;
  }
  std::optional<Json> function = action_tool(type) == nullptr ? std::nullopt : function_of_client_tool(type, "");
  return function ? *std::move(function) : Json();
}

}  // namespace

void OfferedTools::offer(OfferedTool tool, Json&& described) {
  std::string& known = model_names_[{tool.in_namespace, tool.name}];
  if (!known.empty()) {
    return;  // a tool that a search found again
  }
  std::string name = tool.name;
  if (by_model_name_.contains(name) && !tool.in_namespace.empty()) {
    name = tool.in_namespace + (tool.in_namespace.ends_with("__") ? "" : "__") + tool.name;
  }
  known = name;
  described["name"] = name;
  functions_.push_back(tool.item == CallItem::text ? Json{{"type", "custom"}, {"custom", std::move(described)}}
                                                   : wrapped_function(std::move(described)));
  by_model_name_.emplace(std::move(name), std::move(tool));
  if (functions_.size() > most_tools) {
    throw ApiError(400, fmt::format("tools holds more than {} tools with those of namespaces and searches", most_tools),
                   "tools");
  }
}

void OfferedTools::add_namespace(Fields& tool) {
  const std::string in_namespace = tool.needed_text("name");
  const Json* inner = tool.array("tools");
  for (std::size_t i = 0; inner != nullptr && i < inner->size(); ++i) {
    Fields each = tool.inner((*inner)[i], fmt::format("{}[{}].", tool.full_name("tools"), i));
    const std::string type = each.text("type").value_or("function");
    if (type == "custom") {
      Json custom = text_tool(each);
      offer({.item = CallItem::text, .name = string_of(custom, "name"), .in_namespace = in_namespace}, std::move(custom));
    } else if (type == "function") {
      Json function = described_function(each);
      offer({.name = string_of(function, "name"), .in_namespace = in_namespace}, std::move(function));
    } else {
      each.note(type);
    }
  }
}

void OfferedTools::add(Fields& tool) {
  const std::string type = tool.needed_text("type");
  if (type == "namespace") {
    return add_namespace(tool);
  }
  if (type == "function") {
    Json function = described_function(tool);
    return offer({.name = string_of(function, "name")}, std::move(function));
  }
  if (type == "custom") {
    Json custom = text_tool(tool);
    return offer({.item = CallItem::text, .name = string_of(custom, "name")}, std::move(custom));
  }
  Json function = action_function(tool, type);
  if (function.is_null()) {
    return tool.note(type);
  }
  offer({.item = CallItem::action,
         .name = type,
         .call_type = type + "_call",
         .member = std::string(action_tool(type)->member)},
        std::move(function));
}

void OfferedTools::add_all(Fields& fields, std::string_view name) {
  const Json* given = fields.array(name);
  if (given != nullptr && given->size() > most_tools) {
    fields.fail(name, fmt::format("holds {} tools, at most {}", given->size(), most_tools));
  }
  for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
    Fields tool = fields.inner((*given)[i], fmt::format("{}[{}].", fields.full_name(name), i));
    add(tool);
  }
}

std::string OfferedTools::model_name(std::string_view name, std::string_view in_namespace) const {
  const auto found = model_names_.find({std::string(in_namespace), std::string(name)});
  return found == model_names_.end() ? std::string(name) : found->second;
}

OfferedTool OfferedTools::find(const std::string& model_name) const {
  const auto found = by_model_name_.find(model_name);
  return found == by_model_name_.end() ? OfferedTool{.name = model_name} : found->second;
}

Json OfferedTools::item(const std::string& model_name, std::string_view call_id, const std::string& arguments) const {
  const OfferedTool tool = find(model_name);
  if (tool.item == CallItem::action) {
    JsonDocument document = read_json(arguments);
    Json action = document.problem.empty() && document.value.is_object() ? std::move(document.value) : Json::object();
    Json item = {{"type", tool.call_type}, {"call_id", call_id}};
    if (tool.name == "local_shell") {
      action["type"] = "exec";
      if (!action.contains("env")) {
        action["env"] = Json::object();
      }
    } else if (tool.name == "tool_search") {
      item["execution"] = "client";
    }
    item[tool.member] = std::move(action);
    return item;
  }
  Json item = {{"type", tool.item == CallItem::text ? "custom_tool_call" : "function_call"},
               {"call_id", call_id},
               {"name", tool.name}};
  if (!tool.in_namespace.empty()) {
    item["namespace"] = tool.in_namespace;
  }
  if (tool.item == CallItem::text) {
    item["input"] = input_of_text_tool(arguments);
  } else {
    item["arguments"] = arguments;
  }
  return item;
}

}  // namespace rocmforge
